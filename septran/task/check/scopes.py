"""Check that loop indices are used only inside of their loop."""

from __future__ import annotations

from collections.abc import Iterator

from septran.ir import expressions as ex
from septran.ir.index import Index, Var, is_axis
from septran.ir.views import View
from septran.task.errors import IndexingError
from septran.task.tree import Allocate, Assign, Launch, Loop, Primitive, Statement


def check_scopes(body: tuple[Statement, ...], known: frozenset[Var]) -> None:
    """Compare the indices that statements use with the loops around them; raises IndexingError.

    Args:
        body: Statements of one task.
        known: Indices of the loops around the task's launch.
    """
    for statement in body:
        lost = {v for i in _indices(statement) for v in i.variables() if not is_axis(v)} - known
        if lost:
            raise IndexingError(
                f"loop index {min(map(str, lost))} is used outside of its loop",
                statement.location,
                hint="move what uses it into the loop, or keep its value in a tensor made before",
            )
        if isinstance(statement, Loop):
            check_scopes(statement.body, known | set(statement.variables))


def _indices(statement: Statement) -> Iterator[Index]:
    match statement:
        case Loop(extents=extents):
            yield from extents
        case Allocate(valid=valid):
            yield from valid
        case Launch(arguments=views) | Primitive(operands=views):
            for view in views:
                yield from _of(view)
        case Assign(target=target, value=value):
            yield from _of(target)
            for node in ex.walk(value):
                match node:
                    case ex.Load(view=view) | ex.Position(view=view):
                        yield from _of(view)
                    case ex.IndexValue(index=index):
                        yield index


def _of(view: View) -> Iterator[Index]:
    yield from view.index
    yield from view.valid
