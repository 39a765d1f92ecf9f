"""What a tensor of integers decides when the kernel runs: how often, and whether at all."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import lru_cache
from types import TracebackType
from typing import Any, NoReturn

from septran.ir.index import maximum, minimum
from septran.location import Location
from septran.task.errors import EarlyExitError, IndexingError, LaunchArgumentsError
from septran.task.frontend.definition import TensorType
from septran.task.frontend.language import open_loop
from septran.task.trace.arguments import not_a_tensor
from septran.task.trace.indirect import count_of
from septran.task.trace.symbols import (
    Count,
    Expression,
    Extent,
    Symbol,
    as_index,
    extent,
    integers,
)
from septran.task.trace.tensors import Tile
from septran.task.trace.tracing import Frame, current


def count(element: Tile, most: Any = None) -> Any:
    """How many there are, as a tensor of integers says: ``n[b]``, for loops and ends of slices.

    Of an integer that a call tells, `task.count(n)` is that integer: its annotation has the bound.

    It is from 0 to `most`, and takes +, - and // by integers and by other counts, as in
    ``task.cdiv(task.count(length[b], most=L * S), S)``. Another number is an error in the reference
    and the interpreter; a kernel takes the nearest one for it.

    Raises:
        IndirectIndexError: it is not one element of a tensor of integers that the caller passes.
        LaunchArgumentsError: the bound is negative.
    """
    frame = _composite("counts iterations")
    if not isinstance(element, Tile):
        raise LaunchArgumentsError(
            f"{element!r} is not a tensor of this task", Location.of_caller(),
            hint=not_a_tensor(element),
        )  # fmt: skip
    frame.require_live(element)
    span = frame.types.get(element.name, TensorType()).span
    if most is None and span is None:
        raise LaunchArgumentsError(
            f"the count of {element.name} has no bound", Location.of_caller(),
            hint=f"write task.count({element.name}, most=..), or let calls tell it: "
            f"{element.name}: task.Integer[0, 4096]",
        )  # fmt: skip
    if span is not None and element.ndim == 1:
        element = element[0]
    most = _bound(span[1] if most is None and span else most, frame)
    (top,) = integers((most,), "the bound of a count")
    if top < 0:
        raise LaunchArgumentsError(
            f"the bound of a count is {top}, and at least 0",
            Location.of_caller(),
            hint="`most` is how often the loop runs at most, for which room is made",
        )
    # Room is made for a full tile and the greatest call; of less there is no more to be counted.
    return Count(count_of(element, top, most.index if isinstance(most, Extent) else None))


def _bound(most: Any, frame: Frame) -> Any:
    """How many there are at most, with how many there can be anywhere: a grid's tiles, say."""
    if isinstance(most, Symbol) and not isinstance(most, Extent | Count):
        least, top = most.index.bounds(frame.ranges)
        return extent(top, most.index) if least >= 0 else most
    return most


class When:
    """A body that runs or does not, as a loop of one iteration or of none."""

    def __init__(self, once: AbstractContextManager[Any]) -> None:
        self._once = once

    def __enter__(self) -> None:
        """Begin what runs on the condition."""
        self._once.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it."""
        self._once.__exit__(kind, error, trace)

    def __bool__(self) -> NoReturn:
        """Refuse ``if task.when(..)``, which would take the body always."""
        raise IndexingError(
            "whether it runs is not known while tracing, so Python cannot decide by it",
            Location.of_caller(),
            hint="write the body under: with task.when(mask[i, j]):",
        )


def when(condition: Any) -> When:
    """Run a body where `condition` is 1, and not where it is 0: ``with task.when(mask[i, j]):``.

    It is one element of a tensor of integers that the caller passes, of which each is 0 or 1; or an
    index or a count (`count`), which is true where it is above 0.

    Raises:
        IndirectIndexError: it is no element of such a tensor.
        IndexingError: it is an expression, or it is written in an ``if``.
        EarlyExitError: the body is left by ``return``, ``break`` or ``continue``.
    """
    frame, where = _composite("decides what runs"), Location.of_caller()
    _require_to_the_end(where)
    if isinstance(condition, Tile):
        frame.require_live(condition)
        extent = count_of(condition, 1)
    elif isinstance(condition, Expression):
        raise IndexingError(
            "a body runs or not by one integer, not by an expression of tensors", where,
            hint="pass a tensor of zeros and ones: task.when(mask[i, j]); or take the difference "
            "of counts, which is true above 0: task.when(task.count(n[b], most=..) - k)",
        )  # fmt: skip
    else:
        index = condition.index if isinstance(condition, Count) else as_index(condition)
        extent = minimum(1, maximum(0, index)).simplify(frame.ranges)
    return When(open_loop(frame, (extent,), where, parallel=False))


def _require_to_the_end(where: Location) -> None:
    """Refuse a body that Python leaves, which would leave out what follows on either condition.

    It can be seen in the source only: a ``with`` ends as always where its body returns.
    """
    left = _exits(where.file, tuple(linecache.getlines(where.file))).get(where.line)
    if left is None:
        return
    word, line = left
    raise EarlyExitError(
        f"a body that runs on a condition is left by `{word}`", replace(where, line=line),
        hint="it is traced once, for both cases: write what runs otherwise under "
        "`with task.when(1 - task.count(mask[k], most=1)):`",
    )  # fmt: skip


@lru_cache(maxsize=64)
def _exits(file: str, lines: tuple[str, ...]) -> dict[int, tuple[str, int]]:
    """By the lines of ``with`` statements: the word that leaves the body, and its line."""
    try:
        tree = ast.parse("".join(lines), file)
    except SyntaxError:  # a notebook's cell with magics
        return {}
    found: dict[int, tuple[str, int]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.With):
            exit_ = next((e for body in node.body for e in _leaving(body, loops=False)), None)
            if exit_ is not None:
                word = type(exit_).__name__.lower()
                last = node.items[-1].context_expr.end_lineno or node.lineno
                found |= dict.fromkeys(range(node.lineno, last + 1), (word, exit_.lineno))
    return found


def _leaving(node: ast.AST, loops: bool) -> Iterator[ast.stmt]:
    """The statements in `node` that leave the body around; in inner `loops` only ``return``."""
    if isinstance(node, ast.Return) or (isinstance(node, ast.Break | ast.Continue) and not loops):
        yield node
    if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
        inner = loops or isinstance(node, ast.For | ast.While)
        for child in ast.iter_child_nodes(node):
            yield from _leaving(child, inner)


def _composite(what: str) -> Frame:
    frame = current()
    frame.require_composite(what)
    return frame
