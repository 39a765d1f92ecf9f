"""What one vendor's C++ says otherwise than another's; all else is the same text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tvm import tirx

from septran.targets.lower.writer import Expr, Writer

EXTREME = """\
__forceinline__ __device__ float {name}(float a, float b) {{
  float result;
  asm("{function}.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}}
"""
"""One instruction from sm_80 on."""
POWER = """\
__forceinline__ __device__ float septran_exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
"""
"""At most 2^-22 of the result off (PTX ISA, "ex2"): 2 units in the last place.

`exp2f` is this with two more multiplications and a comparison, for results that are subnormal;
the bound on errors (`rounding.smallest`) lets hardware flush those to zero.
"""
AMPERE = 80
"""The first architecture with `max.NaN`."""


@dataclass(frozen=True)
class Dialect:
    """The few things that the common code generator asks about a vendor's threads and C++."""

    lanes: int
    """Threads that go through a program together."""
    partner: Callable[[Writer, str, Expr, int], Expr]
    """The value, of a type of 4 or 8 bytes, of the lane whose number differs in one bit."""
    power: str
    """The text of ``septran_exp2``, a power of two in float32; empty where ``exp2`` is called."""
    extreme: str = ""
    """The text of the greater (``function`` is max) or lesser of two floats, or NaN.

    Empty where the machine has no instruction for it.
    """
    pairs: bool = True
    """Whether the text has instructions for two short floats at once."""
    copies_as_they_are: bool = False
    """Whether copies move short floats as they are, and not by way of float32."""
    most_registers: int = 256
    """Registers of a thread as they are allocated."""
    smallest: int | None = None
    """Threads of the smallest block; None: a warp for each of a multiprocessor's four parts."""

    @property
    def group(self) -> int:
        """Threads of the smallest block."""
        return self.smallest or 4 * self.lanes


def _shuffled(writer: Writer, dtype: str, value: Expr, stride: int) -> Expr:
    mask, bits, width = tirx.IntImm("uint32", 0xFFFFFFFF), writer.index(stride), writer.index(32)
    return tirx.call_extern(dtype, "__shfl_xor_sync", mask, value, bits, width)


CUDA = Dialect(lanes=32, partner=_shuffled, power=POWER)


def of_generation(number: int) -> Dialect:
    """CUDA's for an architecture's number, such as 90."""
    return replace(CUDA, extreme=EXTREME) if number >= AMPERE else CUDA
