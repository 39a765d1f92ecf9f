"""The effects of the vector unit on tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from septran.ir.expressions import COMPARISONS
from septran.ir.numerics import convert
from septran.simulator.units.memory import Call, Views
from septran.simulator.units.numerics import (
    BINARY,
    NARROW,
    REDUCTIONS,
    TYPES,
    UNARY,
    identity,
    immediate,
    to_single,
    wide,
)

Array = np.ndarray[Any, Any]
Action = Callable[[], object]
BOOL = np.dtype(bool)


def _tile(views: Views, call: Call, name: str, kind: np.dtype[Any] | None = None) -> Array:
    shape = (call.value("rows"), call.value("cols"))
    strides = (call.value(f"{name}_row"), call.value(f"{name}_col"))
    return views.view(call.place(name), kind or TYPES[call.value("type")], shape, strides)


def _empty(call: Call) -> bool:
    return call.value("rows") == 0 or call.value("cols") == 0


def _result(function: str, call: Call) -> np.dtype[Any]:
    return BOOL if function in (*COMPARISONS, "not") else TYPES[call.value("type")]


def _apply(function: Callable[..., Any], target: Array, sources: list[Any], kind: int) -> Action:
    """``target = function(*sources)``, computed in the wide type of `kind`."""
    if kind in NARROW:
        # Scalars are wide already; arrays are widened at every run.
        def widened() -> None:
            inputs = [to_single(x) if x.ndim else x for x in sources]
            target[...] = function(*inputs)

        return widened
    if isinstance(function, np.ufunc):
        return partial(function, *sources, out=target)

    def action() -> None:
        target[...] = function(*sources)

    return action


def _unary(views: Views, call: Call) -> Action | None:
    if _empty(call):
        return None
    target = _tile(views, call, "dst", _result(call.function, call))
    function = UNARY[call.function]
    return _apply(function, target, [_tile(views, call, "x")], call.value("type"))


def _binary(views: Views, call: Call) -> Action | None:
    if _empty(call):
        return None
    target = _tile(views, call, "dst", _result(call.function, call))
    sources = [_tile(views, call, "x"), _tile(views, call, "y")]
    return _apply(BINARY[call.function], target, sources, call.value("type"))


def _immediate(views: Views, call: Call) -> Action | None:
    if _empty(call):
        return None
    function = call.function.removesuffix("_imm")
    target = _tile(views, call, "dst", _result(function, call))
    sources = [_tile(views, call, "x"), immediate(call.value("value"), call.value("type"))]
    if call.value("reversed"):
        sources.reverse()
    return _apply(BINARY[function], target, sources, call.value("type"))


def _select(views: Views, call: Call) -> Action | None:
    if _empty(call):
        return None
    target, x, y = (_tile(views, call, name) for name in ("dst", "x", "y"))
    condition = _tile(views, call, "c", np.dtype(np.uint8))

    def action() -> None:
        target[...] = np.where(condition != 0, x, y)

    return action


def _cast(views: Views, call: Call) -> Action | None:
    if _empty(call):
        return None
    target, source = (
        _tile(views, call, "dst", TYPES[call.value("dst_type")]),
        _tile(views, call, "x"),
    )
    return _conversion(target, source)


def _conversion(target: Array, source: Array) -> Action:
    if target.dtype == np.float32:
        return lambda: target.__setitem__(Ellipsis, to_single(source))
    return lambda: target.__setitem__(Ellipsis, convert(source, target.dtype))


def _reduce(views: Views, call: Call) -> Action | None:
    rows = call.value("rows")
    if rows == 0:
        return None
    number = call.value("type")
    function = call.function.removeprefix("reduce_")
    ufunc, kind = REDUCTIONS[function], wide(number)
    target = views.view(call.place("dst"), TYPES[number], (rows,), (call.value("dst_row"),))
    source, least = _tile(views, call, "x"), identity(function, kind)
    accumulate, narrow = call.value("accumulate") != 0, number in NARROW

    def action() -> None:
        values = to_single(source) if narrow else source
        if function == "sum":
            result = np.add.reduce(values, axis=1, dtype=kind)
        else:
            # NumPy refuses the maximum of no columns without an initial value.
            result = ufunc.reduce(values, axis=1, initial=least)
        if accumulate:
            result = ufunc(to_single(target) if narrow else target, result)
        target[...] = result

    return action


def _fill(views: Views, call: Call) -> Action | None:
    if _empty(call):
        return None
    value = immediate(call.value("value"), call.value("type"))
    return partial(_tile(views, call, "dst").__setitem__, Ellipsis, value)


def _copy(views: Views, call: Call) -> Action | None:
    if _empty(call):
        return None
    target, source = _tile(views, call, "dst"), _tile(views, call, "x")
    return partial(target.__setitem__, Ellipsis, source)


def _iota(views: Views, call: Call) -> Action | None:
    if _empty(call):
        return None
    numbers = np.arange(call.value("start"), call.value("start") + call.value("cols"))
    values = numbers.astype(TYPES[call.value("type")])
    return partial(_tile(views, call, "dst").__setitem__, Ellipsis, values)


BUILDERS: Mapping[str, Callable[[Views, Call], Action | None]] = {
    "vec_unary": _unary,
    "vec_binary": _binary,
    "vec_immediate": _immediate,
    "vec_select": _select,
    "vec_cast": _cast,
    "vec_reduce": _reduce,
    "vec_fill": _fill,
    "vec_copy": _copy,
    "vec_iota": _iota,
}
"""Command to the function that makes its action."""
