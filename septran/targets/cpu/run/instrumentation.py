"""When each block of a CPU kernel ran, and on which thread: a second build that takes notes.

The kernel is lowered once more with `MarkedWriter`, which lets every iteration of a loop that
is spread over cores write when it began, when it ended, and who ran it. Two readings of the
system's clock and one thread's name cost some 60 ns a block; kernels in use carry none of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import tirx

from septran.targets.base import TensorIR
from septran.targets.cpu.extern.compiler import functions_of
from septran.targets.cpu.lowering import UNIT, lower_program, nests
from septran.targets.cpu.run.build import build
from septran.targets.cpu.run.isa import llvm_arch
from septran.targets.cpu.run.threads import use_all_cores
from septran.targets.cpu.writer import CpuWriter
from septran.targets.lower.writer import Expr, flat_buffer
from septran.tile.nodes import For, TileProgram

CLOCK = 1
"""``CLOCK_MONOTONIC`` of Linux's <time.h>."""
WORDS = 5
"""Words of a mark: start (seconds, nanoseconds), end (seconds, nanoseconds), thread."""
MOST = 1_000_000
"""Marks that are kept: 40 MB."""


@dataclass(frozen=True)
class Mark:
    """One block that ran."""

    nest: For
    """The outermost loop of the nest that the block is an iteration of."""
    unit: int
    """Which iteration of the nest, its loops taken as one; over again for each repetition."""
    thread: int
    """Threads are numbered in the order of their first block."""
    start: float
    """Seconds since the first block began."""
    end: float


class MarkedWriter(CpuWriter):
    """Writes marks around the iterations of loops over blocks."""

    def __init__(self, marks: int = 0) -> None:
        super().__init__()
        self.room = flat_buffer("marks", max(1, marks) * WORDS, "int64", alignment=8)
        self.counts: list[int] = []
        """Blocks of each nest, all its repetitions together."""
        self._around: list[tuple[Expr, int]] = []

    @contextmanager
    def loop(
        self, stem: str, extent: Expr, parallel: bool = False, unrolled: bool = False
    ) -> Iterator[Expr]:
        """As `CpuWriter.loop`; remembers what is around, and marks what is a block."""
        size = extent if isinstance(extent, int) else int(getattr(extent, "value", 0))
        with super().loop(stem, extent, parallel, unrolled) as index:
            if stem != UNIT:
                self._around.append((index, size))
                yield index
                self._around.pop()
                return
            first, repetition, times = sum(self.counts), self.index(0), 1
            for variable, outer in self._around:
                repetition, times = repetition * outer + variable, times * outer
            self.counts.append(size * times)
            at = (self.index(first) + repetition * size + index) * WORDS
            self._note(at)
            yield index
            self._note(at + 2)
            self.emit(tirx.BufferStore(self.room, _call("int64", "pthread_self"), [at + 4]))

    def _note(self, at: Expr) -> None:
        where = tirx.address_of(tirx.BufferLoad(self.room, [at]))
        self.evaluate(_call("int32", "clock_gettime", CLOCK, where))

    def function(self, name: str, params: Sequence[Any]) -> Any:
        """The PrimFunc, with room for the marks as its last parameter."""
        return super().function(name, [*params, self.room])


class Recorded(tuple[Mark, ...]):
    """All that was noted in one call."""


def record(program: TileProgram, arguments: Sequence[Any]) -> tuple[Mark, ...]:
    """Run `program` twice (the first time warms caches) and return when its blocks ran.

    `arguments` are DLPack tensors in the order of the parameters, then the scalars; what the
    program writes is written.
    """
    use_all_cores()
    # Lowered twice: the room for marks is a parameter, whose size the first lowering finds.
    counting = MarkedWriter()
    lower_program(program, counting)
    total = sum(counting.counts)
    if total > MOST or 0 in counting.counts:
        return ()
    writer = MarkedWriter(total)
    module = tvm.IRModule({program.name: lower_program(program, writer)})
    ir, functions = TensorIR(program.name, module), functions_of(program)
    executable = build(ir, llvm_arch(program.machine), functions)
    room = np.zeros(max(1, total) * WORDS, np.int64)
    for _ in range(2):
        executable(*arguments, room)
    return tuple(_marks(program, counting.counts, room[: total * WORDS].reshape(-1, WORDS)))


def _marks(program: TileProgram, counts: Sequence[int], room: Any) -> Iterator[Mark]:
    if not len(room):
        return
    start, end = (room[:, n] * 1_000_000_000 + room[:, n + 1] for n in (0, 2))
    # By the time of their starts, from which threads get their numbers.
    order = np.argsort(start, kind="stable")
    threads: dict[int, int] = {}
    begun = start[order[0]]
    owner = np.repeat(np.arange(len(counts)), counts)
    first = np.cumsum([0, *counts])
    loops = nests(program)
    for n in order.tolist():
        thread = threads.setdefault(int(room[n, 4]), len(threads))
        nest = int(owner[n])
        unit = n - int(first[nest])
        yield Mark(loops[nest], unit, thread, (start[n] - begun) / 1e9, (end[n] - begun) / 1e9)


def _call(dtype: str, name: str, *arguments: Any) -> Any:
    return tirx.call_extern(dtype, name, *arguments)
