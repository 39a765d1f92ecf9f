"""How an operand of a product lies in the tensor that a caller passes: windows, and its order."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from septran.ir.bounds import greatest
from septran.ir.index import Index, Range, Var, axis, is_axis
from septran.ir.views import View
from septran.mapping.structure.products import Place, Product
from septran.task.tree import Allocate, Launch, Loop, Statement, TaskNode, statements


@dataclass(frozen=True)
class Window:
    """An operand that is read through a window, of one element where it is a plain image.

    Its rows (or columns) are positions on several axes of the tensor, or neighbouring ones share
    elements, or skip some. A number is None where the window is made below the task itself.
    """

    size: int | None = None
    """Elements of the window: 9 for 3 x 3."""
    stride: int | None = None
    """Elements from one window to the next."""
    padding: int | None = None
    """Zeros before the tensor's first element."""
    channels: int | None = None
    """Elements that are summed for each element of the window."""


@dataclass(frozen=True)
class Surroundings:
    """What is around the launch of a task."""

    homes: Mapping[str, View] = field(default_factory=lambda: MappingProxyType({}))
    """Each parameter as a view of the entry's tensor, or of a caller's temporary."""
    ranges: Mapping[Var, Range] = field(default_factory=lambda: MappingProxyType({}))
    """Ranges of the loop indices in them."""
    opened: Mapping[str, frozenset[Var]] = field(default_factory=lambda: MappingProxyType({}))
    """Loops around the launch that are inside of where the tensor of each home was allocated."""
    iterations: int = 0
    """Of the parallel loops of its caller around it; 0 where there are none."""


def window_of(product: Product, role: str, around: Surroundings) -> Window | None:
    """The window through which an operand is read; None where it is a plain tensor."""
    for place in product.operands[role].places:
        home = around.homes.get(place.tensor)
        if place.exact and any({"rows", "columns"} & k and "sum" in k for k in place.axes):
            return Window()
        if place.exact and home is not None and home.index:
            return _window(home, place, product, role, around)
    return None


def is_transposed(product: Product, role: str, around: Surroundings) -> bool:
    """Whether an operand's neighbours in memory are not its neighbours in a row of it."""
    # What the last axis of a row-major operand is: of A the sum, of B and C the columns.
    wanted = "columns" if role in ("right", "result") else "sum"
    for place in product.operands[role].places:
        if not place.exact or not place.axes:
            continue
        home, kinds = around.homes.get(place.tensor), place.axes[-1]
        if home is not None and home.index:
            last = home.index[-1].variables()
            kinds = frozenset(
                k for n, kinds in enumerate(place.axes) if axis(n) in last for k in kinds
            )
        return bool(kinds) and wanted not in kinds and "batch" not in kinds
    return False


def _window(
    home: View, place: Place, product: Product, role: str, around: Surroundings
) -> Window | None:
    summed, kept = _variables(place, product, role, around)
    ranges = dict(around.ranges)
    ranges |= {axis(n): (0, max(0, extent - 1)) for n, extent in enumerate(home.shape)}
    sizes, strides, channels, least = [], [1], 1, 0
    for entry in home.index:
        # Along one axis: what leads from window to window, and what goes on inside of one.
        steps = Index(tuple(t for t in entry.terms if _of(t, kept)), 0)
        offsets = Index(tuple(t for t in entry.terms if _of(t, summed)), 0)
        if not steps.terms and offsets.terms:
            # An axis that the sum alone walks.
            channels *= _length(offsets, ranges)
        if steps.terms:
            strides.append(_step(steps))
            least = min(least, entry.bounds(ranges)[0])
        if steps.terms and offsets.terms and _overlap(steps, offsets, ranges):
            sizes.append((_length(offsets, ranges), _step(steps)))
    padding = -least if home.padded else 0
    apart = len(sizes) == 1 and sizes[0][0] <= sizes[0][1] and not padding
    if apart:  # one axis in equal parts side by side: rows that were merged with columns
        return None
    places = [v for entry in home.index for v in entry.variables() & kept]
    image = len(places) > len(set(places))  # positions along one axis are some along several
    if not (sizes or image or padding) and max(strides) == 1:
        return None
    return Window(math.prod(n for n, _ in sizes), max(strides), padding, channels)


def _variables(
    place: Place, product: Product, role: str, around: Surroundings
) -> tuple[frozenset[Var], frozenset[Var]]:
    """The axes, and the loops around, that go along the sum, and those that do not."""
    own = {axis(n): kinds for n, kinds in enumerate(place.axes)}
    summed = {v for v, kinds in own.items() if kinds == {"sum"}}
    kept = {v for v, kinds in own.items() if kinds and kinds <= {"rows", "columns"}}
    outer = {r: frozenset(_outer(product, r, around)) for r in ("left", "right", "result")}
    other = "right" if role == "left" else "left"
    result = [p.tensor for p in product.operands["result"].places if p.tensor in around.opened]
    inside = around.opened[result[0]] if result else outer[role]  # no other loop sums into it
    summed |= (outer[role] & outer[other] & inside) - outer["result"]
    kept |= outer[role] - outer[other]
    return frozenset(summed), frozenset(kept)


def _outer(product: Product, role: str, around: Surroundings) -> Iterator[Var]:
    for place in product.operands[role].places:
        home = around.homes.get(place.tensor)
        if home is not None:
            yield from (v for e in home.index for v in e.variables() if not is_axis(v))


def _of(term: tuple[object, int], variables: frozenset[Var]) -> bool:
    found = Index((term,), 0).variables()  # type: ignore[arg-type]
    return bool(found & variables)


def _step(index: Index) -> int:
    return min(abs(coefficient) for _, coefficient in index.terms)


def _overlap(steps: Index, offsets: Index, ranges: Mapping[Var, Range]) -> bool:
    """Whether an offset leads to an element of another step, not behind the last: to next tiles."""
    low, high = steps.bounds(ranges)
    return _step(offsets) <= high - low


def _length(offsets: Index, ranges: Mapping[Var, Range]) -> int:
    """How many elements a sum of offsets goes through, in steps of its least factor."""
    low, high = offsets.bounds(ranges)
    return (high - low) // _step(offsets) + 1


def summed_last(product: Product, role: str, tensor: str, around: Surroundings) -> list[int]:
    """The axes of the tensor that a caller passes, those that the sum alone walks at the end."""
    for place in product.operands[role].places:
        home = around.homes.get(place.tensor)
        if place.tensor == tensor and home is not None:
            summed, kept = _variables(place, product, role, around)
            last = [
                n for n, e in enumerate(home.index)
                if e.variables() & summed and not e.variables() & kept
            ]  # fmt: skip
            return [*(n for n in range(len(home.index)) if n not in last), *last]
    return []


def below(
    task: TaskNode, around: Surroundings, launch: Launch, ranges: Mapping[Var, Range]
) -> Surroundings:
    """What is around a launch of a task with these surroundings."""
    loops = _around(task.body, launch) or ()
    homes, opened = dict[str, View](), dict[str, frozenset[Var]]()
    for param, view in zip(launch.task.params, launch.arguments, strict=True):
        held, own = around.homes.get(view.tensor), _variables_of(loops)
        homes[param.name] = held.compose(view) if held is not None else view
        if held is None:
            made = (s for s in statements(task.body) if isinstance(s, Allocate))
            at = next((s for s in made if s.name == view.tensor), None)
            # A temporary is another one in each iteration of the loops around its allocation.
            own -= _variables_of(_around(task.body, at) or ()) if at else frozenset()
        opened[param.name] = own | around.opened.get(view.tensor, frozenset())
    extents = [extent for loop in loops if loop.parallel for extent in loop.extents]
    count = math.prod(greatest(extent, ranges) for extent in extents) if extents else 0
    return Surroundings(homes, ranges, opened, count)


def _variables_of(loops: tuple[Loop, ...]) -> frozenset[Var]:
    return frozenset(v for loop in loops for v in loop.variables)


def _around(body: tuple[Statement, ...], wanted: Statement) -> tuple[Loop, ...] | None:
    """The loops around a statement, outermost first; None where it is not in the body."""
    for statement in body:
        if statement is wanted:
            return ()
        if isinstance(statement, Loop):
            inner = _around(statement.body, wanted)
            if inner is not None:
                return (statement, *inner)
    return None
