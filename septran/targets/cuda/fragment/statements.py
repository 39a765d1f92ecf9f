"""Statements as threads do them: where what is read lies along them, temporaries in registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from septran.ir import expressions as ex
from septran.targets.lower.expressions import axes_of
from septran.targets.lower.statements import Statement, statements
from septran.tile.nodes import Buffer, Compute, Copy

Places = tuple["int | None", ...]
"""For each axis of an expression, the statement's axis that it goes along; None for one element."""


def inner(parent: ex.Expr, child: ex.Expr, places: Places) -> Places:
    """Return where the axes of an operand lie, given those of the node that it belongs to."""
    return tuple(None if n is None else places[n] for n in axes_of(child, parent.shape, parent))


def reads(statement: Statement) -> Iterator[tuple[ex.Load, Places]]:
    """Return what a statement reads, with its own axis for each axis of the view."""
    return _loads(statement.value, axes_of(statement.value, statement.shape))


def _loads(expr: ex.Expr, places: Places) -> Iterator[tuple[ex.Load, Places]]:
    if isinstance(expr, ex.Load):
        yield expr, places
    for child in ex.children(expr):
        yield from _loads(child, inner(expr, child, places))


@dataclass(frozen=True)
class Split:
    """A node as statements in order, and the temporaries that only they use."""

    statements: tuple[Statement, ...]
    made: tuple[Buffer, ...]

    @staticmethod
    def of(node: Compute | Copy, prefix: str, dtype: Callable[[str], str]) -> Split:
        """With temporaries named after `prefix`, reductions among them; `dtype` is a buffer's."""
        found, made = statements([node], dtype, prefix, "REGISTER")
        return Split(tuple(found), tuple(made))
