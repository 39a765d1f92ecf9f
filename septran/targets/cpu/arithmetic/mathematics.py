"""Functions of elements as vector code.

`exponential` and `elementary` have those of float32 that are computed here, with their
errors. float64 goes to the C library lane by lane. Infinities and NaN come out as in NumPy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm import tirx

from septran.dtypes import is_float
from septran.targets.cpu import simd
from septran.targets.cpu.arithmetic import elementary, exponential, wrapping
from septran.targets.lower.arithmetic import Arithmetic
from septran.targets.lower.values import broadcast, cast, element_of, lanes_of
from septran.targets.lower.writer import Expr

_SINGLE = {**exponential.SINGLE, **elementary.SINGLE}
"""Functions of one float32."""
_SCALAR = {"erf", "fmod"}
"""Functions of the C library that LLVM has no vectors of."""
_WRAPPING = {
    "add": wrapping.add,
    "subtract": wrapping.subtract,
    "multiply": wrapping.multiply,
}


@dataclass(frozen=True)
class VectorArithmetic(Arithmetic):
    """LLVM's intrinsics, on one lane or many."""

    def constant(self, value: float | int | bool, dtype: str, lanes: int = 1) -> Expr:
        """LLVM rounds it to the type."""
        return simd.constant(value, dtype, lanes)

    def call(self, name: str, *values: Expr) -> Expr:
        """LLVM's intrinsic, or the C library lane by lane."""
        dtype, lanes = element_of(values[0]), lanes_of(values[0])
        if name == "pow" and dtype == "float32":
            x, y = (self.writer.bind("x", value) for value in values)
            return elementary.power(self.writer, x, y)
        if name not in _SCALAR:
            return simd.call(dtype, lanes, f"llvm.{name}", *values)
        function = f"{name}f" if dtype == "float32" else name
        if lanes == 1:
            return tirx.call_pure_extern(dtype, function, *values)
        spare = [self.writer.allocate("lanes", lanes, dtype) for _ in values]
        for buffer, value in zip(spare, values, strict=True):
            self.writer.store(buffer, 0, value, lanes)
        with self.writer.loop("lane", lanes) as lane:
            arguments = [self.writer.load(buffer, lane) for buffer in spare]
            result = tirx.call_pure_extern(dtype, function, *arguments)
            self.writer.store(spare[0], lane, result)
        return self.writer.load(spare[0], 0, lanes)

    def function(self, name: str, x: Expr) -> Expr:
        """Apply a function; those of `_SINGLE` are computed here for float32, the rest by LLVM."""
        x = self.writer.bind("x", x)
        if element_of(x) == "float32" and name in _SINGLE:
            return _SINGLE[name](self.writer, x)
        return super().function(name, x)

    def wrapped(self, function: str, x: Expr, y: Expr) -> Expr:
        """Without LLVM's marks."""
        return _WRAPPING[function](self.writer, x, y)

    def extreme(self, function: str, x: Expr, y: Expr) -> Expr:
        """Three instructions on x86, no branch.

        The NaN is a constant: if it were `x`, LLVM would join both conditions to one, which
        costs a register more and, on single elements, a branch that nobody can predict.
        """
        x, y = self.writer.bind("x", x), self.writer.bind("y", y)
        chosen = tirx.Select(x > y if function == "max" else x < y, x, y)
        if not is_float(element_of(x)):
            return chosen
        return tirx.Select(tirx.EQ(x, x), chosen, self.like(x, math.nan))

    def join(self, function: str, old: Expr, new: Expr) -> Expr:
        """NaN is looked for in what nothing waits for: the new value."""
        if function in ("sum", "prod"):
            return super().join(function, old, new)
        return self.extreme(function, new, old)

    def fma(self, x: Expr, y: Expr, z: Expr) -> Expr:
        """One instruction from AVX2 on."""
        return simd.fma(x, y, z)

    def unequal(self, x: Expr, y: Expr) -> Expr:
        """TVM's own comparison is false of NaN."""
        return simd.unequal(x, y)

    def comparable(self, truth: Expr) -> Expr:
        """LLVM would compare single bits as signed numbers."""
        return cast(truth, "int32")

    def from_truth(self, truth: Expr, dtype: str) -> Expr:
        """Widened without a sign."""
        return cast(truth, dtype)

    def level(self, *values: Expr) -> tuple[Expr, ...]:
        """Scalars in every lane of the vectors."""
        lanes = max(map(lanes_of, values))
        return tuple(broadcast(value, lanes) for value in values)
