"""Sums, differences and products of integers that wrap, as two's complement and NumPy's do.

TVM marks the integer arithmetic of 32 bits and more as never leaving its type (LLVM's ``nsw``
and ``nuw``), from which LLVM concludes that ``x + 1 > x`` always holds. That is right of
indices, whose ranges are known, and wrong of data, so data is computed by functions in LLVM's
own words, without the marks. They vanish when they are put into their callers.
"""

from __future__ import annotations

from tvm import tirx

from septran.dtypes import is_float, itemsize
from septran.targets.cpu.simd import fma, like
from septran.targets.lower.values import element_of, lanes_of, vector_type
from septran.targets.lower.writer import Expr, Writer

_PLAIN = {"add": tirx.Add, "sub": tirx.Sub, "mul": tirx.Mul}
"""Not operators, which fold ``x * 0`` to 0, NaN or not."""
MARKED = 4
"""Bytes from which TVM marks integers."""


def add(writer: Writer, x: Expr, y: Expr) -> Expr:
    """``x + y``, of numbers of any type."""
    return _arithmetic(writer, "add", x, y)


def subtract(writer: Writer, x: Expr, y: Expr) -> Expr:
    """``x - y``, of numbers of any type."""
    return _arithmetic(writer, "sub", x, y)


def multiply(writer: Writer, x: Expr, y: Expr) -> Expr:
    """``x * y``, of numbers of any type."""
    return _arithmetic(writer, "mul", x, y)


def negative(writer: Writer, x: Expr) -> Expr:
    """``-x``; of the least integer, itself."""
    return -x if is_float(element_of(x)) else subtract(writer, like(x, 0), x)


def multiply_add(writer: Writer, a: Expr, b: Expr, c: Expr) -> Expr:
    """``a * b + c``; of floats as `simd.fma`."""
    if is_float(element_of(c)):
        return fma(a, b, c)
    return add(writer, multiply(writer, a, b), c)


def _arithmetic(writer: Writer, name: str, x: Expr, y: Expr) -> Expr:
    dtype, lanes = element_of(x), lanes_of(x)
    if is_float(dtype) or dtype == "bool" or itemsize(dtype) < MARKED:
        return _PLAIN[name](x, y)
    bits = itemsize(dtype) * 8
    kind = f"i{bits}" if lanes == 1 else f"<{lanes} x i{bits}>"
    function = f"septran_{name}_i{bits}x{lanes}"
    writer.functions[function] = f"""\
define {kind} @{function}({kind} %x, {kind} %y) alwaysinline nounwind memory(none) {{
  %result = {name} {kind} %x, %y
  ret {kind} %result
}}"""
    return tirx.call_pure_extern(vector_type(dtype, lanes), function, x, y)
