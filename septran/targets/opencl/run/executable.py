"""Kernels in OpenCL C as something to call: a driver compiles them at the first call."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from septran.emulator.launch import CudaProgram, KernelLaunch, Pointer
from septran.machine.as_json import from_json, to_json
from septran.machine.model import Machine
from septran.targets.base import Source
from septran.targets.call_sizes import CallSize, call_sizes
from septran.targets.cuda.run.executable import check_shared, program_from, program_to
from septran.targets.cuda.run.facts import kernel_facts
from septran.targets.opencl.run.device import Device, OpenClRefusedError, found, missing
from septran.targets.tensor_memory import as_bytes
from septran.tile.nodes import TileProgram

FACTS, TEXT = "kernel.json", "kernel.cl"
VECTOR = 16
"""Bytes that a work-item moves at once, to multiples of which tensors have to be aligned."""


@dataclass(frozen=True)
class OpenClExecutable:
    """The kernels of one operator, for any device."""

    name: str
    program: CudaProgram
    machine: Machine
    outputs: tuple[str, ...]
    """The tensors of a call that are written."""
    sizes: tuple[CallSize, ...] = ()
    """The extents that calls tell."""
    scratch: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The device's memory for temporaries, from the first call on."""

    def __call__(self, *arguments: Any) -> None:
        """Run on tensors in the order of the parameters, then the scalars; wait for the end."""
        device, count = found(), len(self.program.params)
        told = {size.name: size.of(arguments) for size in self.sizes}
        names = (name for name, _ in self.program.scalars)
        scalars = dict(zip(names, (*arguments[count:], *told.values()), strict=True))
        memory = dict(zip(self.program.params, map(as_bytes, arguments[:count]), strict=True))
        buffers = {name: _buffer(device, x) for name, x in memory.items()}
        held = {**buffers, **self._temporaries(device)}
        for launch in self.program.at(told).launches:
            self._launch(device, launch, held, scalars)
        for name in self.outputs:
            if memory[name].size:
                _fetch(device, buffers[name], memory[name])
        device.queue.finish()

    def _launch(
        self, device: Device, launch: KernelLaunch, held: Mapping[str, Any],
        scalars: Mapping[str, Any],
    ) -> None:  # fmt: skip
        kernel = self._kernels[launch.kernel]
        for place, argument in enumerate(launch.arguments):
            if isinstance(argument, Pointer):
                kernel.set_arg(place, held[argument.buffer])
            else:
                kernel.set_arg(place, np.dtype(argument.dtype).type(scalars[argument.name]))
        import pyopencl as cl

        try:
            cl.enqueue_nd_range_kernel(
                device.queue, kernel, (launch.grid * launch.block,), (launch.block,)
            )
        except cl.Error as error:
            raise OpenClRefusedError(f"{device} does not run {launch.kernel}: {error}") from error

    def _temporaries(self, device: Device) -> Mapping[str, Any]:
        import pyopencl as cl

        for name, size in self.program.scratch:
            if name not in self.scratch:
                self.scratch[name] = cl.Buffer(
                    device.context, cl.mem_flags.READ_WRITE, size=max(1, size)
                )
        return self.scratch

    @cached_property
    def _kernels(self) -> Mapping[str, Any]:
        """The kernels as the driver compiled them; raises OpenClRefusedError."""
        import pyopencl as cl

        device = found()
        self._check(device)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", cl.CompilerWarning)  # any word, of all is well
                program: Any = cl.Program(device.context, self.program.source)
                program.build(device.options, cache_dir=False)
        except cl.Error as error:
            raise OpenClRefusedError(
                f"{device} refused the OpenCL C of {self.name}:\n{str(error).strip()[:2000]}",
                hint="this is a mistake of SepTran or of the driver, not of your files; "
                "please report it",
            ) from error
        return {launch.kernel: cl.Kernel(program, launch.kernel) for launch in self._launches}

    @property
    def _launches(self) -> tuple[KernelLaunch, ...]:
        return self.program.launches

    def _check(self, device: Device) -> None:
        """Raise OpenClRefusedError where the device has less than the kernels take."""
        shared = max((launch.shared_bytes for launch in self._launches), default=0)
        group = max((launch.block for launch in self._launches), default=0)
        lacks = []
        if shared > device.device.local_mem_size:
            lacks.append(f"{shared:,} bytes of local memory of {device.device.local_mem_size:,}")
        if group > device.device.max_work_group_size:
            lacks.append(f"{group} work-items of {device.device.max_work_group_size}")
        extensions = device.device.extensions.split()
        for word, extension in (
            ("cl_khr_fp64", "cl_khr_fp64"), ("cl_khr_int64_base_atomics",) * 2,
        ):  # fmt: skip
            if f"EXTENSION {word}" in self.program.source and extension not in extensions:
                lacks.append(extension)
        if lacks:
            raise OpenClRefusedError(
                f"{self.name} needs {' and '.join(lacks)}, which {device} does not have",
                hint="choose smaller tiles in the mapping, or another type",
            )

    @property
    def executor(self) -> str:
        """The driver's name and version; empty where there is none."""
        return "" if missing() else found().platform

    @cached_property
    def source(self) -> Source:
        """OpenCL C, with what is known of it."""
        facts = kernel_facts(self.program, None, self.machine)
        lacking = missing()
        if lacking is None:
            facts["driver"] = str(found())
        else:
            facts["not compiled"] = lacking
        return Source(self.name, "opencl", self.program.source, {}, facts)

    def save(self, folder: Path) -> None:
        """The text, and all that launching it takes."""
        facts: dict[str, Any] = {
            "name": self.name, "program": program_to(self.program),
            "machine": to_json(self.machine), "outputs": self.outputs,
            "sizes": [size.facts for size in self.sizes],
        }  # fmt: skip
        (folder / TEXT).write_text(self.program.source, encoding="utf-8")
        (folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")


def _buffer(device: Device, memory: Any) -> Any:
    """A tensor's memory itself, where it lies as vectors must; else a copy of it."""
    import pyopencl as cl

    flags = cl.mem_flags
    if not memory.size:  # a buffer of no bytes is none, and no kernel reads it
        return cl.Buffer(device.context, flags.READ_WRITE, size=1)
    place = flags.COPY_HOST_PTR if memory.ctypes.data % VECTOR else flags.USE_HOST_PTR
    return cl.Buffer(device.context, flags.READ_WRITE | place, hostbuf=memory)


def _fetch(device: Device, buffer: Any, memory: Any) -> None:
    """See to it that what a kernel wrote is in the host's memory, too."""
    import pyopencl as cl

    if memory.ctypes.data % VECTOR:
        cl.enqueue_copy(device.queue, memory, buffer)
        return
    # Nothing is copied where device and host have one memory.
    view, _ = cl.enqueue_map_buffer(
        device.queue, buffer, cl.map_flags.READ, 0, memory.shape, memory.dtype
    )
    view.base.release(device.queue)


def build(program: CudaProgram, tile: TileProgram) -> OpenClExecutable:
    """What runs `program`; raises SharedMemoryError."""
    check_shared(program, tile)
    return OpenClExecutable(tile.name, program, tile.machine, tile.outputs, call_sizes(tile))


def load(folder: Path) -> OpenClExecutable:
    """Return what `OpenClExecutable.save` wrote."""
    facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    return OpenClExecutable(
        facts["name"], program_from(facts["program"]), from_json(facts["machine"]),
        tuple(facts["outputs"]), tuple(CallSize(*size) for size in facts["sizes"]),
    )  # fmt: skip
