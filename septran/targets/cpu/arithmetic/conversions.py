"""From one element type to another: `task.numerics.convert` as vector code."""

from __future__ import annotations

from tvm import tirx

from septran.dtypes import is_float, itemsize
from septran.targets.cpu import simd
from septran.targets.cpu.simd import constant, element_of, lanes_of, like
from septran.targets.lower.writer import Expr, Writer


def convert(writer: Writer, value: Expr, dtype: str) -> Expr:
    """Each lane as a number of `dtype`, which is one that TensorIR computes in."""
    kind = element_of(value)
    if kind == dtype:
        return value
    if dtype == "bool":
        return simd.unequal(value, like(value, 0))
    if is_float(kind) and not is_float(dtype):
        return simd.cast(_whole(writer, value, 64 if itemsize(dtype) == 8 else 32), dtype)
    if dtype == "float16" and kind == "float64":
        return simd.cast(single(writer, value), dtype)
    return simd.cast(value, dtype)


def _whole(writer: Writer, x: Expr, bits: int) -> Expr:
    """A float's integer part modulo ``2**bits``, as a signed integer; 0 of infinities and NaN.

    LLVM has no value for what does not fit (fptosi is poison then), so it is made to fit:
    the multiple of ``2**bits`` that is next to a number is taken away, without rounding.
    """
    modulus, half = 2.0**bits, 2.0 ** (bits - 1)
    if element_of(x) == "float64" and bits == 32:  # what is larger has no fraction elsewhere
        x = simd.call("float64", lanes_of(x), "llvm.trunc", x)
    x = writer.bind("x", x)
    turns = simd.call(element_of(x), lanes_of(x), "llvm.rint", x * like(x, 1 / modulus))
    rest = writer.bind("r", simd.fma(turns, like(x, -modulus), x))
    rest = writer.bind("r", tirx.Select(rest >= like(x, half), like(x, -half), rest))
    fitting = tirx.Select(tirx.EQ(rest, rest), rest, like(x, 0.0))
    return simd.cast(fitting, f"int{bits}")


def single(writer: Writer, value: Expr) -> Expr:
    """A number as float32, such that rounding it again, to 16 or 8 bits, is rounding once."""
    kind = element_of(value)
    if kind == "float64":
        return _odd_single(writer, writer.bind("x", value))
    if is_float(kind) or itemsize(kind) < 4:
        return simd.cast(value, "float32")
    if itemsize(kind) == 8:
        value = _shortened(writer, writer.bind("x", value))
    return _odd_single(writer, writer.bind("x", simd.cast(value, "float64")))


def _odd_single(writer: Writer, x: Expr) -> Expr:
    """float64 rounded to odd: see `task.numerics.odd_single`."""
    lanes = lanes_of(x)
    near = writer.bind("n", simd.cast(x, "float32"))
    back = writer.bind("y", simd.cast(near, "float64"))
    raw = writer.bind("u", simd.bits(near, "uint32"))
    one = constant(1, "uint32", lanes)
    even = tirx.EQ(raw & one, constant(0, "uint32", lanes))
    finite = tirx.EQ(near - near, constant(0.0, "float32", lanes))
    between = tirx.And(tirx.And(even, finite), simd.unequal(back, x))
    below = _size(back) < _size(x)
    other = tirx.Select(below, raw | one, raw - one)
    return simd.bits(tirx.Select(between, other, raw), "float32")


def _size(x: Expr) -> Expr:
    return simd.call(element_of(x), lanes_of(x), "llvm.fabs", x)


def _shortened(writer: Writer, x: Expr) -> Expr:
    """64-bit integers that float64 has: see `task.numerics`."""
    low = writer.bind("low", x & like(x, 2**20 - 1))
    joined = (x ^ low) | tirx.Select(tirx.EQ(low, like(x, 0)), like(x, 0), like(x, 2**19))
    top = writer.bind("top", x >> like(x, 48))
    near = tirx.EQ(top, like(x, 0))
    if element_of(x)[0] == "i":
        near = tirx.Or(near, tirx.EQ(top, like(x, -1)))
    return tirx.Select(near, x, joined)
