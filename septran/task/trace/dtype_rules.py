"""The element types that a number, an operator or a primitive can have."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from septran.dtypes import ALL, is_float, promote
from septran.errors import nearest
from septran.ir import expressions as ex
from septran.location import Location
from septran.task.errors import DtypeError

_BITWISE = ("and", "or", "xor", "left_shift", "right_shift")
_SHIFTS = ("left_shift", "right_shift")
_OF_NUMBERS = ("subtract", "floor_divide", "remainder", "power")


def element_type(given: Any) -> str:
    """Return the name of an element type, of ours, NumPy's or torch's; raises DtypeError."""
    text = str(given).removeprefix("torch.")
    if text not in ALL:
        with contextlib.suppress(TypeError):
            text = np.dtype(given if isinstance(given, type) else text).name
        if given is None or text not in ALL:
            raise DtypeError(
                f"unknown dtype {given!r}", Location.of_caller(), hint=nearest(text, ALL)
            )
    return text


def require_number(value: Any, dtype: str, what: str, where: Location) -> None:
    """Refuse a value that `dtype` cannot represent; None means no content. Raises DtypeError."""
    if value is None:
        return
    if not isinstance(value, int | float | np.number | np.bool_):
        raise DtypeError(
            f"{what} is {value!r}, not a number", where, hint="write a Python number, or task.inf"
        )
    if not _fits(value, dtype):
        raise DtypeError(
            f"{what} is {value}, which {dtype} does not have",
            where,
            hint="convert the tensor first: x.astype(task.float32)",
        )


def check_expression(expr: ex.Expr, where: Location) -> None:
    """Refuse operators that their operands' types do not have; raises DtypeError."""
    for node in ex.walk(expr):
        match node:
            case ex.Constant():
                require_number(node.value, node.dtype, "a number in an expression", where)
            case ex.Unary(function="invert") if is_float(node.operand.dtype):
                raise DtypeError(
                    f"invert takes integers, not {node.operand.dtype}",
                    where,
                    hint="convert it first: x.astype(task.int32)",
                )
            case ex.Unary(function="neg") if node.operand.dtype == "bool":
                raise DtypeError("neg takes numbers, not bool", where, hint="write ~x")
            case ex.Binary(function=name) if name in _BITWISE or name in _OF_NUMBERS:
                _check_operands(node, where)


def _check_operands(node: ex.Binary, where: Location) -> None:
    kinds = (node.left.dtype, node.right.dtype)
    if node.function in _BITWISE and any(map(is_float, kinds)):
        raise DtypeError(
            f"{node.function} takes integers, not {' and '.join(kinds)}",
            where,
            hint="convert the floats first: x.astype(task.int32)",
        )
    # NumPy's common type of uint64 and a signed integer is float64, which has no bits to combine.
    if node.function in _BITWISE and is_float(promote(*kinds)):
        raise DtypeError(
            f"{node.function} has no integer type for {' and '.join(kinds)}",
            where,
            hint="convert one of them first: x.astype(task.int64)",
        )
    if node.function in (*_SHIFTS, *_OF_NUMBERS) and set(kinds) == {"bool"}:
        hint = "write a ^ b" if node.function == "subtract" else "convert one with astype first"
        raise DtypeError(f"{node.function} takes numbers, not bool", where, hint=hint)


def _fits(value: Any, dtype: str) -> bool:
    if is_float(dtype):
        return True
    if dtype == "bool":
        return value in (0, 1)
    if value != value or value in (float("inf"), float("-inf")) or value != int(value):
        return False
    info = np.iinfo(dtype)
    return bool(info.min <= value <= info.max)
