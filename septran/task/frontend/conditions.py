"""What a tensor of integers decides when the kernel runs: how often, and whether at all."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, NoReturn

from septran.ir.index import maximum, minimum
from septran.location import Location
from septran.task.errors import IndexingError, LaunchArgumentsError
from septran.task.frontend.language import open_loop
from septran.task.trace.arguments import not_a_tensor
from septran.task.trace.indirect import count_of
from septran.task.trace.symbols import Count, Expression, as_index, integers
from septran.task.trace.tensors import Tile
from septran.task.trace.tracing import Frame, current


def count(element: Tile, most: Any) -> Any:
    """How many there are, as a tensor of integers says: ``n[b]``, for loops and ends of slices.

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
    (top,) = integers((most,), "the bound of a count")
    if top < 0:
        raise LaunchArgumentsError(
            f"the bound of a count is {top}, and at least 0", Location.of_caller()
        )
    return Count(count_of(element, top))


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
    """
    frame, where = _composite("decides what runs"), Location.of_caller()
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


def _composite(what: str) -> Frame:
    frame = current()
    frame.require_composite(what)
    return frame
