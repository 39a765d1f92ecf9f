"""Run a CUDA program on the CPU: translate, compile, launch, and tell what happened."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from septran.machine.model import Machine
from septran.targets.cuda.emulator import build
from septran.targets.cuda.emulator.errors import FAULTS, EmulationError, MisuseError, Place
from septran.targets.cuda.emulator.memory import GlobalMemory
from septran.targets.cuda.emulator.native import (
    CONFLICT,
    COUNTS,
    RECORD,
    Library,
    Request,
    TensorMapBits,
)
from septran.targets.cuda.emulator.sites import Sites
from septran.targets.cuda.emulator.tensor_maps import encode
from septran.targets.cuda.emulator.trace import queues, trace_of
from septran.targets.cuda.emulator.translation import blocks_beside, to_cpp
from septran.targets.cuda.launch import (
    Argument,
    CudaProgram,
    Launch,
    Pointer,
    TensorMap,
    registers_at_launch,
)
from septran.targets.dsa.simulator import TRACE

Array = np.ndarray[Any, Any]
MODES = ("eager", "late", "random")
"""When asynchronous work takes effect: at once, as late as the waits allow, at random."""
NOBODY = 0xFFFFFFFF
"""The block of what no thread did."""
TENSOR_MAP_ALIGNMENT = 64
"""Bytes; `CUtensorMap` is declared so."""
RECORDS = 1 << 18
"""Records of a trace that are kept of one launch."""
_SHARED = {"80": 166912, "87": 166912, "90": 232448, "100": 232448, "103": 232448}
_NUMPY = {"bool": "uint8"}


@dataclass(frozen=True)
class BankConflict:
    """Accesses of one line to shared memory that took more wavefronts than they must."""

    place: Place
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
    """What one call of a program did."""

    statistics: Mapping[str, int]
    """Counts by name (`native.COUNTS`) of all launches; ``steps`` is the longest block's, summed
    over launches. Steps order a timeline; they are no time of a GPU."""
    accesses: tuple[BankConflict, ...] = field(repr=False)
    """Each line that accesses shared memory."""
    trace: Array = field(repr=False)
    """Records as the DSA's (`septran.targets.dsa.simulator.TRACE`); empty unless asked for.
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
) -> Emulation:
    """Run all launches of `program`; outputs are written into `arrays`.

    `mode` is of `MODES`; without one, no `seed` means eager, 0 late, and others random. With
    `strict` tensor cores may not read shared memory that nobody wrote; else it holds NaN, as
    rows of ragged tiles do that reach no output. `threads` of the host share the blocks.
    Raises EmulationError.
    """
    if mode is None:
        mode = "eager" if seed is None else "random" if seed else "late"
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}; it is one of {', '.join(MODES)}")
    kernels = _compiled(program.source, program.arch or "sm_90a")
    memory = GlobalMemory(program, arrays)
    options = _Options(
        MODES.index(mode), seed or 0, threads, RECORDS if trace else 0, strict,
        _shared_limit(program, machine),
    )  # fmt: skip
    run = _Run(kernels, memory, dict(scalars or {}), options)
    for launch in program.launches:
        run.launch(launch)
    memory.write_back()
    return run.result()


def _shared_limit(program: CudaProgram, machine: Machine | None) -> int:
    """Bytes of shared memory that a block can have."""
    for memory in machine.memories if machine else ():
        if memory.name == "SHARED" and memory.capacity_bytes:
            return memory.capacity_bytes
    return _SHARED.get(re.sub(r"\D", "", program.arch), 101376 if program.arch else 232448)


def _aligned(bits: TensorMapBits) -> TensorMapBits:
    """A copy of `bits` at a multiple of 64 bytes, as `CUtensorMap` is declared alignas(64).

    ctypes aligns by malloc, at 16 bytes; with AVX-512 the compiler copies a tensor map by one
    aligned load of 64 bytes, which faults elsewhere.
    """
    room = bytearray(ctypes.sizeof(bits) + TENSOR_MAP_ALIGNMENT)
    start = ctypes.addressof(ctypes.c_char.from_buffer(room))
    copy = TensorMapBits.from_buffer(room, -start % TENSOR_MAP_ALIGNMENT)
    ctypes.pointer(copy)[0] = bits
    return copy


@functools.lru_cache(maxsize=64)
def _compiled(source: str, arch: str) -> Sites:
    translation = to_cpp(source, arch)
    path = build.library(translation.text, translation.lines_before)
    return Sites(Library(path), source, translation.lines_before)


@dataclass(frozen=True)
class _Options:
    mode: int
    seed: int
    threads: int
    trace: int
    strict: bool
    shared_limit: int


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

    def launch(self, launch: Launch) -> None:
        """Run one kernel; raises what it did wrong."""
        library = self.sites.library
        if not hasattr(library.c, f"emu_entry_{launch.kernel}"):
            raise MisuseError(f"the CUDA text has no kernel {launch.kernel!r}")
        if launch.grid % launch.cluster or not 1 <= launch.block <= 1024:
            raise MisuseError(
                f"{launch.kernel}: {launch.grid} blocks of {launch.block} threads in clusters of "
                f"{launch.cluster}"
            )
        if launch.shared_bytes > self.options.shared_limit:
            raise MisuseError(
                f"{launch.kernel} needs {launch.shared_bytes} bytes of shared memory; a block has "
                f"{self.options.shared_limit}"
            )
        values = [self._argument(a) for a in launch.arguments]
        pointers = (ctypes.c_void_p * max(1, len(values)))(*(ctypes.addressof(v) for v in values))
        request = self._request(launch, pointers)
        result = library.c.emu_launch(ctypes.addressof(request))
        try:
            self._take(result)
        finally:
            library.c.emu_free(result)

    def _request(self, launch: Launch, arguments: Any) -> Request:
        options, memory = self.options, self.memory
        three = ctypes.c_uint32 * 3
        beside = blocks_beside(self.sites.source, launch.kernel)
        registers = registers_at_launch(launch.block, beside)
        return Request(
            self.sites.library.entry(launch.kernel), ctypes.addressof(arguments),
            three(launch.grid, 1, 1), three(launch.block, 1, 1), launch.cluster,
            launch.shared_bytes, options.shared_limit, options.mode, options.seed,
            options.threads, options.trace, options.strict, registers, len(memory.names),
            ctypes.addressof(memory.table), memory.base, memory.bytes.size,
        )  # fmt: skip

    def _argument(self, argument: Argument) -> Any:
        """The argument as C data; tensor maps lie at a multiple of 64 bytes in the kernel."""
        if isinstance(argument, Pointer):
            return ctypes.c_uint64(self.memory.address(argument.buffer))
        if isinstance(argument, TensorMap):
            base = self.memory.address(argument.buffer)
            return _aligned(encode(argument, base, self.memory.sizes[argument.buffer]))
        if argument.name not in self.scalars:
            raise MisuseError(f"no value for the scalar {argument.name!r}")
        value = np.asarray(self.scalars[argument.name])
        if argument.dtype == "bfloat16":
            import ml_dtypes

            value = value.astype(ml_dtypes.bfloat16)
        else:
            value = value.astype(_NUMPY.get(argument.dtype, argument.dtype))
        return (ctypes.c_uint8 * value.nbytes).from_buffer_copy(value.tobytes())

    def _take(self, result: int) -> None:
        library = self.sites.library
        fault = library.c.emu_fault(result)
        if fault:
            raise self._error(result, FAULTS[fault])
        counts = library.c.emu_counts(result)
        for n, name in enumerate(COUNTS):
            self.counts[name] += counts[n]
        self.conflicts.append(library.records(result, "emu_conflicts", "emu_conflict", CONFLICT))
        self.traces.append(library.records(result, "emu_records", "emu_record", RECORD))

    def _error(self, result: int, kind: type[EmulationError]) -> EmulationError:
        c = self.sites.library.c
        addresses = [c.emu_site(result, n) for n in range(c.emu_sites(result))]
        self.sites.lines(addresses)
        places = [self.sites.place(a) for a in addresses]
        message = c.emu_message(result).decode(errors="replace")
        message = re.sub(r"<buffer (\d+)>", lambda m: self.memory.names[int(m[1])], message)
        message = re.sub(r"<site (\d+)>", lambda m: places[int(m[1])].brief, message)
        block, thread = c.emu_block(result), c.emu_thread(result)
        if block == NOBODY:
            block = -1
        if places and places[0].line and "<site 0>" not in c.emu_message(result).decode():
            message += f"\n  at {places[0]}"
        if block >= 0 and "wait for each other" not in message:
            message += f"\n  by block {block}, warp {thread // 32}, lane {thread % 32}"
        error = kind(message)
        error.place = places[0] if places else None
        error.block, error.thread = (block, thread) if block >= 0 else (None, None)
        return error

    def result(self) -> Emulation:
        """What all launches did."""
        found = np.concatenate([*self.conflicts, np.zeros(0, CONFLICT)])
        records = np.concatenate([*self.traces, np.zeros(0, RECORD)])
        lines = self.sites.lines([*found["site"].tolist(), *np.unique(records["site"]).tolist()])
        traces, start = [], 0
        for part in self.traces:
            traces.append(trace_of(part, lines, start))
            start = int(traces[-1]["end"].max()) if len(part) else start
        trace = np.concatenate([*traces, np.zeros(0, TRACE)])
        text = {a: self.sites.place(a) for a in np.unique(records["site"]).tolist()}
        origins = {p.line: p.origin for p in text.values() if p.origin}
        accesses = self._accesses(found)
        return Emulation(self.counts, accesses, trace, queues(records), origins)

    def _accesses(self, found: Array) -> tuple[BankConflict, ...]:
        by_place: dict[Place, list[int]] = {}
        for row in found:
            total = by_place.setdefault(self.sites.place(int(row["site"])), [0, 0, 0])
            for n, name in enumerate(("requests", "wavefronts", "ideal")):
                total[n] += int(row[name])
        ordered = sorted(by_place.items(), key=lambda item: item[0].line)
        return tuple(BankConflict(place, *total) for place, total in ordered)
