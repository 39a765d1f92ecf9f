"""From TensorIR to something that runs: C or LLVM records, the simulator carries out."""

from __future__ import annotations

import ctypes
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm

from septran.machine.model import Machine
from septran.targets.base import Source, TensorIR
from septran.targets.cpu.build import compile_module
from septran.targets.cpu.isa import host_arch
from septran.targets.dsa.codegen import Code, generate
from septran.targets.dsa.commands import RECORD, parameter_address
from septran.targets.dsa.jit import JitProgram, recording
from septran.targets.dsa.machine_json import from_json, to_json
from septran.targets.dsa.recorder import BEGIN, TAKE, recorder_source
from septran.targets.dsa.steps import core_count, workspaces
from septran.targets.dsa.toolchain import build_library, compiler
from septran.targets.dsa.vendor import Vendor
from septran.tile.nodes import TileProgram

if TYPE_CHECKING:
    from septran.targets.dsa.profile import DsaProfile
    from septran.targets.dsa.simulator import Run

Array = np.ndarray[Any, Any]
KERNEL, LIBRARY, RECORDING, FACTS = "kernel.c", "kernel.so", "recording.json", "kernel.json"
_SCALARS: Mapping[str, Any] = {
    "float32": ctypes.c_float, "float64": ctypes.c_double, "int32": ctypes.c_int32,
    "int64": ctypes.c_int64, "bool": ctypes.c_uint8,
}  # fmt: skip


@dataclass(frozen=True)
class CProgram:
    """A control program that a C compiler compiled, with the recorder."""

    library: Any
    """The `ctypes.CDLL`."""
    path: Path
    name: str
    buffers: int
    scalars: tuple[str, ...]

    def __call__(self, core: int, scalars: Sequence[Any]) -> Array:
        """The records of one core."""
        getattr(self.library, BEGIN)(ctypes.c_int32(core))
        pointers = [ctypes.c_void_p(parameter_address(n)) for n in range(self.buffers)]
        numbers = [_SCALARS[t](v) for t, v in zip(self.scalars, scalars, strict=True)]
        getattr(self.library, self.name)(ctypes.c_int32(core), *pointers, *numbers)
        take = getattr(self.library, TAKE)
        take.restype = ctypes.c_int64
        first = ctypes.c_void_p()
        count = take(ctypes.byref(first))
        if not count or first.value is None:
            return np.zeros(0, RECORD)
        return np.frombuffer(ctypes.string_at(first.value, count * RECORD.itemsize), RECORD)


@dataclass(frozen=True)
class DsaExecutable:
    """A kernel for a DSA: its C, and its run on the simulated vendor library."""

    name: str
    machine: Machine
    source: Source
    program: CProgram | JitProgram
    """Gives the records of a core."""
    origins: Mapping[int, str]
    """Why the code of a line of the source is there."""
    cores: int
    tensors: int
    """How many tensors a call passes."""
    workspaces: tuple[int, ...]
    """Bytes of each temporary in main memory."""

    def __call__(self, *arguments: Any) -> None:
        """Run on tensors in the order of the parameters, then the scalars."""
        self.simulate(*arguments)

    def stream(self, scalars: Sequence[Any] = ()) -> Array:
        """What all cores' control programs ask for, one after another."""
        return np.concatenate([self.program(core, scalars) for core in range(self.cores)])

    def simulate(self, *arguments: Any, adversary: int | None = None) -> Run:
        """Run, and give the cycles and the trace; `adversary` is a seed of random delays."""
        from septran.targets.dsa.simulator import simulate

        memory = [as_bytes(x) for x in arguments[: self.tensors]]
        memory += [np.full(size, 0xFF, np.uint8) for size in self.workspaces]
        stream = self.stream(arguments[self.tensors :])
        return simulate(self.machine, stream, memory, origins=self.origins, adversary=adversary)

    def profile(self, program: TileProgram | None, *arguments: Any) -> DsaProfile:
        """Run, and tell what each command did (`septran.targets.base.SelfProfiling`)."""
        from septran.targets.dsa.profile import DsaProfile

        run = self.simulate(*arguments)
        stream = self.stream(arguments[self.tensors :])
        return DsaProfile(self.name, run, stream, self.origins, program)

    def save(self, folder: Path) -> None:
        """The C, what records it, and the machine."""
        (folder / KERNEL).write_text(self.source.text, encoding="utf-8")
        scalars: tuple[str, ...] = ()
        if isinstance(self.program, CProgram):
            (folder / LIBRARY).write_bytes(self.program.path.read_bytes())
            scalars = self.program.scalars
        else:
            (folder / RECORDING).write_text(tvm.ir.save_json(self.program.module))
        facts = {
            "name": self.name, "machine": to_json(self.machine), "cores": self.cores,
            "tensors": self.tensors, "workspaces": self.workspaces, "scalars": scalars,
            "parts": dict(self.source.parts), "facts": dict(self.source.facts),
            "origins": dict(self.origins),
        }  # fmt: skip
        (folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")


def build(ir: TensorIR, program: TileProgram) -> DsaExecutable:
    """The C of a kernel, compiled where there is a compiler, else recorded by LLVM."""
    vendor = Vendor(program.machine)
    function = ir.module[ir.name]
    code = generate(function, vendor, ir.name)
    extra = tuple(size for _, size in workspaces(program))
    scalars = tuple(s.dtype for s in program.scalars)
    if compiler() is None:
        recorded = _recorded(function, program.machine, code)
    else:
        recorded = _compiled(vendor, code, len(program.params) + len(extra), scalars)
    source = Source(
        ir.name,
        "c",
        code.text,
        {"vendor header": vendor.header_path.read_text(encoding="utf-8")},
        {"lines": code.text.count("\n"), "commands in the text": len(code.lines)},
    )
    cores = core_count(program)
    return DsaExecutable(
        ir.name, program.machine, source, recorded, code.origins, cores, len(program.params), extra
    )


def _compiled(vendor: Vendor, code: Code, buffers: int, scalars: tuple[str, ...]) -> CProgram:
    """Compile in a folder that lives as long as this process, as the library is loaded from it."""
    folder = Path(tempfile.mkdtemp(prefix="septran-dsa-"))
    (folder / vendor.header).write_bytes(vendor.header_path.read_bytes())
    (folder / "recorder.h").write_text(recorder_source(vendor), encoding="utf-8")
    (folder / KERNEL).write_text(code.text, encoding="utf-8")
    library = folder / LIBRARY
    options = ("-I", str(folder), "-include", str(folder / "recorder.h"))
    build_library(folder / KERNEL, library, options)
    return CProgram(ctypes.CDLL(str(library)), library, code.name, buffers, scalars)


def _recorded(function: Any, machine: Machine, code: Code) -> JitProgram:
    module = tvm.IRModule({"record": recording(function, machine, code.lines)})
    return _jit(module)


def _jit(module: Any) -> JitProgram:
    return JitProgram(module, compile_module(module, host_arch())["record"])


def load(folder: Path) -> DsaExecutable:
    """What `DsaExecutable.save` wrote."""
    facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    text = (folder / KERNEL).read_text(encoding="utf-8")
    source = Source(facts["name"], "c", text, facts["parts"], facts["facts"])
    program: CProgram | JitProgram
    if (folder / RECORDING).exists():
        program = _jit(tvm.ir.load_json((folder / RECORDING).read_text()))
    else:
        path = folder / LIBRARY
        buffers = facts["tensors"] + len(facts["workspaces"])
        scalars = tuple(facts["scalars"])
        program = CProgram(ctypes.CDLL(str(path)), path, facts["name"], buffers, scalars)
    return DsaExecutable(
        facts["name"],
        from_json(facts["machine"]),
        source,
        program,
        {int(line): why for line, why in facts["origins"].items()},
        facts["cores"],
        facts["tensors"],
        tuple(facts["workspaces"]),
    )


def as_bytes(x: Any) -> Array:
    """The memory of a contiguous tensor as bytes, without a copy."""
    if isinstance(x, np.ndarray):
        return x.reshape(-1).view(np.uint8)
    size = int(x.nbytes)
    if not size:
        return np.zeros(0, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(x.data_ptr()))
