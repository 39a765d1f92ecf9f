"""Statements that are done together: rows or columns that depend only on themselves."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from septran.ir import expressions as ex
from septran.ir.index import Index
from septran.targets.lower.statements import ROW, Statement, regions_of, touched
from septran.tile.nodes import Buffer, Region


def recomputed(found: Sequence[Statement], private: Mapping[str, Buffer]) -> list[Statement]:
    """Statements without the temporaries that are cheaper computed again than kept.

    A row of such a temporary would take room in L1 beside the row that it is made from.
    """
    rest = list(found)
    for statement in found:
        if not _cheap(statement, private):
            continue
        place = next(n for n, s in enumerate(rest) if s.target == statement.target)
        value, following = rest[place].value, rest[place + 1 :]
        own, sources = statement.target.buffer, {v.tensor for v in ex.loads(value)}
        # Written more than once, or made from what changes later: its value at a use is another
        # one.
        if any(s.target.buffer == own for s in rest[:place]):
            continue
        if any(s.target.buffer in sources | {own} for s in following):
            continue
        views = {v for s in rest for v in regions_of(s)[1:] if v.buffer == statement.target.buffer}
        if views == {statement.target}:
            inlined = [_inlined(s, statement.target, value) for s in following]
            rest = [*rest[:place], *inlined]
    return rest


def _cheap(statement: Statement, private: Mapping[str, Buffer]) -> bool:
    """Whether all of a private buffer is one simple operation on what is there anyway."""
    target, value = statement.target, statement.value
    buffer = private.get(target.buffer)
    if buffer is None or statement.function is not None or not isinstance(value, ex.Binary):
        return False
    simple = value.function in ("add", "subtract", "multiply")
    leaves = all(not isinstance(c, ex.Reduce) and _leaf(c) for c in ex.children(value))
    whole = target.is_plain
    same = value.dtype == buffer.dtype and value.shape == target.shape
    return simple and leaves and whole and same and target.rank > 1


def _leaf(expr: ex.Expr) -> bool:
    """Whether it is read from memory, perhaps converted or broadcast."""
    match expr:
        case ex.Cast() | ex.Expand():
            return _leaf(expr.operand)
        case _:
            return not ex.children(expr)


def _inlined(statement: Statement, region: Region, value: ex.Expr) -> Statement:
    """`statement` with `value` where `region` is loaded."""

    def change(leaf: ex.Expr) -> ex.Expr:
        return value if isinstance(leaf, ex.Load) and leaf.view == region else leaf

    return replace(statement, value=ex.map_leaves(statement.value, change))


def row_axis(written: tuple[Index, ...], other: tuple[Index, ...]) -> int | None:
    """The buffer's axis that both move along with the row alone; None where there is none."""
    for number, (mine, theirs) in enumerate(zip(written, other, strict=True)):
        free = {v.name for v in mine.variables() if v.name.startswith(("@free", "@summed"))}
        if mine == theirs and mine.coefficient(ROW) and not free:
            return number
    return None


def independent(run: Iterable[Statement], depth: int) -> dict[str, int] | None:
    """For each buffer written in `run`, its axis along the rows; None where rows depend.

    Rows then depend only on themselves, so that all statements can be done row by row.
    """
    accesses = [list(touched(s, depth)) for s in run]
    written = {a[0][0].buffer: a[0] for a in accesses}
    axes: dict[str, int] = {}
    for region, at in itertools.chain.from_iterable(accesses):
        if region.buffer in written:
            number = row_axis(written[region.buffer][1], at)
            if number is None:
                return None
            axes[region.buffer] = number
    return axes


At = tuple[Index, ...]


class RowRange:
    """Statements whose rows depend only on themselves, taken one by one as `independent` would."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.written: dict[str, At] = {}
        self.seen: dict[str, set[At]] = {}

    def take(self, statement: Statement) -> bool:
        """Whether it can be done row by row with all before; after a no it is of no use."""
        accesses = list(touched(statement, self.depth))
        target, written = accesses[0]
        # An earlier statement would find in another row what this one has written there already.
        if any(row_axis(written, at) is None for at in self.seen.get(target.buffer, ())):
            return False
        self.written[target.buffer] = written
        for region, at in accesses:
            # Another row's element, which is not there yet when this row is done.
            if region.buffer in self.written and row_axis(self.written[region.buffer], at) is None:
                return False
        for region, at in accesses:
            self.seen.setdefault(region.buffer, set()).add(at)
        return True


class Columns:
    """Inner statements that depend on each other only within a column of their row."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.written: dict[str, set[tuple[At, bool]]] = {}
        """By buffer: elements written, and whether by a reduction."""
        self.seen: dict[str, set[At]] = {}

    def take(self, statement: Statement) -> bool:
        """Whether it can be done column by column with those that were taken before."""
        accesses = list(touched(statement, self.depth, ROW))
        target, written = accesses[0]
        sums = statement.function is not None
        if any(sums or row_axis(written, at) is None for at in self.seen.get(target.buffer, ())):
            return False
        for region, at in accesses:
            for there, summed in self.written.get(region.buffer, ()):
                # A reduction is complete behind the loop only, and other columns may not be done
                # yet.
                if summed or row_axis(there, at) is None:
                    return False
        self.written.setdefault(target.buffer, set()).add((written, sums))
        for region, at in accesses:
            self.seen.setdefault(region.buffer, set()).add(at)
        return True
