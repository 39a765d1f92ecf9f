"""Computations as simple statements: element by element, or one reduction at the outside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from septran.ir import expressions as ex
from septran.ir.index import Index
from septran.targets.lower.expressions import axes_of
from septran.targets.lower.statements import value_of, without_reductions
from septran.tile.nodes import Buffer, Compute, Copy, Region

Places = tuple["int | None", ...]
"""For each axis of an expression, the statement's axis that it goes along; None for one element."""


@dataclass(frozen=True)
class Statement:
    """``target[...] = value``, or a reduction of `value` along one of its axes.

    A statement's axes are those of its value, of a reduction also the reduced one.
    """

    target: Region
    value: ex.Expr
    """Without reductions inside."""
    function: str | None = None
    """The reduction; None for an elementwise statement."""
    axis: int = 0
    """Of `value`, reduced away."""
    shape: tuple[int, ...] = ()
    """Nominal extents of its axes."""
    valid: tuple[Index, ...] = ()

    def loads(self) -> Iterator[tuple[ex.Load, Places]]:
        """What it reads, with the statement's axis for each axis of the view."""
        yield from loads(self.value, placed(self.value, len(self.shape)))

    @property
    def kept(self) -> tuple[int, ...]:
        """The statement's axes that its target has, in the order of the target's."""
        if self.function is None:
            return tuple(range(len(self.shape)))
        return tuple(n for n in range(len(self.shape)) if n != self.axis)


def placed(expr: ex.Expr, rank: int) -> Places:
    """Where the axes of an expression lie in a statement of `rank` axes: at the end of them."""
    skip = rank - len(expr.shape)
    return tuple(skip + n for n in range(len(expr.shape)))


def inner(parent: ex.Expr, child: ex.Expr, places: Places) -> Places:
    """Where the axes of an operand lie, given those of the node that it belongs to."""
    return tuple(None if n is None else places[n] for n in axes_of(child, parent.shape, parent))


def loads(expr: ex.Expr, places: Places) -> Iterator[tuple[ex.Load, Places]]:
    """The loads in an expression, with where their axes lie."""
    if isinstance(expr, ex.Load):
        yield expr, places
    for child in ex.children(expr):
        yield from loads(child, inner(expr, child, places))


@dataclass(frozen=True)
class Split:
    """A node as statements in order, and the temporaries that only they use."""

    statements: tuple[Statement, ...]
    made: tuple[Buffer, ...]

    @staticmethod
    def of(node: Compute | Copy, prefix: str) -> Split:
        """With temporaries named after `prefix`."""
        split = _Splitting(prefix)
        split.add(node)
        return Split(tuple(split.found), tuple(split.made))


class _Splitting:
    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.found: list[Statement] = []
        self.made: list[Buffer] = []

    def add(self, node: Compute | Copy) -> None:
        target = node.target if isinstance(node, Copy) else node.operands[0]
        value = without_reductions(value_of(node), self._reduced)
        valid = target.valid
        if isinstance(node, Copy) and node.zero_fill:
            valid = tuple(map(Index.of, target.shape))
        self.found.append(Statement(target, value, None, 0, target.shape, valid))

    def _reduced(self, expr: ex.Reduce, value: ex.Expr) -> Region:
        """A temporary that holds a reduction of `value`."""
        name = f"{self.prefix}{len(self.made)}"
        self.made.append(Buffer(name, "REGISTER", expr.shape, expr.dtype, tensor="reduced"))
        index = tuple(map(Index.of, Region.whole(name, expr.shape).index))
        spare = Region(name, index, expr.shape, expr.valid)
        self.found.append(
            Statement(spare, value, expr.function, expr.axis, value.shape, value.valid)
        )
        return spare
