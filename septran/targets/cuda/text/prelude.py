"""The beginning of generated CUDA text: the few types it needs, and no header.

TVM's printer opens each kernel with CUDA's and the C++ library's headers, which NVRTC has
only where a toolkit is installed and nvcc reads for most of its time. The types below are
all that kernels use of them: elements of 16 and 8 bits are stored as they are and computed
with in float32, so conversions are their only operations.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from septran.targets.cuda.text.atomics import atomics
from septran.targets.templates import filled

BEGIN, END = "// --- prelude ---", "// --- end of the prelude ---"
"""Lines around it, for readers and for whoever brings types of their own."""

INTEGERS = """\
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
"""
TENSOR_MAP = """\
// What cuTensorMapEncodeTiled fills in.
struct alignas(64) CUtensorMap { uint64_t opaque[16]; };
"""
HALF = """\
struct half {
  uint16_t bits;
  half() = default;
  __device__ __forceinline__ half(float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
  __device__ __forceinline__ operator float() const {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
  }
};
typedef half __half;
struct alignas(4) half2 { half x, y; };
"""
BFLOAT16 = """\
struct nv_bfloat16 {
  uint16_t bits;
  nv_bfloat16() = default;
  __device__ __forceinline__ nv_bfloat16(float x) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  }
  __device__ __forceinline__ operator float() const {
    return __uint_as_float(uint32_t(bits) << 16);
  }
};
typedef nv_bfloat16 __nv_bfloat16;
struct alignas(4) nv_bfloat162 { nv_bfloat16 x, y; };
"""
# 464 is half-way from 448 to the 480 that e4m3 lacks; ties go to 448, whose mantissa is even.
FLOAT8_BITS = {
    "e4m3": "fabsf(x) <= 464.0f ? uint8_t(pair) : uint8_t(0x7f)",
    "e5m2": "uint8_t(pair)",
}
"""The conversion saturates; what rounds to more than 448 is NaN, as in the language's reference."""
FLOAT8 = """\
struct __nv_fp8_@KIND@ {
  uint8_t bits;
  __nv_fp8_@KIND@() = default;
  __device__ __forceinline__ __nv_fp8_@KIND@(float x) {
    uint16_t pair;
    asm("cvt.rn.satfinite.@KIND@x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
    bits = @BITS@;
  }
  __device__ __forceinline__ operator float() const {
    uint32_t pair;
    float x;
    asm("cvt.rn.f16x2.@KIND@x2 %0, %1;" : "=r"(pair) : "h"(uint16_t(bits)));
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(uint16_t(pair)));
    return x;
  }
};
typedef __nv_fp8_@KIND@ @SHORT@;
"""
FLOATS = """\
#define CUDART_INF_F __int_as_float(0x7f800000)
#define CUDART_NAN_F __int_as_float(0x7fffffff)
#define CUDART_INF __longlong_as_double(0x7ff0000000000000ll)
#define CUDART_NAN __longlong_as_double(0xfff8000000000000ll)
"""

# Where the printer's headers end: the last lines that do not depend on the kernel.
_LAST = re.compile(r"#define ushort unsigned short\n *#endif\n")


def lighten(source: str, opening: Callable[[str], str]) -> str:
    """`source` as TVM prints it, with `opening` of it in the place of its headers."""
    ends = list(_LAST.finditer(source))
    body = source[ends[-1].end() :] if ends else source
    return f"{opening(body)}\n{body.lstrip()}"


def prelude(body: str) -> str:
    """The types and functions that `body` uses."""
    words = set(re.findall(r"\w+", body))
    parts = [INTEGERS]
    if "CUtensorMap" in words:
        parts.append(TENSOR_MAP)
    if words & {"half", "__half", "half2"}:
        parts.append(HALF)
    if words & {"nv_bfloat16", "__nv_bfloat16", "nv_bfloat162"}:
        parts.append(BFLOAT16)
    for kind, short in (("e4m3", "fp8_e4_t"), ("e5m2", "fp8_e5_t")):
        if words & {f"__nv_fp8_{kind}", short}:
            parts.append(filled(FLOAT8, KIND=kind, SHORT=short, BITS=FLOAT8_BITS[kind]))
    if any(word.startswith("CUDART_") for word in words):
        parts.append(FLOATS)
    parts += atomics(words)
    return f"{BEGIN}\n{''.join(parts)}{END}"
