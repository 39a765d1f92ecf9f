"""AMD's threads and HIP's C++, where they are otherwise than CUDA's."""

from __future__ import annotations

from tvm import tirx

from septran.targets.cuda.dialect import Dialect
from septran.targets.lower.writer import Expr, Writer

LANES = 64
"""Of a wavefront on CDNA (AMD Instinct MI300 ISA, 3.1)."""
POWER = """\
__forceinline__ __device__ float septran_exp2(float x) { return __builtin_amdgcn_exp2f(x); }
"""
"""v_exp_f32: one unit in the last place; results below the normal numbers become zero."""


def _partner(writer: Writer, dtype: str, value: Expr, stride: int) -> Expr:
    del writer
    return tirx.call_extern(dtype, f"septran_partner<{stride}>", value)


# `v_max_f32` leaves out NaN, so that two comparisons say which is the greater.
HIP = Dialect(
    lanes=LANES, partner=_partner, power=POWER, extreme="", pairs=False, copies_as_they_are=True,
    most_registers=512,
)  # fmt: skip
