"""Assignments without nested reductions, and what each of them touches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from septran.targets.cpu.values import Point, operand_point
from septran.task import expressions as ex
from septran.task.index import Index, Var
from septran.task.tree import TunableValue
from septran.task.views import View
from septran.tile.nodes import Buffer, Compute, Region

ROW, SUMMED = Var("@row"), Var("@summed")


@dataclass(frozen=True)
class Statement:
    """``target[...] = value``, or a reduction of `value` along one of its axes."""

    target: Region
    value: ex.Expr
    """Without reductions inside."""
    function: str | None = None
    """The reduction; None for an elementwise statement."""
    axis: int = 0
    """Of `value`, reduced away."""

    @property
    def horizontal(self) -> bool:
        """Whether it reduces along the last axis, where vectors lie."""
        return self.function is not None and self.axis == len(self.value.shape) - 1

    def rest(self, depth: int) -> int:
        """Axes of the target after the first `depth`."""
        return self.target.rank - depth

    def inner(self, depth: int) -> bool:
        """Whether one loop over vectors does it, once its first `depth` axes are fixed."""
        if self.function is None:
            return self.rest(depth) <= 1
        return self.rest(depth) == (0 if self.horizontal else 1)

    def point(self, at: tuple[Index, ...], summed: Index) -> Point:
        """Where the value is evaluated for the target's element `at`."""
        if self.function is None:
            return operand_point(Point(at), self.value, self.target.shape)
        return Point((*at[: self.axis], summed, *at[self.axis :]))


def statements(
    nodes: Iterable[Compute], dtype: Callable[[str], str]
) -> tuple[list[Statement], list[Buffer]]:
    """The nodes as statements, and the temporaries that this took; `dtype` is a buffer's."""
    split = _Split(dtype)
    for node in nodes:
        split.add(node)
    return split.found, split.made


class _Split:
    def __init__(self, dtype: Callable[[str], str]) -> None:
        self.dtype = dtype
        self.found: list[Statement] = []
        self.made: list[Buffer] = []

    def add(self, node: Compute) -> None:
        target = node.operands[0]
        value = _value(node)
        if isinstance(value, ex.Reduce) and _fits(value, target):
            inner = self._without(value.operand)
            statement = Statement(target, inner, value.function, value.axis)
        else:
            statement = Statement(target, self._without(value))
        if _reads_elsewhere(statement):
            kind = statement.value.dtype or self.dtype(target.buffer)  # a copy's is not known
            spare = self._temporary(target.shape, target.valid, kind)
            self.found.append(replace(statement, target=spare))
            statement = Statement(target, ex.Load(spare, self.made[-1].dtype))
        self.found.append(statement)

    def _without(self, expr: ex.Expr) -> ex.Expr:
        """`expr` with each reduction replaced by a temporary that holds it."""
        match expr:
            case ex.Reduce():
                inner = self._without(expr.operand)
                spare = self._temporary(expr.shape, expr.valid, expr.dtype)
                self.found.append(Statement(spare, inner, expr.function, expr.axis))
                return ex.Load(spare, expr.dtype)
            case ex.Unary() | ex.Cast() | ex.Expand():
                return replace(expr, operand=self._without(expr.operand))
            case ex.Binary():
                return replace(expr, left=self._without(expr.left), right=self._without(expr.right))
            case ex.Select():
                parts = map(self._without, (expr.condition, expr.yes, expr.no))
                condition, yes, no = parts
                return replace(expr, condition=condition, yes=yes, no=no)
            case _:
                return expr

    def _temporary(self, shape: tuple[int, ...], valid: tuple[Index, ...], dtype: str) -> Region:
        name = f"%{len(self.made)}"
        self.made.append(Buffer(name, "", shape, dtype, tensor="reduced"))
        whole = View.whole(name, shape, valid)
        return Region(name, whole.index, whole.shape, whole.valid)


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


def _value(node: Compute) -> ex.Expr:
    attributes: dict[str, TunableValue] = dict(node.attributes)
    match node.primitive:
        case "fill":
            value = attributes.get("value", 0)
            assert not isinstance(value, str)
            return ex.Constant(value, "bool" if isinstance(value, bool) else "float64")
        case "copy":
            return ex.Load(node.operands[1], "")
        case _:
            assert node.expression is not None
            return node.expression


def _fits(value: ex.Reduce, target: Region) -> bool:
    return value.shape == target.shape and value.valid == target.valid


def regions_of(statement: Statement) -> tuple[Region, ...]:
    """The regions that a statement touches, its target first."""
    views = [v for v in ex.loads(statement.value) if isinstance(v, Region)]
    return (statement.target, *views)


def touched(
    statement: Statement, depth: int, summed: Var = SUMMED
) -> Iterator[tuple[Region, tuple[Index, ...]]]:
    """What is written, then all that is read: elements of buffers for one row at `depth`."""
    at = tuple(
        Index.of(ROW if n == depth else Var(f"@fixed{n}" if n < depth else f"@free{n}"))
        for n in range(statement.target.rank)
    )
    yield statement.target, statement.target.at(at)
    yield from _loads(statement.value, statement.point(at, Index.of(summed)))


def _loads(expr: ex.Expr, point: Point) -> Iterator[tuple[Region, tuple[Index, ...]]]:
    if isinstance(expr, ex.Load):
        assert isinstance(expr.view, Region)
        yield expr.view, expr.view.at(point.at)
    for child in ex.children(expr):
        yield from _loads(child, operand_point(point, child, expr.shape, expr))


def _reads_elsewhere(statement: Statement) -> bool:
    """Whether it reads elements of its target other than the one it writes."""
    (target, written), *reads = touched(statement, -1)
    return any(r.buffer == target.buffer and at != written for r, at in reads)


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


class Rows:
    """Statements whose rows depend only on themselves, taken one by one as `independent` would."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.written: dict[str, At] = {}
        self.seen: dict[str, set[At]] = {}

    def take(self, statement: Statement) -> bool:
        """Whether it can be done row by row with all before; after a no it is of no use."""
        accesses = list(touched(statement, self.depth))
        target, written = accesses[0]
        if any(row_axis(written, at) is None for at in self.seen.get(target.buffer, ())):
            return False
        self.written[target.buffer] = written
        for region, at in accesses:
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
                if summed or row_axis(there, at) is None:
                    return False
        self.written.setdefault(target.buffer, set()).add((written, sums))
        for region, at in accesses:
            self.seen.setdefault(region.buffer, set()).add(at)
        return True
