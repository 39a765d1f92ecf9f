"""The matrix instructions of CDNA 2 and 3, as data: what a lane's registers hold.

Each multiplies 16 rows of A by 16 columns of B. Of A lane l holds `steps` elements that follow each
other along the sum, of row l % 16, from step `steps` * (l // 16) on; of B likewise of a column. Of
the result it holds four elements of column l % 16: rows 4 * (l // 16) and on, or, of float64, rows
l // 16, l // 16 + 4, and on (AMD matrix instruction calculator; AMD Instinct MI300 ISA, 7).
"""

from __future__ import annotations

from dataclasses import dataclass

from septran.targets.cuda.fragment.fragments import Digit, register, thread
from septran.targets.rocm.dialect import LANES

SIDE = 16
"""Rows and columns of one instruction."""
HELD = SIDE * SIDE // LANES
"""Elements of its result in each lane."""
GROUPS = LANES // SIDE
"""Lanes with the same row of A."""


@dataclass(frozen=True)
class Mfma:
    """One instruction."""

    name: str
    """The name of its function in HIP text, without the prefix."""
    builtin: str
    steps: int
    """Elements of the sum that a lane holds."""
    operand: str
    """The C++ type of these elements, as the instruction takes them."""
    result: str
    """The C++ type of the result's elements."""
    scattered: bool = False
    """Whether a lane's rows of the result are four apart."""

    @property
    def depth(self) -> int:
        """Steps of the sum."""
        return self.steps * GROUPS

    def along(self, stride: int) -> list[Digit]:
        """The steps of one instruction over lanes and registers, the most significant first."""
        return [thread(GROUPS, SIDE), register(self.steps, stride)]

    def held(self, stride: int) -> list[Digit]:
        """The side of the result that a lane has four elements of, likewise."""
        lanes, registers = thread(GROUPS, SIDE), register(HELD, stride)
        return [registers, lanes] if self.scattered else [lanes, registers]


F16 = Mfma("f32_16x16x16_f16", "f32_16x16x16f16", 4, "_Float16", "float")
BF16 = Mfma("f32_16x16x16_bf16", "f32_16x16x16bf16_1k", 4, "short", "float")
I8 = Mfma("i32_16x16x32_i8", "i32_16x16x32_i8", 8, "char", "int")
I8_CDNA2 = Mfma("i32_16x16x16_i8", "i32_16x16x16i8", 4, "char", "int")
F32 = Mfma("f32_16x16x4_f32", "f32_16x16x4f32", 1, "float", "float")
F64 = Mfma("f64_16x16x4_f64", "f64_16x16x4f64", 1, "double", "double", scattered=True)

INSTRUCTIONS = {
    ("float32", "float16", 16): F16,
    ("float32", "bfloat16", 16): BF16,
    ("float32", "float8_e4m3fn", 16): F16,
    ("int32", "int8", 32): I8,
    ("int32", "int8", 16): I8_CDNA2,
    ("float32", "float32", 4): F32,
    ("float64", "float64", 4): F64,
}
"""By the types of accumulator and operands, and the steps of the sum that the machine file says.

8-bit floats of CDNA 3's own instructions have another bias than the Open Compute Project's. float16
has each of the latter's values, so that they are widened to it.
"""
WIDENED = {"float8_e4m3fn": "float16"}
