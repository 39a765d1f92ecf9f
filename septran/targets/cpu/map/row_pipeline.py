"""Loops of a row beside those of the rows before it: memory works while the processor computes.

A row that is normalised is read in one loop, transformed in the next and written in the last, so
that memory has nothing to do during one, and the processor during another. Here one loop over the
columns does the first stage of a row, the second of the row before and the third of the one
before that: a software pipeline of rows (Lam, PLDI 1988). What a stage leaves for a later one is
kept for as many rows as lie between. At the first and the last rows the stages are done one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from tvm import tirx

from septran.dtypes import itemsize
from septran.ir.index import Index
from septran.targets.cpu.context import Context
from septran.targets.cpu.map.columns import (
    Accesses,
    RowLanes,
    RowLoop,
    RowPrefetch,
    alone_in_row,
    columns_of,
    emit_alone,
    emit_loop,
    emit_loops,
    far_columns,
    is_costly,
    page_of,
    row_lanes,
)
from septran.targets.lower.statements import Statement, regions_of
from septran.targets.lower.writer import Expr
from septran.tile.nodes import Region

LEAST_ROWS = 8
"""Of fewer rows too many are first and last ones to be worth code of their own."""
MOST_STAGES = 3
"""Normalisations have two or three; each has code of its own beside that of all."""
PREFETCH_DISTANCE = 8192
"""How far before its use a line is prefetched, in bytes. Softmax of rows from memory on Zen 5:
20 GB/s without, 31, 40 and 45 with 2, 4 and 8 KiB, not more with twice as much."""


Run = Sequence[Statement]


@dataclass(frozen=True)
class RowStage:
    """What is done with a row in one step: a loop over columns, and single numbers around it."""

    before: tuple[Statement, ...]
    run: Run
    """What shares its loop with the other stages."""
    after: tuple[Statement, ...]

    @property
    def regions(self) -> set[Region]:
        """What it reads or writes."""
        every = (*self.before, *self.run, *self.after)
        return {region for statement in every for region in regions_of(statement)}

    @property
    def buffers(self) -> set[str]:
        """The buffers of its regions."""
        return {region.buffer for region in self.regions}


def stages_of(loops: Sequence[Run], depth: int, rows: int) -> tuple[RowStage, ...]:
    """The stages of rows that `row_loops` found; none where there is no use for them."""
    found: list[RowStage] = []
    before: tuple[Statement, ...] = ()
    for run in loops:
        if not alone_in_row(run[0], depth):
            found.append(RowStage(before, run, ()))
            before = ()
        elif run[0].function is not None:
            return ()  # along another axis than the columns
        elif found:
            found[-1] = replace(found[-1], after=(*found[-1].after, *run))
        else:
            before = (*before, *run)
    alike = len({columns_of(stage.run[0]) for stage in found}) == 1
    few = 1 < len(found) <= MOST_STAGES
    return tuple(found) if alike and few and rows >= LEAST_ROWS else ()


def worthwhile(context: Context, stages: tuple[RowStage, ...], depth: int) -> tuple[RowStage, ...]:
    """The stages, where rows gain by doing them beside each other; none otherwise.

    They do where the rows at work fit into the nearest cache. Where they do not, loads of more of
    them would wait for the next one: that does not matter beside long computations, nor where one
    stage reads from memory while another one writes past the caches.
    """
    if not stages or _bytes_at_work(context, stages, depth) <= context.nearest_bytes():
        return stages
    written = {statement.target.buffer for statement in stages[-1].run}
    streamed = any(context.storages[n].streamed for n in written if n in context.storages)
    costly = any(is_costly(statement) for stage in stages for statement in stage.run)
    return stages if costly or streamed else ()


def _bytes_at_work(context: Context, stages: Sequence[RowStage], depth: int) -> int:
    """Of all rows that one step reads or writes by columns."""
    found: dict[tuple[str, int], int] = {}
    for number, stage in enumerate(stages):
        for region in {region for statement in stage.run for region in regions_of(statement)}:
            moves = number if region.rank > depth else 0
            if region.shape:
                size = itemsize(context.dtypes.get(region.buffer, "float32"))
                found[region.buffer, moves] = region.shape[-1] * size
    return sum(found.values())


def rows_kept(stages: Sequence[RowStage], name: str) -> int:
    """Of how many rows a buffer holds what one stage leaves for another.

    In a step later stages go first, vector by vector, so that what they take makes room for what
    an earlier stage leaves there, unless that is done before the loop or in other columns.
    """
    users = [number for number, stage in enumerate(stages) if name in stage.buffers]
    if not users:
        return 1
    found = [region for stage in stages for region in stage.regions if region.buffer == name]
    early = any(name in replace(s, run=(), after=()).buffers for s in stages)
    room = 0 if not early and all(region.is_plain for region in found) else 1
    return max(1, users[-1] - users[0] + room)


def emit_steps(
    context: Context,
    stages: Sequence[RowStage],
    at: tuple[Index, ...],
    rows: Index,
    accesses: Accesses,
    passed: Collection[str],
) -> None:
    """All stages of `rows` rows, whose coordinates begin with `at`."""
    last, most = len(stages) - 1, context.indices.bounds(rows)[1] - 1
    shared = _Steps(context, stages, at, accesses, passed)
    # Stage n of row r is done in step r + n, so the last row's last stage needs `last` more steps.
    with context.loop("step", rows + last) as step:
        exists = [_exists(context, step - number, rows) for number in range(len(stages))]
        numbers = [
            context.indices.fresh(context.lower(step - number), 0, most)
            for number in range(len(stages))
        ]
        with context.writer.body() as beside:
            shared.interleaved(numbers)
        with context.writer.body() as apart:
            shared.sequential(numbers, exists)
        # The rows of all stages are neighbours: where the first and the last exist, all do.
        context.writer.choose(tirx.And(exists[0], exists[-1]), beside, apart)


def _exists(context: Context, row: Index, rows: Index) -> Expr:
    zero = context.writer.index(0)
    return tirx.And(zero <= context.lower(row), context.lower(row) < context.lower(rows))


@dataclass(frozen=True)
class _Steps:
    context: Context
    stages: Sequence[RowStage]
    at: tuple[Index, ...]
    accesses: Accesses
    passed: Collection[str]

    def interleaved(self, rows: Sequence[Index]) -> None:
        """Each stage of its own row, in one loop over the columns."""
        for stage, row in zip(self.stages, rows, strict=True):
            self._alone(stage.before, row)
        loops = [
            self._loop(stage.run, row, prefetches)
            for stage, row, prefetches in zip(self.stages, rows, self._row_prefetch(), strict=True)
        ]
        # Later stages first: see `rows_kept`.
        emit_loops(self.context, loops[::-1], self._lanes())
        for stage, loop, row in reversed([*zip(self.stages, loops, rows, strict=True)]):
            loop.end()
            self._alone(stage.after, row)

    def sequential(self, rows: Sequence[Index], exists: Sequence[Expr]) -> None:
        """One stage after another, as far as their rows exist."""
        # Later stages first here, too.
        for stage, row, condition in reversed([*zip(self.stages, rows, exists, strict=True)]):
            with self.context.writer.when(condition):
                self._alone(stage.before, row)
                emit_loop(self._loop(stage.run, row, RowPrefetch()), self._lanes())
                self._alone(stage.after, row)

    def _alone(self, statements: Sequence[Statement], row: Index) -> None:
        for statement in statements:
            emit_alone(self.context, statement, (*self.at, row), self.accesses)

    def _loop(self, run: Run, row: Index, prefetches: RowPrefetch) -> RowLoop:
        at = (*self.at, row)
        return RowLoop(self.context, run, at, self.accesses, prefetches, self.passed)

    def _lanes(self) -> RowLanes:
        """The same for all loops and rows, so that equal rows give equal results."""
        every = [statement for stage in self.stages for statement in stage.run]
        lanes = row_lanes(self.context, every, self.accesses)
        return replace(lanes, page=page_of(self.context, every, self._some(), self.accesses))

    def _some(self) -> tuple[Index, ...]:
        """The coordinates of a row."""
        return (*self.at, Index())

    def _row_prefetch(self) -> list[RowPrefetch]:
        """For each stage what it asks for: columns that no stage has brought before."""
        found, seen = list[RowPrefetch](), set[str]()
        for stage in self.stages:
            far = far_columns(self.context, stage.run, self._some(), self.accesses)
            fresh = tuple(access for access in far if access.storage.name not in seen)
            level = self.context.streams.level
            found.append(RowPrefetch(fresh, bytes=PREFETCH_DISTANCE, level=level))
            seen |= stage.buffers
        return found
