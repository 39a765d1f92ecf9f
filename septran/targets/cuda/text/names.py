"""Names that parameters of CUDA kernels keep clear of: C++'s, CUDA's, and those of our prelude."""

from __future__ import annotations

import re

from septran.targets.cuda.text import prelude

_KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t
    char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr
    constinit continue decltype default delete do double dynamic_cast else enum explicit export
    extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq
    nullptr operator or or_eq private protected public register reinterpret_cast requires return
    restrict short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename typeof union unsigned using virtual void
    volatile wchar_t while xor xor_eq NULL NAN INFINITY linux unix
"""
_CUDA = "threadIdx blockIdx blockDim gridDim warpSize dim3 cudaError_t size_t clock clock64 std emu"
_FUNCTIONS = """
    abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2
    expm1 fabs fdim floor fma fmax fmin fmod frexp hypot ilogb isfinite isinf isnan ldexp lgamma
    llabs llmax llmin llrint llround log log10 log1p log2 logb lrint lround max min modf nearbyint
    nextafter pow remainder rint round rsqrt signbit sin sincos sinh sqrt tan tanh tgamma trunc
    umax umin ullmax ullmin printf malloc free memcpy memset assert main
"""
_BEFORE = re.compile(r"__|septran_|atomic[A-Z]|CUDART_|EMU_|tvm|mma_|ptx_|cuda")
"""How names of functions and macros begin that generated text may use."""
_TYPE = re.compile(r"(u?(char|short|int|long|longlong)|float|double|half|nv_bfloat16)\d*(_t)?")
"""Those of numbers, and of vectors of them."""
_PRELUDE = (
    prelude.INTEGERS, prelude.TENSOR_MAP, prelude.HALF, prelude.BFLOAT16, prelude.FLOAT8,
    prelude.FLOATS,
)  # fmt: skip
_DEFINED = re.compile(r"typedef [^;]*\b(\w+);|struct (?:alignas\(\d+\) )?(\w+)")
RESERVED = frozenset(
    (
        *_KEYWORDS.split(), *_CUDA.split(),
        *(f"{word}{end}" for word in _FUNCTIONS.split() for end in ("", "f")),
        *(a or b for text in _PRELUDE for a, b in _DEFINED.findall(text)),
    )
)  # fmt: skip


def identifier(name: str) -> str:
    """A name like `name` that a variable of generated CUDA text may have."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII)
    taken = word in RESERVED or _TYPE.fullmatch(word) or _BEFORE.match(word)
    return f"t_{word.lstrip('_')}" if taken or not word[:1].isalpha() else word
