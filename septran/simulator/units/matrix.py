"""The matrix unit: products summed by the host's BLAS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from septran.machine.model import Instruction
from septran.simulator.operands import layout
from septran.simulator.units.memory import Call, Views
from septran.simulator.units.numerics import TYPES, product_type

Array = np.ndarray[Any, Any]
Action = Callable[[], object]


def _mma(views: Views, call: Call) -> Action | None:
    assert isinstance(call.unit, Instruction)
    m, n, k = call.value("m"), call.value("n"), call.value("k")
    if m == 0 or n == 0:
        return None
    summed = product_type(call.value("c_type"), call.value("type"), k)
    a = _operand(views, call, "a", (m, k), summed)
    b = _operand(views, call, "b", (k, n), summed)
    load, store = _sums(views, call, (m, n))
    return _product(views, a, b, (m, n), summed, load, store, call.value("accumulate") != 0)


def _product(
    views: Views,
    a: Callable[[], Array],
    b: Callable[[], Array],
    shape: tuple[int, int],
    summed: np.dtype[Any],
    load: Callable[[], Array],
    store: Callable[[Array], object] | None,
    accumulate: bool,
) -> Action:
    sums = load() if store is None else None
    temporary = views.temporary(shape, summed)
    # The usual case without conversions: NumPy's product goes where the sums are.
    if sums is not None and sums.dtype == summed:
        return _direct(a, b, sums, temporary, accumulate)

    def action() -> None:
        product = np.matmul(a(), b(), out=temporary)
        target = load()
        if target.dtype.kind in "iu" and product.dtype.kind == "f":
            # BLAS multiplies floats, so integers come as floats that hold them (`product_type`).
            product = product.astype(np.int64)
        if accumulate:
            product = target.astype(product.dtype) + product
        if store is None:
            target[...] = product.astype(target.dtype)
        else:
            store(product.astype(target.dtype))

    return action


def _direct(
    a: Callable[[], Array], b: Callable[[], Array], sums: Array, temporary: Array, accumulate: bool
) -> Action:
    """Return where sums are held in the type that they are summed in."""
    matmul, add = np.matmul, np.add

    def accumulating() -> None:
        matmul(a(), b(), temporary)
        add(sums, temporary, sums)

    def starting() -> None:
        matmul(a(), b(), sums)

    return accumulating if accumulate else starting


def _operand(
    views: Views, call: Call, name: str, shape: tuple[int, int], summed: np.dtype[Any]
) -> Callable[[], Array]:
    """Return what gives the matrix in the type that is summed in."""
    assert isinstance(call.unit, Instruction)
    transposed = call.value(f"{name}_transposed") != 0
    stored = shape[::-1] if transposed else shape
    kind, stride, place = TYPES[call.value("type")], call.value(f"{name}_stride"), call.place(name)
    form = layout(call.unit, name.upper())
    if form.kind == "fractal":
        tiles = _blocks(views, call, name, stored, form.parameters, kind)

        def gather() -> Array:
            plain = tiles.transpose(0, 2, 1, 3).reshape(
                tiles.shape[0] * tiles.shape[2], tiles.shape[1] * tiles.shape[3]
            )[: stored[0], : stored[1]]
            plain = plain.astype(summed)
            return plain.T if transposed else plain

        return gather
    if kind == summed:
        view = views.view(place, kind, stored, (stride, kind.itemsize))
        view = view.T if transposed else view
        return lambda: view
    # Converted when it is first read, and again once its bytes were overwritten.
    kept = views.keep(place, kind, (stored[0], stored[1]), stride, summed)
    if transposed:
        return lambda: kept.get().T
    return kept.get


def _blocks(
    views: Views,
    call: Call,
    name: str,
    shape: tuple[int, ...],
    block: tuple[int, ...],
    kind: np.dtype[Any],
) -> Array:
    high, wide = block
    item = kind.itemsize
    extents = (-(-shape[0] // high), -(-shape[1] // wide), high, wide)
    strides = (call.value(f"{name}_stride"), high * wide * item, wide * item, item)
    return views.view(call.place(name), kind, extents, strides)


def _sums(
    views: Views, call: Call, shape: tuple[int, int]
) -> tuple[Callable[[], Array], Callable[[Array], object] | None]:
    """Return how to read the sums, and how to write them; None where what is read is a view."""
    assert isinstance(call.unit, Instruction)
    kind = TYPES[call.value("c_type")]
    form = layout(call.unit, "C")
    if form.kind != "fractal":
        view = views.view(call.place("c"), kind, shape, (call.value("c_stride"), kind.itemsize))
        return (lambda: view), None
    tiles = _blocks(views, call, "c", shape, form.parameters, kind)
    down, across, high, wide = tiles.shape

    def whole() -> Array:
        return tiles.transpose(0, 2, 1, 3).reshape(down * high, across * wide)

    def load() -> Array:
        return whole()[: shape[0], : shape[1]]

    def store(values: Array) -> None:
        # Elements of the blocks at the edges that are not of the matrix stay as they are.
        plain = whole()
        plain[: shape[0], : shape[1]] = values
        tiles[...] = plain.reshape(down, high, across, wide).transpose(0, 2, 1, 3)

    return load, store


BUILDERS: Mapping[str, Callable[[Views, Call], Action | None]] = {"mma": _mma}
"""Command to the function that makes its action."""
