"""Prefetches of a gemm's next operands while it sums, so that memory works beside it.

A panel of weights that few rows are multiplied by takes as long to bring as to use. So a
microkernel prefetches a line every few steps: of what the next iteration of the loops around
packs (`NextPack`), or, of operands read in place, of the next panel of B (`NextColumnPanel`)
or the next strip of A (`NextRowStrip`). What a later step takes of a packed panel that L1 does not
hold, it asks L2 for (`PanelAhead`). Nothing depends on a prefetch; what it names may not
exist.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from septran.dtypes import itemsize
from septran.ir import expressions as ex
from septran.ir.index import ZERO, Index, Var, minimum
from septran.targets.cpu import simd
from septran.targets.cpu.addresses import Access
from septran.targets.cpu.context import Context
from septran.targets.cpu.simd import CACHE_LINE
from septran.tile.analyses.loops import walk
from septran.tile.nodes import Compute, Copy, Node, Region, TileProgram, regions

MIN_INTERVAL = 4
"""Steps between two lines of what is read in place, below which prefetching takes more time than it
saves."""
MIN_PRODUCTS = 48
"""Multiply-adds of registers, 24 cycles of a core with two units, between two lines of what is
packed next. What a core waits for together is few lines (`LINES_IN_FLIGHT`), behind which what it
sums waits, too: 32 rows times two matrices of 2048 x 5632 have 53 GFLOP/s without, 60 of a line
every second step of AVX-512, and 46 of one each step (Cascade Lake)."""
MAX_INTERVAL = 64
"""Steps between two lines beyond which packing takes too little time to be worth prefetching."""

STEPS_AHEAD = 16
"""From one step of a panel to the one that is asked for of L2; 4 to 32 are as good."""


@dataclass(frozen=True)
class NextPack:
    """The next source of a packed operand, and how often its gemm runs meanwhile."""

    access: Access
    along: int
    """The axis with adjacent elements."""
    run: Index = ZERO
    runs: int = 1
    """Which of how many runs of the gemm this is."""

    @property
    def _wide(self) -> int:
        """Lines of a row."""
        return -(-self.access.region.shape[self.along] * self._size // CACHE_LINE)

    @property
    def _size(self) -> int:
        return itemsize(self.access.storage.held)

    @property
    def lines(self) -> int:
        """The cache lines of the whole source."""
        return self.access.region.shape[1 - self.along] * self._wide

    def within(self, run: Index, runs: int) -> NextPack:
        """The same inside of another loop."""
        return replace(self, run=self.run * runs + run, runs=self.runs * runs)

    def issue(self, context: Context, number: Index) -> None:
        """Prefetch the line of that number, or for the last."""
        # Intervals are rounded down to powers of two, so that tiles may count past the last line.
        number = context.variable("line", minimum(number, self.lines - 1))
        row = context.variable("row", number // self._wide)
        column = (number - row * self._wide) * (CACHE_LINE // self._size)
        spot = (row, column) if self.along else (column, row)
        at = context.lower(self.access.at(spot))
        simd.prefetch(context.writer, self.access.storage.flat, at, 2)


@dataclass(frozen=True)
class NextColumnPanel:
    """The next panel of an operand that is read in place."""

    access: Access
    column: Index

    @property
    def lines(self) -> int:
        """One a row, as wide as a panel."""
        return self.access.region.shape[0]

    def issue(self, context: Context, number: Index) -> None:
        """Prefetch the line of that row, or of the last."""
        row = context.variable("line", minimum(number, self.lines - 1))
        at = context.lower(self.access.at((row, self.column)))
        simd.prefetch(context.writer, self.access.storage.flat, at, 2)


@dataclass(frozen=True)
class NextRowStrip:
    """The next rows of an operand that is read in place."""

    access: Access
    row: Index
    rows: int

    def issue(self, context: Context, number: Index) -> None:
        """Prefetch a line of each of the rows."""
        column = number * (CACHE_LINE // itemsize(self.access.storage.held))
        for row in range(self.rows):
            at = context.lower(self.access.at((self.row + row, column)))
            simd.prefetch(context.writer, self.access.storage.flat, at, 2)


@dataclass(frozen=True)
class Prefetch:
    """The lines that a register tile prefetches while it is summed."""

    source: NextPack | NextRowStrip | NextColumnPanel
    first: Index
    """The number of the first line."""
    every: int
    """Steps from one line to the next."""

    def issue(self, context: Context, number: Index) -> None:
        """Prefetch the next line."""
        self.source.issue(context, self.first + number)


@dataclass(frozen=True)
class PanelAhead:
    """What a later step takes of a packed panel that is read again for each strip of rows."""

    access: Access
    lines: tuple[Index, ...]
    """Where those of the first step begin."""
    pitch: int
    """Elements from one step to the next."""

    def issue(self, context: Context, step: Index) -> None:
        """Ask for the lines of a step that is so far ahead as L2 takes to answer."""
        for line in self.lines:
            at = context.lower(line + (step + STEPS_AHEAD) * self.pitch)
            simd.prefetch(context.writer, self.access.storage.flat, at, 3)


def panel_ahead(
    context: Context, b: Access, elements: int, columns: int, first: Index
) -> PanelAhead | None:
    """The panel from a column on, a step of so many elements after another.

    None where it stays in L1, or is no packed one.
    """
    storage = b.storage
    packed = storage.owned and storage.layout.kind == "panels" and not storage.layout.run
    size = itemsize(storage.held)
    if not packed or b.region.shape[0] * columns * size <= context.nearest_bytes() // 2:
        return None
    pitch = context.indices.simplify(b.at((elements, first)) - b.at((0, first)))
    if not pitch.is_constant or pitch.constant * size % CACHE_LINE:
        return None
    starts = range(0, columns, CACHE_LINE // (size * elements))
    lines = tuple(context.variable("at", b.at((0, first + n))) for n in starts)
    return PanelAhead(b, lines, pitch.constant)


def far(context: Context, access: Access) -> bool:
    """Whether a region is read in place, row after row, from a tensor larger than L2."""
    storage = access.storage
    if storage.owned or any(access.leaving) or not _large(context, storage.shape, storage.held):
        return False
    return access.stride(1) == 1 and access.stride(0) is not None


def next_packs(
    context: Context,
    program: TileProgram,
    body: Sequence[Node],
    following: Callable[[], Mapping[Var, Index]],
) -> dict[str, NextPack]:
    """For each operand that `body` packs or computes, what the next iteration makes it of.

    `following` gives the loop indices of that iteration; it writes code, so it is only called
    where there is anything to prefetch.
    """
    sources = _packing(context, program, body)
    if not sources:
        return {}
    moved, found = following(), {}
    for name, source in sources:
        entries = tuple(e.substitute(moved) for e in source.index)
        access = context.access(replace(source, index=entries))
        strides = [access.stride(n) for n in range(2)]
        # What the next iteration packs from the same place has been read just now.
        still = entries == source.index
        if not still and 1 in strides and None not in strides and not any(access.leaving):
            found[name] = NextPack(access, strides.index(1))
    return found


def _packing(
    context: Context, program: TileProgram, body: Sequence[Node]
) -> tuple[tuple[str, Region], ...]:
    """Return what `body` multiplies by, and of which part of more than L2 holds it makes it."""
    multiplied = {
        r.buffer
        for node, _ in walk(tuple(body))
        if isinstance(node, Compute) and node.primitive == "gemm"
        for r in node.operands[1:]
    }
    found: dict[str, Region] = {}
    for node in body:
        for source in _made_of(node):
            name, held = regions(node)[0].buffer, program.buffer(source.buffer)
            if name not in multiplied or not _large(context, held.shape, held.dtype):
                continue
            if source.rank == 2 and math.prod(source.shape) > math.prod(_shape(found.get(name))):
                found[name] = source
    return tuple(found.items())


def _made_of(node: Node) -> tuple[Region, ...]:
    """Return what a node copies or computes from."""
    if isinstance(node, Copy):
        return (node.source,)
    if isinstance(node, Compute) and node.expression is not None:
        return tuple(v for v in ex.loads(node.expression) if isinstance(v, Region))
    return ()


def _shape(region: Region | None) -> tuple[int, ...]:
    return region.shape if region else (0,)


def _large(context: Context, shape: Sequence[int], dtype: str) -> bool:
    """Whether a tensor is more than a core's L2 holds."""
    core = context.machine.processors[-1].name
    return math.prod(shape) * itemsize(dtype) > context.cache_bytes(core)
