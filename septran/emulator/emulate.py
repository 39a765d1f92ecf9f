"""Run a CUDA program on the CPU: translate, compile, launch, and report what happened."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from septran.emulator import build
from septran.emulator.errors import FAULTS, CudaPlace, EmulationError, MisuseError
from septran.emulator.launch import (
    Argument,
    CudaProgram,
    KernelLaunch,
    Pointer,
    StructArgument,
    TensorMap,
    registers_at_launch,
)
from septran.emulator.memory import GlobalMemory
from septran.emulator.native import COUNTS
from septran.emulator.process import Crash, CrashError, run
from septran.emulator.ptx import module as ptx_module
from septran.emulator.ptx.parse import is_ptx, parse, source_of
from septran.emulator.settings import MODES
from septran.emulator.sites import Sites, origin_of
from septran.emulator.tensor_maps import encode
from septran.emulator.trace import CONFLICT, RECORD, queues, trace_of
from septran.emulator.translation import blocks_beside, to_cpp
from septran.machine.model import Machine
from septran.simulator import TRACE

Array = np.ndarray[Any, Any]
NO_BLOCK = 0xFFFFFFFF
"""The block of what no thread did."""
TENSOR_MAP_ALIGNMENT = 64
"""Bytes; `CUtensorMap` is declared so."""
SECONDS = 3600.0
"""Time that a call has; a kernel that runs on for ever ends then."""
DOCUMENTED = 2
"""``Checks`` of runtime/interface.h: what documents ask for, and not all hardware does."""
RECORDS = 1 << 18
"""Records of a trace that are kept of one launch."""
# Bytes that a block can ask for by compute capability: 163, 227 and, of others, 99 KiB (CUDA
# programming guide, technical specifications).
_SHARED = {"80": 166912, "87": 166912, "90": 232448, "100": 232448, "103": 232448}
_NUMPY = {"bool": "uint8"}


@dataclass(frozen=True)
class BankConflict:
    """Accesses of one line to shared memory that took more wavefronts than they must."""

    place: CudaPlace
    requests: int
    """Instructions of warps (of ldmatrix and stmatrix: matrices)."""
    wavefronts: int
    """What the banks need for them."""
    ideal: int
    """What they would need without conflicts."""

    @property
    def conflicts(self) -> int:
        """Wavefronts too many."""
        return self.wavefronts - self.ideal


@dataclass(frozen=True)
class Emulation:
    """The result of one emulated call of a program."""

    statistics: Mapping[str, int]
    """Counts by name (`native.COUNTS`) of all launches; ``steps`` is the longest block's, summed
    over launches. Steps order a timeline; they are no time of a GPU."""
    accesses: tuple[BankConflict, ...] = field(repr=False)
    """Each line that accesses shared memory."""
    trace: Array = field(repr=False)
    """Records as the DSA's (`septran.simulator.TRACE`); empty unless asked for.
    ``command`` is a number in `trace.COMMANDS`, ``queue`` one in `queues`, ``core`` a
    multiprocessor, ``line`` of the CUDA text; ``flag`` are steps at mbarriers and groups."""
    queues: tuple[str, ...] = ()
    origins: Mapping[int, str] = field(default_factory=dict, repr=False)
    """The generator's comment next to each line of the trace."""

    @property
    def conflicts(self) -> tuple[BankConflict, ...]:
        """Lines with bank conflicts, the worst first."""
        found = [a for a in self.accesses if a.conflicts]
        return tuple(sorted(found, key=lambda a: -a.conflicts))


def emulate(
    program: CudaProgram,
    arrays: Mapping[str, Array],
    scalars: Mapping[str, Any] | None = None,
    *,
    seed: int | None = None,
    mode: str | None = None,
    machine: Machine | None = None,
    trace: bool = False,
    threads: int = 1,
    strict: bool = False,
    seconds: float | None = SECONDS,
) -> Emulation:
    """Run all launches of `program`; outputs are written into `arrays`.

    `mode` is of `MODES`; without one, no `seed` means eager, 0 late, and others random. With
    `strict` tensor cores may not read shared memory that nobody wrote; else it holds NaN, as
    rows of ragged tiles do that reach no output. It also holds PTX to what documents ask for and
    kernels that are right on GPUs leave out: a fence between mbarrier.init and a copy in the same
    block, parities of 0 and 1 alone. `threads` of the host share the blocks.
    The kernels run in a process of their own, which has so many `seconds`; what it faults by is
    an error with its place, as all that the emulator finds. Raises EmulationError.
    """
    if mode is None:
        mode = "eager" if seed is None else "random" if seed else "late"
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}; it is one of {', '.join(MODES)}")
    kernels = _compiled(program.source, program.arch or "sm_90a", program.lanes)
    memory = GlobalMemory(program, arrays)
    # Our own text keeps to the documents; of others that is asked for by `strict` alone.
    checks = strict | DOCUMENTED * (strict or not is_ptx(program.source))
    options = _Options(
        MODES.index(mode), seed or 0, threads, RECORDS if trace else 0, checks,
        _shared_limit(program, machine), seconds, program.lanes,
    )  # fmt: skip
    with contextlib.closing(memory):
        call = _Run(kernels, memory, dict(scalars or {}), options)
        call.launch(program.launches)
        memory.write_back()
        return call.result()


def compile_program(program: CudaProgram) -> None:
    """Compile for the host what `emulate` runs, which keeps it.

    Raises EmulationError for what the emulator does not take, and for a kernel to be launched that
    the text has not; HostCompilerError where the compiler refuses it.
    """
    _compiled(program.source, program.arch or "sm_90a", program.lanes)
    for launch in program.launches:
        _check_kernel(program.source, launch.kernel)


def _check_kernel(source: str, name: str) -> None:
    """Raise MisuseError where the text has no kernel of that name."""
    if not re.search(rf"\b{re.escape(name)}(?![$\w])", source):
        raise MisuseError(f"the CUDA text has no kernel {name!r}")


def _shared_limit(program: CudaProgram, machine: Machine | None) -> int:
    """Bytes of shared memory that a block can have."""
    for memory in machine.memories if machine else ():
        if memory.name == "SHARED" and memory.capacity_bytes:
            return memory.capacity_bytes
    return _SHARED.get(re.sub(r"\D", "", program.arch), 101376 if program.arch else 232448)


@functools.lru_cache(maxsize=64)
def _compiled(source: str, arch: str, lanes: int) -> Sites:
    ptx = is_ptx(source)
    translation = ptx_module.to_cpp(source) if ptx else to_cpp(source, arch)
    path = build.library(translation.text, translation.lines_before, lanes)
    origin = source_of if ptx else origin_of
    return Sites(path, source, translation.lines_before, origin)


def _registers(source: str, launch: KernelLaunch) -> int:
    """Registers of a thread that a kernel is launched with."""
    if is_ptx(source):
        kernel = parse(source).kernel(launch.kernel)
        return kernel.registers(launch.block) if kernel else 0
    return registers_at_launch(launch.block, blocks_beside(source, launch.kernel))


@dataclass(frozen=True)
class _Options:
    mode: int
    seed: int
    threads: int
    trace: int
    checks: int
    shared_limit: int
    seconds: float | None
    lanes: int


@dataclass
class _Run:
    """One call: its launches one after another."""

    sites: Sites
    memory: GlobalMemory
    scalars: dict[str, Any]
    options: _Options
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    conflicts: list[Array] = field(default_factory=list)
    traces: list[Array] = field(default_factory=list)

    def launch(self, launches: Sequence[KernelLaunch]) -> None:
        """Run kernels one after another; raises what one of them did wrong."""
        memory = self.memory
        request = {
            "library": str(self.sites.library), "memory": memory.base,
            "memory_bytes": memory.file.size, "buffers": memory.table,
            "launches": [self._request(n, launch) for n, launch in enumerate(launches)],
        }  # fmt: skip
        found = run(request, memory.file, self.options.seconds)
        if isinstance(found, Crash):
            raise self._crashed(found, launches)
        head, blobs = found
        for number, result in enumerate(head["results"]):
            self._take(result, blobs[2 * number : 2 * number + 2])

    def _request(self, number: int, launch: KernelLaunch) -> dict[str, Any]:
        """A launch as plain data; raises MisuseError for one that cannot be."""
        options, name = self.options, launch.kernel
        _check_kernel(self.sites.source, name)
        if launch.grid % launch.cluster or not 1 <= launch.block <= 1024:
            raise MisuseError(
                f"{name}: {launch.grid} blocks of {launch.block} threads in clusters of "
                f"{launch.cluster}"
            )
        if launch.shared_bytes > options.shared_limit:
            raise MisuseError(
                f"{name} needs {launch.shared_bytes} bytes of shared memory; a block has "
                f"{options.shared_limit}"
            )
        return {
            "kernel": name, "arguments": [self._argument(a) for a in launch.arguments],
            "grid": launch.grid_shape, "block": launch.block_shape, "cluster": launch.cluster,
            "shared_bytes": launch.shared_bytes, "shared_limit": options.shared_limit,
            "mode": options.mode, "seed": options.seed, "threads": options.threads,
            "trace": options.trace, "checks": options.checks, "number": number,
            "registers": _registers(self.sites.source, launch),
        }  # fmt: skip

    def _argument(self, argument: Argument | StructArgument) -> tuple[str, int]:
        """The argument's bytes, and what their address in the kernel is a multiple of."""
        if isinstance(argument, Pointer):
            return self.memory.address(argument.buffer).to_bytes(8, "little").hex(), 8
        if isinstance(argument, TensorMap):
            base = self.memory.address(argument.buffer)
            bits = encode(argument, base, self.memory.sizes[argument.buffer])
            return bytes(bits).hex(), TENSOR_MAP_ALIGNMENT
        if isinstance(argument, StructArgument):
            return argument.fill(self.memory.address).hex(), argument.align
        if argument.name not in self.scalars:
            raise MisuseError(f"no value for the scalar {argument.name!r}")
        value = np.asarray(self.scalars[argument.name])
        if argument.dtype == "bfloat16":
            import ml_dtypes

            value = value.astype(ml_dtypes.bfloat16)
        else:
            value = value.astype(_NUMPY.get(argument.dtype, argument.dtype))
        return value.tobytes().hex(), 16

    def _take(self, result: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
        if result["fault"]:
            raise self._error(result, FAULTS[result["fault"]])
        for name, count in zip(COUNTS, result["counts"], strict=True):
            self.counts[name] += count
        conflicts, records = (
            np.frombuffer(blob, dtype).copy()
            for blob, dtype in zip(blobs, (CONFLICT, RECORD), strict=True)
        )
        # From addresses of the worker, where the library lay anywhere, to those of the file.
        for found in (conflicts, records):
            found["site"][found["site"] > 0] -= np.uint64(result["base"])
        self.conflicts.append(conflicts)
        self.traces.append(records)

    def _error(self, result: Mapping[str, Any], kind: type[EmulationError]) -> EmulationError:
        self.sites.lines(result["sites"])
        places = [self.sites.place(a) for a in result["sites"]]
        said = message = result["message"]
        message = re.sub(r"<buffer (\d+)>", lambda m: self.memory.names[int(m[1])], message)
        message = re.sub(r"<site (\d+)>", lambda m: places[int(m[1])].brief, message)
        block = -1 if result["block"] == NO_BLOCK else result["block"]
        thread = (block, result["thread"], self.options.lanes)
        named = "<site 0>" in said
        return _located(kind, message, places[:1], thread, named)

    def _crashed(self, crash: Crash, launches: Sequence[KernelLaunch]) -> CrashError:
        places = [place for place in map(self.sites.place, crash.sites) if place.line]
        kernel = launches[crash.launch].kernel
        number = f" (launch {crash.launch + 1} of {len(launches)})" if len(launches) > 1 else ""
        message = f"{kernel}{number}: {crash.reason}"
        thread = (crash.block, crash.thread, self.options.lanes)
        error = _located(CrashError, message, places[:1], thread)
        assert isinstance(error, CrashError)
        return error

    def result(self) -> Emulation:
        """Return what all launches did."""
        found = np.concatenate([*self.conflicts, np.zeros(0, CONFLICT)])
        records = np.concatenate([*self.traces, np.zeros(0, RECORD)])
        lines = self.sites.lines([*found["site"].tolist(), *np.unique(records["site"]).tolist()])
        traces, start = [], 0
        for part in self.traces:
            traces.append(trace_of(part, lines, start))
            # The launches of a stream follow one another.
            start = int(traces[-1]["end"].max()) if len(part) else start
        trace = np.concatenate([*traces, np.zeros(0, TRACE)])
        text = {a: self.sites.place(a) for a in np.unique(records["site"]).tolist()}
        origins = {p.line: p.origin for p in text.values() if p.origin}
        accesses = self._accesses(found)
        return Emulation(self.counts, accesses, trace, queues(records), origins)

    def _accesses(self, found: Array) -> tuple[BankConflict, ...]:
        by_place: dict[CudaPlace, list[int]] = {}
        for row in found:
            total = by_place.setdefault(self.sites.place(int(row["site"])), [0, 0, 0])
            for n, name in enumerate(("requests", "wavefronts", "ideal")):
                total[n] += int(row[name])
        ordered = sorted(by_place.items(), key=lambda item: item[0].line)
        return tuple(BankConflict(place, *total) for place, total in ordered)


def _located(
    kind: type[EmulationError], message: str, places: Sequence[CudaPlace],
    who: tuple[int, int, int], named: bool = False,
) -> EmulationError:  # fmt: skip
    """An error with the line and the thread where it was; `named` if the message has the line.

    `who` are its block, its number in it, and how many lanes a warp has.
    """
    block, thread, lanes = who
    if places and places[0].line and not named:
        message += f"\n  at {places[0]}"
    if block >= 0 and "wait for each other" not in message:
        message += f"\n  by block {block}, warp {thread // lanes}, lane {thread % lanes}"
    error = kind(message)
    error.place = places[0] if places else None
    error.block, error.thread = (block, thread) if block >= 0 else (None, None)
    return error
