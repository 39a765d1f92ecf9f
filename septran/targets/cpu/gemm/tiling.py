"""The loops of a gemm around its register tile: panels of columns, strips of rows."""

from __future__ import annotations

from collections.abc import Callable

from septran.ir.index import Index
from septran.targets.cpu.context import Context
from septran.targets.cpu.gemm.results import Shape

MOST_HEIGHTS = 2
"""Numbers of rows of one product that strips of about the same height are written for."""


def panels(
    context: Context, extent: Index, size: int, body: Callable[[Index, Index | None], None]
) -> None:
    """Run `body` on whole panels, then on what is left; `extent` may be an unknown."""
    whole = context.variable("panels", extent // size)
    with context.loop("panel", whole) as panel:
        body(panel * size, None)
    rest = context.indices.simplify(extent - whole * size)
    if not context.divides(size, extent) and context.indices.bounds(rest)[1] > 0:
        rest = context.variable("rest", rest)
        values = [v for v in context.values(extent) or () if v % size]
        known = Index.of(values[0] % size) if len({v % size for v in values}) == 1 else rest
        with context.writer.when(rest.is_constant or context.lower(rest) > 0):
            body(whole * size, known)


def strips(
    context: Context, extent: Index, shape: Shape, body: Callable[[Index, int], None]
) -> None:
    """Run `body` on whole strips, then on the rows left, each number with its own code.

    Where so few would be left that their sums wait for each other, all strips are of about
    the same height instead.
    """
    values, size = context.values(extent), shape.rows
    if values is not None and len(values) <= MOST_HEIGHTS and any(map(shape.idles, values)):
        for value in values:
            with context.writer.when(len(values) == 1 or context.lower(extent) == value):
                _even_strips(context, value, size, body)
        return
    whole = context.variable("strips", extent // size)
    with context.loop("strip", whole) as strip:
        body(strip * size, size)
    rests = sorted({v % size for v in values} if values is not None else range(size))
    left = context.lower(extent - whole * size)
    for rest in rests:
        if rest:
            with context.writer.when(rests == [rest] or left == rest):
                body(whole * size, rest)


def _even_strips(
    context: Context, extent: int, size: int, body: Callable[[Index, int], None]
) -> None:
    """As few strips as there must be, of two heights that differ by one."""
    count = -(-extent // size)
    height, higher = divmod(extent, max(1, count))
    with context.loop("strip", higher) as strip:
        body(strip * (height + 1), height + 1)
    if height:
        with context.loop("strip", count - higher) as strip:
            body(strip * height + higher * (height + 1), height)
