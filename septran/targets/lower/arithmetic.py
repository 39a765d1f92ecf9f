"""Functions of elements, and their types: NumPy's meaning in a target's primitives.

What is decided here is the same on every target: in which type, what is rounded when, which
select guards, which corner case is whose. A target says how it writes constants, calls
functions of C's mathematics, wraps integers, and finds the greater of two numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tvm import tirx

from septran.dtypes import SHORT, TYPES, is_float, itemsize
from septran.ir.expressions import COMPARISONS
from septran.targets.lower.values import bits, broadcast, cast, element_of, lanes_of
from septran.targets.lower.writer import Expr, Writer

_COMPARE: Mapping[str, Callable[[Expr, Expr], Expr]] = {
    "less": tirx.LT, "less_equal": tirx.LE, "greater": tirx.GT, "greater_equal": tirx.GE,
    "equal": tirx.EQ,
}  # fmt: skip
_PLAIN: Mapping[str, Callable[[Expr, Expr], Expr]] = {
    "divide": tirx.Div, "and": lambda x, y: x & y, "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
}  # fmt: skip
_TRUTH = {
    "and": "and", "multiply": "and", "minimum": "and", "or": "or", "add": "or",
    "maximum": "or", "xor": "xor",
}  # fmt: skip
"""What functions of numbers are of truth values."""
PLAIN_SUMS: Mapping[str, Callable[[Expr, Expr], Expr]] = {
    "add": tirx.Add, "subtract": tirx.Sub, "multiply": tirx.Mul,
}  # fmt: skip
"""Not operators, which fold ``x * 0`` to 0, NaN or not."""


@dataclass(frozen=True)
class Arithmetic(ABC):
    """Functions of values, one of which may stand for several lanes."""

    writer: Writer

    # ---- what a target says -------------------------------------------------------------

    @abstractmethod
    def constant(self, value: float | int | bool, dtype: str, lanes: int = 1) -> Expr:
        """A number of a type, in every lane."""

    @abstractmethod
    def call(self, name: str, *values: Expr) -> Expr:
        """A function of floats by its name in C, without the letter for float32."""

    @abstractmethod
    def wrapped(self, function: str, x: Expr, y: Expr) -> Expr:
        """``add``, ``subtract`` or ``multiply``; integers wrap."""

    @abstractmethod
    def extreme(self, function: str, x: Expr, y: Expr) -> Expr:
        """``max`` or ``min`` of numbers; NaN where one of the two is NaN."""

    def function(self, name: str, x: Expr) -> Expr:
        """A function of `septran.ir.expressions.UNARY` of a float."""
        match name:
            case "neg":
                return -x
            case "abs":
                return self.call("fabs", x)
            case "rsqrt":
                return self.like(x, 1) / self.call("sqrt", x)
            case "sigmoid":
                return self.like(x, 1) / (self.like(x, 1) + self.call("exp", -x))
            case "round":
                return self.call("rint", x)
            case _:
                return self.call(name, x)

    def fma(self, x: Expr, y: Expr, z: Expr) -> Expr:
        """``x * y + z`` of floats, rounded once."""
        return self.call("fma", x, y, z)

    def shifted_left(self, x: Expr, count: Expr) -> Expr:
        """An integer's bits moved up by fewer than it has."""
        return x << count

    def unequal(self, x: Expr, y: Expr) -> Expr:
        """Whether two values of a type differ, as a NaN does from all."""
        return tirx.NE(x, y)

    def comparable(self, truth: Expr) -> Expr:
        """A truth value as something that can be compared."""
        return truth

    def from_truth(self, truth: Expr, dtype: str) -> Expr:
        """A truth value as a number of a type, 1 or 0."""
        return tirx.Select(truth, self.constant(1, dtype), self.constant(0, dtype))

    def level(self, *values: Expr) -> tuple[Expr, ...]:
        """Values with equally many lanes."""
        return values

    # ---- types ----------------------------------------------------------------------------

    def like(self, value: Expr, number: float) -> Expr:
        """A constant of the type and lanes of another value."""
        return self.constant(number, element_of(value), lanes_of(value))

    def convert(self, value: Expr, dtype: str) -> Expr:
        """A value in another type: `septran.ir.numerics.convert`."""
        kind = element_of(value)
        if kind == dtype:
            return value
        if isinstance(value, tirx.FloatImm) and is_float(dtype):
            return self.constant(float(value.value), dtype)
        if dtype == "bool":
            return self.unequal(value, self.like(value, 0))
        if kind == "bool":
            return self.from_truth(value, dtype)
        if dtype in SHORT:
            value = self.single(value, dtype)
        elif kind in SHORT:
            value = cast(value, "float32")
        if is_float(kind) and not is_float(dtype):
            value = self._whole(value, 64 if itemsize(dtype) == 8 else 32)
        return cast(value, dtype)

    def rounded(self, value: Expr, dtype: str) -> Expr:
        """A float rounded to one of 16 or 8 bits, as float32, in which it is computed with."""
        return self.convert(self.convert(value, dtype), "float32")

    def single(self, value: Expr, dtype: str) -> Expr:
        """A number as float32, such that rounding it again, to `dtype`, is rounding once."""
        kind = element_of(value)
        if kind == "float64":
            return self._odd_single(value)
        # float32 has all integers of 24 bits; greater ones are beyond a float of few exponents.
        exact = is_float(kind) or itemsize(kind) < 4 or TYPES[dtype].exponent <= 5
        if exact:
            return cast(value, "float32")
        if itemsize(kind) == 8:
            value = self._shortened(self.writer.bind("x", value))
        return self._odd_single(cast(value, "float64"))

    def _whole(self, x: Expr, size: int) -> Expr:
        """A float's integer part modulo ``2**size``, as a signed integer; 0 of infinities, NaN.

        Nobody says what a conversion gives of what does not fit: LLVM's is poison, C++'s
        undefined, PTX's the type's end. So it is made to fit: the multiple of ``2**size`` that
        is next to a number is taken away, without rounding.
        """
        modulus, half = 2.0**size, 2.0 ** (size - 1)
        if element_of(x) == "float64" and size == 32:  # what is larger has no fraction elsewhere
            x = self.call("trunc", x)
        x = self.writer.bind("x", x)
        multiples = self.call("rint", x * self.like(x, 1 / modulus))
        rest = self.writer.bind("rest", self.fma(multiples, self.like(x, -modulus), x))
        least = self.like(x, -half)
        # A tie that was rounded down leaves 2**(size - 1), which wraps to the least number.
        rest = self.writer.bind("rest", tirx.Select(rest >= self.like(x, half), least, rest))
        fitting = tirx.Select(tirx.EQ(rest, rest), rest, self.like(x, 0))
        return cast(fitting, f"int{size}")

    def _odd_single(self, x: Expr) -> Expr:
        """float64 rounded to odd: see `septran.ir.numerics.odd_single`."""
        bind, lanes = self.writer.bind, lanes_of(x)
        x = bind("x", x)
        near = bind("n", cast(x, "float32"))
        back = bind("y", cast(near, "float64"))
        raw = bind("u", bits(near, "uint32"))
        one = self.constant(1, "uint32", lanes)
        even = tirx.EQ(raw & one, self.constant(0, "uint32", lanes))
        finite = tirx.EQ(near - near, self.constant(0.0, "float32", lanes))
        between = tirx.And(tirx.And(even, finite), self.unequal(back, x))
        below = self.call("fabs", back) < self.call("fabs", x)
        other = tirx.Select(below, raw | one, raw - one)
        return bits(tirx.Select(between, other, raw), "float32")

    def _shortened(self, x: Expr) -> Expr:
        """64-bit integers that float64 has: see `septran.ir.numerics`."""
        zero = self.like(x, 0)
        low = self.writer.bind("low", x & self.like(x, 2**20 - 1))
        joined = (x ^ low) | tirx.Select(tirx.EQ(low, zero), zero, self.like(x, 2**19))
        top = self.writer.bind("top", x >> self.like(x, 48))
        near = tirx.EQ(top, zero)
        if element_of(x)[0] == "i":
            near = tirx.Or(near, tirx.EQ(top, self.like(x, -1)))
        return tirx.Select(near, x, joined)

    # ---- functions of one value -----------------------------------------------------------

    def apply(self, function: str, value: Expr, dtype: str) -> Expr:
        """A function of `septran.ir.expressions.UNARY`; the result is of `dtype`."""
        if function == "not":
            truth = element_of(value) == "bool"
            return tirx.Not(value) if truth else tirx.EQ(value, self.like(value, 0))
        value = self.convert(value, dtype)
        if is_float(dtype):
            return self.function(function, value)
        match function:
            case "invert":
                return tirx.Not(value) if dtype == "bool" else tirx.bitwise_not(value)
            case "neg":
                return self.negative(value)
            case "abs":
                return self.magnitude(value)
            case _:
                return value  # an integer is its own floor

    def negative(self, x: Expr) -> Expr:
        """An integer with the other sign; the least one, itself."""
        return self.wrapped("subtract", self.like(x, 0), x)

    def magnitude(self, x: Expr) -> Expr:
        """A number without its sign; of the least integer, itself."""
        dtype = element_of(x)
        if is_float(dtype):
            return self.call("fabs", x)
        if dtype[0] != "i":
            return x
        x = self.writer.bind("x", x)
        return tirx.Select(x < self.like(x, 0), self.negative(x), x)

    # ---- functions of two values ----------------------------------------------------------

    def combine(self, function: str, x: Expr, y: Expr) -> Expr:
        """A function of `septran.ir.expressions.BINARY` of two values of one type."""
        x, y = self.level(x, y)
        truth = element_of(x) == "bool"
        if truth and function in _TRUTH:
            return self._logic(_TRUTH[function], x, y)
        if function in COMPARISONS:
            x, y = (self.comparable(x), self.comparable(y)) if truth else (x, y)
            return self.unequal(x, y) if function == "not_equal" else _COMPARE[function](x, y)
        if function in ("maximum", "minimum"):
            return self.extreme(function[:3], x, y)
        if function in _PLAIN:
            return _PLAIN[function](x, y)
        if function in PLAIN_SUMS:
            return self.wrapped(function, x, y)
        if function == "power" and is_float(element_of(x)):
            return self.call("pow", x, y)
        return self._careful(function, self.writer.bind("x", x), self.writer.bind("y", y))

    def select(self, condition: Expr, yes: Expr, no: Expr) -> Expr:
        """`yes` where a truth value holds, else `no`."""
        return tirx.Select(*self.level(condition, yes, no))

    def join(self, function: str, old: Expr, new: Expr) -> Expr:
        """One more value into what was reduced so far."""
        if function in ("sum", "prod"):
            return self.wrapped("add" if function == "sum" else "multiply", old, new)
        return self.extreme(function, old, new)

    def _logic(self, function: str, x: Expr, y: Expr) -> Expr:
        if function == "xor":
            return tirx.NE(self.comparable(x), self.comparable(y))
        return tirx.And(x, y) if function == "and" else tirx.Or(x, y)

    def _careful(self, function: str, x: Expr, y: Expr) -> Expr:
        match function:
            case "power":
                return self._power(x, y)
            case "left_shift" | "right_shift":
                return self._shift(function, x, y)
            case _ if is_float(element_of(x)):
                return self._floored(function, x, y)
            case _:
                return self._floored_integers(function, x, y)

    def _floored(self, function: str, x: Expr, y: Expr) -> Expr:
        """Rounded towards minus infinity, with a remainder of the divisor's sign, as NumPy's.

        Also of infinities: 1 // -inf is -1, and 0 has the quotient's sign.
        """
        bind, zero, one = self.writer.bind, self.like(x, 0), self.like(x, 1)
        rest = bind("rest", self.call("fmod", x, y))  # exact, with the dividend's sign
        signs = self._logic("xor", rest < zero, y < zero)
        wrong = tirx.And(tirx.NE(rest, zero), signs)
        if function == "remainder":
            none = self.call("copysign", zero, y)
            return tirx.Select(tirx.EQ(rest, zero), none, tirx.Select(wrong, rest + y, rest))
        quotient = bind("quotient", tirx.Div(x - rest, y))
        quotient = bind("quotient", tirx.Select(wrong, quotient - one, quotient))
        near = bind("near", self.call("floor", quotient))
        whole = tirx.Select(quotient - near > self.like(x, 0.5), near + one, near)
        ratio = bind("ratio", tirx.Div(x, y))  # infinite where y is 0
        none = self.call("copysign", zero, ratio)
        whole = tirx.Select(tirx.EQ(quotient, zero), none, whole)
        return tirx.Select(tirx.EQ(y, zero), ratio, whole)

    def _floored_integers(self, function: str, x: Expr, y: Expr) -> Expr:
        """The same of integers; 0 where the divisor is 0."""
        bind, zero, one = self.writer.bind, self.like(x, 0), self.like(x, 1)
        signed = element_of(x)[0] == "i"
        # The least integer divided by -1 does not fit: C++ leaves it undefined, x86 faults.
        away = tirx.EQ(y, zero)
        if signed:
            away = tirx.Or(away, tirx.EQ(y, self.like(y, -1)))
        safe = bind("safe", tirx.Select(away, one, y))
        rest = bind("rest", tirx.truncmod(x, safe))
        # The exclusive or has its sign bit set where the signs of the two differ.
        wrong = tirx.And(tirx.NE(rest, zero), (rest ^ safe) < zero)
        if function == "remainder":
            return tirx.Select(wrong, rest + safe, rest) if signed else rest
        whole = bind("whole", tirx.truncdiv(x, safe))
        if signed:
            # Wrapping hides its bounds: TVM ends the process on unsigned casts of what may be -1.
            whole = tirx.Select(wrong, self.wrapped("subtract", whole, one), whole)
            whole = tirx.Select(tirx.EQ(y, self.like(y, -1)), self.negative(x), whole)
        return tirx.Select(tirx.EQ(y, zero), zero, whole)

    def _shift(self, function: str, x: Expr, y: Expr) -> Expr:
        """Bits that are shifted out are lost: all, where the count is not below their number."""
        zero, size = self.like(x, 0), itemsize(element_of(x)) * 8
        signed = element_of(x)[0] == "i"
        fits = y < self.like(y, size)
        if signed:
            fits = tirx.And(fits, y >= zero)
        count = self.writer.bind("count", tirx.Select(fits, y, zero))
        if function == "left_shift":
            return tirx.Select(fits, self.shifted_left(x, count), zero)
        # Of a signed number the sign is left, as in Python and NumPy, however far it is shifted.
        rest = x >> self.like(x, size - 1) if signed else zero
        return tirx.Select(fits, x >> count, rest)

    def _power(self, x: Expr, y: Expr) -> Expr:
        """An integer to an integer, modulo its type, by squaring: one step for each bit."""
        writer, dtype, lanes = self.writer, element_of(x), lanes_of(x)
        zero, one = self.like(x, 0), self.like(x, 1)
        if dtype[0] == "i":  # of a negative exponent 1 and -1 have integer powers, others get 0
            unit = tirx.Or(tirx.EQ(x, one), tirx.EQ(x, self.like(x, -1)))
            x = tirx.Select(tirx.Or(unit, y >= zero), x, zero)
        power, base = (writer.allocate(stem, lanes, dtype) for stem in ("power", "base"))
        writer.store(power, 0, one, lanes)
        writer.store(base, 0, x, lanes)
        # All bits, as each lane has an exponent of its own.
        with writer.loop("bit", itemsize(dtype) * 8) as bit:
            total, square = (writer.load(buffer, 0, lanes) for buffer in (power, base))
            odd = tirx.NE((y >> broadcast(cast(bit, dtype), lanes)) & one, zero)
            more = self.wrapped("multiply", total, square)
            writer.store(power, 0, tirx.Select(odd, more, total), lanes)
            writer.store(base, 0, self.wrapped("multiply", square, square), lanes)
        return writer.load(power, 0, lanes)
