"""The beginning of generated HIP text: the few types and functions it needs, and no header.

What a compiler for AMD's GPUs lacks and the emulator has already (keywords, the numbers of a
thread, mathematics) is between `__AMDGCN__`; the rest both of them read. hipRTC and hipcc read
HIP's own headers before any text. So there the text is in a namespace of its own, in which its
names hide theirs, and macros of theirs that it defines are undefined first.
"""

from __future__ import annotations

import re

from septran.targets.cuda.text.atomics import atomics
from septran.targets.cuda.text.prelude import BEGIN, END, FLOATS, INTEGERS
from septran.targets.templates import filled

KEYWORDS = """\
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(threads, ...) \\
  __attribute__((amdgpu_flat_work_group_size(threads, threads)))
#define threadIdx (septran_thread())
#define blockIdx (septran_block())
struct septran_number { unsigned x; };
__device__ __forceinline__ septran_number septran_thread() {
  return {__builtin_amdgcn_workitem_id_x()};
}
__device__ __forceinline__ septran_number septran_block() {
  return {__builtin_amdgcn_workgroup_id_x()};
}
__device__ __forceinline__ void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
template <class T>
__device__ __forceinline__ T atomicAdd(T* place, T value) {
  return __hip_atomic_fetch_add(place, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T>
__device__ __forceinline__ T atomicMax(T* place, T value) {
  return __hip_atomic_fetch_max(place, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T>
__device__ __forceinline__ T atomicMin(T* place, T value) {
  return __hip_atomic_fetch_min(place, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T>
__device__ __forceinline__ T atomicCAS(T* place, T seen, T wanted) {
  __hip_atomic_compare_exchange_strong(place, &seen, wanted, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                       __HIP_MEMORY_SCOPE_AGENT);
  return seen;
}
#define __float_as_int(x) __builtin_bit_cast(int, x)
#define __float_as_uint(x) __builtin_bit_cast(unsigned, x)
#define __int_as_float(x) __builtin_bit_cast(float, x)
#define __uint_as_float(x) __builtin_bit_cast(float, x)
#define __longlong_as_double(x) __builtin_bit_cast(double, x)
#define __double_as_longlong(x) __builtin_bit_cast(long long, x)
template <class T>
__device__ __forceinline__ T max(T a, T b) { return a > b ? a : b; }
template <class T>
__device__ __forceinline__ T min(T a, T b) { return a < b ? a : b; }
"""
OLD_POWER = """\
#if !__has_builtin(__builtin_amdgcn_exp2f)  // before clang 17
extern "C" __device__ __attribute__((const)) float __ocml_native_exp2_f32(float);
#define __builtin_amdgcn_exp2f __ocml_native_exp2_f32
#endif
"""
UNDEFINED = "".join(f"#undef {name}\n" for name in re.findall(r"^#define (\w+)", KEYWORDS, re.M))
CLOSING = """
#if defined(__AMDGCN__)
}  // namespace septran
#endif
"""
"""What stands behind the kernels."""
VECTOR = """\
struct alignas(@ALIGN@) @NAME@ { @TYPE@ @PARTS@; };
__device__ __forceinline__ @NAME@ make_@NAME@(@PARAMETERS@) { return {@PARTS@}; }
"""
ELEMENTS = {
    "char": ("signed char", 1), "uchar": ("unsigned char", 1), "short": ("short", 2),
    "ushort": ("unsigned short", 2), "int": ("int", 4), "uint": ("unsigned", 4),
    "float": ("float", 4), "double": ("double", 8), "long": ("long", 8),
    "ulong": ("unsigned long", 8),
    "longlong": ("long long", 8), "ulonglong": ("unsigned long long", 8),
}  # fmt: skip
"""The elements of CUDA's vectors, by their names there, with their bytes."""
MATHEMATICS = {
    **dict.fromkeys(
        ("ceil", "cos", "erf", "exp", "exp2", "fabs", "floor", "log", "log2", "rint", "rsqrt",
         "sin", "sqrt", "tanh", "trunc"), 1
    ),
    **dict.fromkeys(("copysign", "fmod", "pow"), 2), "fma": 3,
}  # fmt: skip
"""How many operands functions have."""
FUNCTION = """\
extern "C" __device__ __attribute__((const)) @TYPE@ __ocml_@NAME@_f@BITS@(@PARAMETERS@);
__device__ __forceinline__ @TYPE@ @CALLED@(@PARAMETERS@) {
  return __ocml_@NAME@_f@BITS@(@ARGUMENTS@);
}
"""
"""One of AMD's device libraries, which hipcc and hipRTC link by themselves."""
BITS = """\
template <class To, class From>
__device__ __forceinline__ To septran_bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  return __builtin_bit_cast(To, value);
}
"""
# AMD Instinct MI300 ISA, DPP: quad_perm [1,0,3,2], [2,3,0,1], row_ror:8 of 16 lanes; ds_swizzle's
# offset is a mask for xor, or and and of the lane's number in 32; ds_bpermute takes bytes.
PARTNER = """\
template <int bit>
__device__ __forceinline__ int septran_partner_word(int word) {
  if constexpr (bit == 1) return __builtin_amdgcn_mov_dpp(word, 0xb1, 0xf, 0xf, true);
  else if constexpr (bit == 2) return __builtin_amdgcn_mov_dpp(word, 0x4e, 0xf, 0xf, true);
  else if constexpr (bit == 8) return __builtin_amdgcn_mov_dpp(word, 0x128, 0xf, 0xf, true);
  else if constexpr (bit < 32) return __builtin_amdgcn_ds_swizzle(word, bit << 10 | 0x1f);
  else {
    int lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
    return __builtin_amdgcn_ds_bpermute((lane ^ bit) * 4, word);
  }
}
template <int bit, class T>
__device__ __forceinline__ T septran_partner(T value) {
  if constexpr (sizeof(T) == 4) {
    return septran_bits<T>(septran_partner_word<bit>(septran_bits<int>(value)));
  } else {
    struct Two { int low, high; } two = septran_bits<Two>(value);
    two = {septran_partner_word<bit>(two.low), septran_partner_word<bit>(two.high)};
    return septran_bits<T>(two);
  }
}
"""
HALF = """\
struct half {
  uint16_t bits;
  half() = default;
  __device__ __forceinline__ half(float x) : bits(septran_bits<uint16_t>(_Float16(x))) {}
  __device__ __forceinline__ operator float() const { return float(septran_bits<_Float16>(bits)); }
};
typedef half __half;
struct alignas(4) half2 { half x, y; };
"""
BFLOAT16 = """\
struct nv_bfloat16 {
  uint16_t bits;
  nv_bfloat16() = default;
  __device__ __forceinline__ nv_bfloat16(float x) {
    uint32_t word = septran_bits<uint32_t>(x);
    bits = x != x ? uint16_t(0x7fff) : uint16_t((word + 0x7fff + (word >> 16 & 1)) >> 16);
  }
  __device__ __forceinline__ operator float() const {
    return septran_bits<float>(uint32_t(bits) << 16);
  }
};
typedef nv_bfloat16 __nv_bfloat16;
struct alignas(4) nv_bfloat162 { nv_bfloat16 x, y; };
"""
FLOAT8 = """\
struct __nv_fp8_e4m3 {
  uint8_t bits;
  __nv_fp8_e4m3() = default;
  __device__ __forceinline__ __nv_fp8_e4m3(float x) {
    uint32_t word = septran_bits<uint32_t>(x), sign = word >> 24 & 0x80, size = word & 0x7fffffff;
    uint32_t rounded = ((size + 0x7ffff + (size >> 20 & 1)) >> 20) - 960;
    if (size < 0x3c800000) rounded = uint32_t(rintf(septran_bits<float>(size) * 512.0f));
    bits = uint8_t(sign | (size > 0x7f800000 || rounded > 0x7e ? 0x7f : rounded));
  }
  __device__ __forceinline__ operator float() const {
    if ((bits & 0x7f) == 0x7f) return septran_bits<float>(0x7fffffff);
    uint16_t wide = uint16_t((bits & 0x80) << 8 | (bits & 0x7f) << 7);
    return float(septran_bits<_Float16>(wide)) * 256.0f;
  }
};
typedef __nv_fp8_e4m3 fp8_e4_t;
"""
"""A float of 8 bits as the Open Compute Project has it, which MI300X's own conversions do not."""


def prelude(body: str) -> str:
    """The types and functions that `body` uses."""
    words = set(re.findall(r"\w+", body))
    if words & {"half4", "nv_bfloat164"}:
        words.add("uint2")  # they are moved as such (`print_cuda`)
    shared = [INTEGERS, BITS]
    if "septran_partner" in words:
        shared.append(PARTNER)
    if words & {"half", "__half", "half2"}:
        shared.append(HALF)
    if words & {"nv_bfloat16", "__nv_bfloat16", "nv_bfloat162"}:
        shared.append(BFLOAT16)
    if words & {"__nv_fp8_e4m3", "fp8_e4_t"}:
        shared.append(FLOAT8)
        words.add("rintf")
    if any(word.startswith("CUDART_") for word in words):
        shared.append(FLOATS)
    shared += atomics(words)
    opening = f"namespace septran {{\n{UNDEFINED}{KEYWORDS}"
    machine = [opening, *_vectors(words), *_functions(words)]
    if "septran_exp2" in words:
        machine.append(OLD_POWER)
    guarded = f"#if defined(__AMDGCN__)\n{''.join(machine)}#endif\n"
    return f"{BEGIN}\n{guarded}{''.join(shared)}{END}"


def _vectors(words: set[str]) -> list[str]:
    found = []
    for name, (kind, size) in ELEMENTS.items():
        for count in (2, 3, 4):
            if words & {f"{name}{count}", f"make_{name}{count}"}:
                parts = ("x", "y", "z", "w")[:count]
                given = {
                    "NAME": f"{name}{count}", "TYPE": kind, "PARTS": ", ".join(parts),
                    "ALIGN": str(size if count == 3 else min(16, size * count)),
                    "PARAMETERS": ", ".join(f"{kind} {part}" for part in parts),
                }  # fmt: skip
                found.append(filled(VECTOR, **given))
    return found


def _functions(words: set[str]) -> list[str]:
    found = []
    for name, count in MATHEMATICS.items():
        for suffix, kind, bits in (("f", "float", "32"), ("", "double", "64")):
            if name + suffix in words:
                operands = ("x", "y", "z")[:count]
                given = {
                    "NAME": name, "CALLED": name + suffix, "TYPE": kind, "BITS": bits,
                    "PARAMETERS": ", ".join(f"{kind} {operand}" for operand in operands),
                    "ARGUMENTS": ", ".join(operands),
                }  # fmt: skip
                found.append(filled(FUNCTION, **given))
    return found
