"""Functions of elements as CUDA computes them: which call, which operator, which order.

float32 goes to CUDA's accurate functions (`expf`, `erff`, ...: at most 2 units in the last
place), float64 to their double counterparts; nothing is approximated by fast-math. They are
called by name, as TVM's own operators print ``exp`` as ``__expf``. A power of two is an
instruction that is as exact, but for results below the normal numbers, which become zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from tvm import tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812  # as TVM itself spells it

from septran.dtypes import SHORT, is_float, itemsize
from septran.targets.cuda.writer import CudaWriter
from septran.targets.lower.arithmetic import PLAIN_SUMS, Arithmetic
from septran.targets.lower.values import cast, element_of
from septran.targets.lower.writer import Expr


@dataclass(frozen=True)
class CudaArithmetic(Arithmetic):
    """C++ and CUDA's headers, one element at a time."""

    writer: CudaWriter

    def constant(self, value: float | int | bool, dtype: str, lanes: int = 1) -> Expr:
        """Rounded to the type, as the printer writes the digits of a double."""
        if dtype == "bool":
            return tirx.IntImm("bool", int(bool(value)))
        if dtype == "float64":
            return _double(float(value))
        if is_float(dtype):
            rounded = float(np.float32(value))
            if dtype in SHORT:  # whose literals the printer writes with functions of CUDA's headers
                return tirx.Cast(dtype, tirx.FloatImm("float32", rounded))
            return tirx.FloatImm(dtype, rounded)
        if math.isinf(value):
            raise ValueError(f"infinity is not a number of {dtype}")
        number = int(value)
        # In C++ this literal is the negative of 2^63, which int64 does not have.
        if dtype == "int64" and number == -(2**63):
            return tirx.min_value("int64")
        return tirx.IntImm(dtype, number)

    def call(self, name: str, *values: Expr) -> Expr:
        """CUDA's function of that name and type."""
        dtype = element_of(values[0])
        return tirx.call_pure_extern(dtype, f"{name}f" if dtype == "float32" else name, *values)

    def function(self, name: str, x: Expr) -> Expr:
        """CUDA has the inverse of a square root, and an instruction for powers of two."""
        source = self.writer.dialect.power
        if source and name == "exp2" and element_of(x) == "float32":
            return T.cuda.func_call("septran_exp2", x, source_code=source, return_type="float32")
        return self.call("rsqrt", x) if name == "rsqrt" else super().function(name, x)

    def wrapped(self, function: str, x: Expr, y: Expr) -> Expr:
        """As unsigned integers, which wrap ([basic.fundamental]); short ones become int.

        C++ leaves the overflow of signed ones undefined, so that compilers take ``x + 1 > x``
        for true.
        """
        dtype = element_of(x)
        if is_float(dtype):
            return PLAIN_SUMS[function](x, y)
        wide = _unsigned(dtype)
        left, right = _converted(x, wide), _converted(y, wide)
        if function == "subtract":  # TVM's bounds of unsigned differences stop at 0, by an error
            right = tirx.call_pure_extern(wide, f"{wide}_t", y)
        return _converted(PLAIN_SUMS[function](left, right), dtype)

    def shifted_left(self, x: Expr, count: Expr) -> Expr:
        """As unsigned integers, too."""
        wide = _unsigned(element_of(x))
        return _converted(_converted(x, wide) << _converted(count, wide), element_of(x))

    def extreme(self, function: str, x: Expr, y: Expr) -> Expr:
        """One instruction, where the machine has it."""
        dtype = element_of(x)
        if dtype == "bool":
            return tirx.Or(x, y) if function == "max" else tirx.And(x, y)
        if not is_float(dtype):
            return tirx.Max(x, y) if function == "max" else tirx.Min(x, y)
        if dtype == "float32" and self.writer.dialect.extreme:
            name = f"septran_{function}"
            code = self.writer.dialect.extreme.format(name=name, function=function)
            return T.cuda.func_call(name, x, y, source_code=code, return_type="float32")
        # NaN wins: where x is one the condition says so, where y is one the comparison is false.
        x, y = self.writer.bind("a", x), self.writer.bind("b", y)
        first = x > y if function == "max" else x < y
        return tirx.Select(tirx.Or(first, tirx.NE(x, x)), x, y)


def _double(value: float) -> Expr:
    """A constant of float64, of which the printer writes 15 decimals."""
    if not math.isfinite(value) or float(f"{value:.15f}") == value:
        return tirx.FloatImm("float64", value)
    bits = tirx.IntImm("int64", int(np.float64(value).view("int64")))
    return tirx.call_pure_extern("float64", "__longlong_as_double", bits)


def _unsigned(dtype: str) -> str:
    """The type in which integers of another type wrap."""
    return "uint64" if itemsize(dtype) == 8 else "uint32"


def _converted(value: Expr, dtype: str) -> Expr:
    """An integer as another integer type."""
    if isinstance(value, tirx.IntImm) and int(value.value) < 0 and dtype[0] == "u":
        # TVM folds conversions of constants, and refuses to make these; this one is C++'s own.
        return tirx.call_pure_extern(dtype, f"{dtype}_t", value)
    return cast(value, dtype)
