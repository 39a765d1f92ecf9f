"""Views on NumPy arrays: by slicing where the index map allows it, by gathering elsewhere."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from septran.ir.atoms import CallExtent, Element, ExtentProduct, FloorDiv, Max, Min, Mod
from septran.ir.index import Index, Var, axis, is_axis
from septran.ir.views import View

Array = np.ndarray[Any, Any]


def extents(view: View, values: Mapping[Var, int]) -> tuple[int, ...]:
    """Return the extents that exist, never negative."""
    return tuple(max(0, v.evaluate(values)) for v in view.valid)


@functools.lru_cache(maxsize=1 << 10)
def composed(view: View, inner: View) -> View:
    """Return ``view.compose(inner)``, cached, as statements of a task are run again and again."""
    return view.compose(inner)


def read(array: Array, view: View, values: Mapping[Var, int]) -> Array:
    """Return the elements of a view, with zeros outside of the array where the view is padded."""
    shape = extents(view, values)
    if 0 in shape:  # where nothing is may lie outside of the array
        return np.zeros(shape, array.dtype)
    slices = None if view.padded else _slices(view, values, array.shape)
    if slices is not None:
        keys, order, reverse = slices
        part: Array = array[keys].transpose(order)[reverse]
        return part
    places = coordinates(view, values)
    if not view.padded:
        return np.broadcast_to(array[tuple(places)], shape)
    inside = np.ones(shape, dtype=bool)
    for place, extent in zip(places, array.shape, strict=True):
        inside &= (place >= 0) & (place < extent)
    # There is no place to which coordinates could be clipped.
    if array.size == 0:
        return np.zeros(shape, array.dtype)
    # NumPy refuses coordinates outside; what is read in their place is replaced by zeros.
    safe = tuple(np.clip(p, 0, n - 1) for p, n in zip(places, array.shape, strict=True))
    return np.where(inside, np.broadcast_to(array[safe], shape), np.zeros((), array.dtype))


def write(array: Array, view: View, values: Mapping[Var, int], elements: Array) -> None:
    """Store `elements` in the extents of a view that exist, broadcast where they are fewer."""
    shape = extents(view, values)
    if 0 in shape:
        return
    slices = _slices(view, values, array.shape)
    if slices is not None:
        keys, order, reverse = slices
        # with "...", as a single element is no view of the array without it
        array[(*keys, ...)].transpose(order)[reverse][...] = elements
        return
    places = coordinates(view, values)
    array[tuple(np.broadcast_to(p, shape) for p in places)] = np.broadcast_to(elements, shape)


REPEATS = 1 << 16
"""The number of elements up to which repeated ones are found by comparing all of them."""


def repeats(view: View) -> bool:
    """Return whether a view shows an element of its tensor twice, as overlapping windows do."""
    rows = view.strides()
    if rows is not None and _separate(view, rows):
        return False
    size = math.prod(view.shape)
    if size < 2:
        return False
    if size > REPEATS:  # merged axes, which do not overlap, or windows, which do in small, too
        half = replace(view, shape=tuple((e + 1) // 2 for e in view.shape))
        return rows is not None or repeats(half)
    outer = {v: 0 for entry in view.index for v in entry.variables() if not is_axis(v)}
    # At a ragged edge fewer elements exist, so the full tile decides.
    full = replace(view, valid=tuple(map(Index.of, view.shape)))
    numbers = np.zeros(1, np.int64)  # equal where the coordinates so far are
    for place in np.broadcast_arrays(*coordinates(full, outer)):
        flat = np.ravel(place) - place.min()
        numbers = np.unique(numbers * (flat.max() + 1) + flat, return_inverse=True)[1]
    return int(numbers.max()) + 1 < size


def _separate(view: View, rows: tuple[dict[int, int], ...]) -> bool:
    """Return whether each axis moves along one axis of the tensor, in steps past smaller ones."""
    moved = [n for row in rows for n in row if view.shape[n] > 1]
    if sorted(moved) != [n for n, e in enumerate(view.shape) if e > 1]:
        return False
    for row in rows:
        # Steps like those of a mixed-radix number: each one exceeds the span of all smaller ones
        # together, so no two coordinates give one sum.
        reach = 0
        for n, step in sorted(row.items(), key=lambda item: abs(item[1])):
            if view.shape[n] > 1 and abs(step) <= reach:
                return False
            reach += abs(step) * (view.shape[n] - 1)
    return True


def coordinates(view: View, values: Mapping[Var, int]) -> list[Array]:
    """Return the array's coordinates of every element of the view, broadcastable to its extents."""
    shape = extents(view, values)
    known: dict[Var, Any] = dict(values)
    for n, extent in enumerate(shape):
        known[axis(n)] = np.arange(extent).reshape([-1 if m == n else 1 for m in range(len(shape))])
    return [np.asarray(evaluate(entry, known)) for entry in view.index]


def evaluate(index: Index, values: Mapping[Var, Any]) -> Any:
    """Return the value of an index expression on integers or integer arrays."""
    total: Any = index.constant
    for atom, coefficient in index.terms:
        match atom:
            case Var():
                value = values[atom]
            case FloorDiv(inner, divisor):
                value = evaluate(inner, values) // divisor
            case Mod(inner, divisor):
                value = evaluate(inner, values) % divisor
            case Min(operands):
                value = _fold(np.minimum, [evaluate(o, values) for o in operands])
            case Max(operands):
                value = _fold(np.maximum, [evaluate(o, values) for o in operands])
            case Element():
                most = None if atom.most is None else evaluate(atom.most, values)
                at = [evaluate(c, values) for c in atom.at]
                value = atom.look_up(values[atom.table], at, most)
            case CallExtent() | ExtentProduct():
                value = Index(((atom, 1),)).evaluate(values)
        total = total + coefficient * value
    return total


def _fold(function: Any, parts: list[Any]) -> Any:
    result = parts[0]
    for part in parts[1:]:
        result = function(result, part)
    return result


def _slices(
    view: View, values: Mapping[Var, int], shape: tuple[int, ...]
) -> tuple[tuple[Any, ...], tuple[int, ...], tuple[Any, ...]] | None:
    """Basic-indexing keys, the order of axes and an ellipsis; None where a gather is needed."""
    steps = _steps(view.index, view.rank)
    if steps is None:
        return None
    sizes = extents(view, values)
    keys: list[Any] = []
    for (rest, step, own), limit in zip(steps.entries, shape, strict=True):
        start = rest.evaluate(values)
        if own is None:
            keys.append(start)
            continue
        size = sizes[own]
        stop = start + (size - 1) * step + 1 if size else start
        # NumPy would count a negative start from the end, and cut the slice off at the limit.
        if start < 0 or stop > limit:
            return None
        keys.append(slice(start, stop, step))
    return tuple(keys), steps.order, (Ellipsis,)


@dataclass(frozen=True)
class _Steps:
    """A view whose axes each run along one axis of the tensor, with a positive step."""

    entries: tuple[tuple[Index, int, int | None], ...]
    """For each axis of the tensor: its start, its step, and the view's axis that steps, or None."""
    order: tuple[int, ...]
    """The view's axes in the order in which they lie in the tensor."""


@functools.lru_cache(maxsize=1 << 10)
def _steps(index: tuple[Index, ...], rank: int) -> _Steps | None:
    """How a view of `rank` axes steps along those of its tensor; None where it is no slice."""
    entries: list[tuple[Index, int, int | None]] = []
    order: list[int] = []
    for entry in index:
        own = [n for n in range(rank) if axis(n) in entry.variables()]
        if not own:
            entries.append((entry, 1, None))
            continue
        step = entry.coefficient(axis(own[0]))
        rest = entry - Index.of(axis(own[0])) * step
        if len(own) > 1 or step <= 0 or axis(own[0]) in rest.variables() or own[0] in order:
            return None
        entries.append((rest, step, own[0]))
        order.append(own[0])
    if sorted(order) != list(range(rank)):
        return None
    return _Steps(tuple(entries), tuple(order.index(n) for n in range(rank)))
