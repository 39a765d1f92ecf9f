// CUDA's mathematics.  Fast variants are as accurate as the others here.
#pragma once
#include "builtins.h"

EMU_INLINE float __int_as_float(int v) { return emu::bit_cast<float>(v); }
EMU_INLINE float __uint_as_float(unsigned v) { return emu::bit_cast<float>(v); }
EMU_INLINE int __float_as_int(float v) { return emu::bit_cast<int>(v); }
EMU_INLINE unsigned __float_as_uint(float v) { return emu::bit_cast<unsigned>(v); }
EMU_INLINE double __longlong_as_double(long long v) { return emu::bit_cast<double>(v); }
EMU_INLINE long long __double_as_longlong(double v) { return emu::bit_cast<long long>(v); }

EMU_INLINE float __expf(float x) { return std::exp(x); }
EMU_INLINE float __exp2f(float x) { return std::exp2(x); }
EMU_INLINE float __exp10f(float x) { return std::pow(10.f, x); }
EMU_INLINE float exp10f(float x) { return std::pow(10.f, x); }
EMU_INLINE float __logf(float x) { return std::log(x); }
EMU_INLINE float __log2f(float x) { return std::log2(x); }
EMU_INLINE float __log10f(float x) { return std::log10(x); }
EMU_INLINE float __sinf(float x) { return std::sin(x); }
EMU_INLINE float __cosf(float x) { return std::cos(x); }
EMU_INLINE float __tanf(float x) { return std::tan(x); }
EMU_INLINE float __powf(float x, float y) { return std::pow(x, y); }
EMU_INLINE float __fdividef(float x, float y) { return x / y; }
EMU_INLINE float fdividef(float x, float y) { return x / y; }
EMU_INLINE float __frcp_rn(float x) { return 1.f / x; }
EMU_INLINE float __fsqrt_rn(float x) { return std::sqrt(x); }
EMU_INLINE float __frsqrt_rn(float x) { return 1.f / std::sqrt(x); }
EMU_INLINE float rsqrtf(float x) { return float(1.0 / std::sqrt(double(x))); }
EMU_INLINE double rsqrt(double x) { return 1.0 / std::sqrt(x); }
EMU_INLINE float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
EMU_INLINE float __fadd_rn(float x, float y) { return x + y; }
EMU_INLINE float __fsub_rn(float x, float y) { return x - y; }
EMU_INLINE float __fmul_rn(float x, float y) { return x * y; }
EMU_INLINE float __fdiv_rn(float x, float y) { return x / y; }
EMU_INLINE float __saturatef(float x) { return x != x ? 0.f : x < 0 ? 0.f : x > 1 ? 1.f : x; }
EMU_INLINE float normcdff(float x) { return 0.5f * std::erfc(-x * 0.70710678f); }

EMU_INLINE int __popc(unsigned v) { return __builtin_popcount(v); }
EMU_INLINE int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
EMU_INLINE int __clz(int v) { return v ? __builtin_clz(unsigned(v)) : 32; }
EMU_INLINE int __ffs(int v) { return __builtin_ffs(v); }
EMU_INLINE unsigned __brev(unsigned v) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= (v >> i & 1) << (31 - i);
  return r;
}
EMU_INLINE int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
EMU_INLINE unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
EMU_INLINE unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  uint64_t both = uint64_t(b) << 32 | a;
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) {
    unsigned s = selector >> (4 * i), byte = both >> (8 * (s & 7)) & 0xff;
    if (s & 8) byte = byte & 0x80 ? 0xff : 0;
    r |= byte << (8 * i);
  }
  return r;
}
EMU_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return unsigned((uint64_t(high) << 32 | low) >> (by & 31));
}
EMU_INLINE int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) c += int(int8_t(a >> (8 * i))) * int(int8_t(b >> (8 * i)));
  return c;
}
EMU_INLINE int __float2int_rn(float x) { return int(std::nearbyint(x)); }
EMU_INLINE int __float2int_rz(float x) { return int(x); }
EMU_INLINE int __float2int_rd(float x) { return int(std::floor(x)); }
EMU_INLINE int __float2int_ru(float x) { return int(std::ceil(x)); }
EMU_INLINE float __int2float_rn(int x) { return float(x); }

// CUDA's min and max of numbers: of float the one that is not NaN.
EMU_INLINE float max(float a, float b) { return std::fmax(a, b); }
EMU_INLINE float min(float a, float b) { return std::fmin(a, b); }
EMU_INLINE double max(double a, double b) { return std::fmax(a, b); }
EMU_INLINE double min(double a, double b) { return std::fmin(a, b); }
EMU_INLINE double max(float a, double b) { return std::fmax(double(a), b); }
EMU_INLINE double max(double a, float b) { return std::fmax(a, double(b)); }
EMU_INLINE double min(float a, double b) { return std::fmin(double(a), b); }
EMU_INLINE double min(double a, float b) { return std::fmin(a, double(b)); }
#define EMU_ORDER(T)                                         \
  EMU_INLINE T max(T a, T b) { return a > b ? a : b; }       \
  EMU_INLINE T min(T a, T b) { return a < b ? a : b; }
EMU_ORDER(int)
EMU_ORDER(unsigned)
EMU_ORDER(long)
EMU_ORDER(unsigned long)
EMU_ORDER(long long)
EMU_ORDER(unsigned long long)
#undef EMU_ORDER
EMU_INLINE unsigned max(int a, unsigned b) { return max(unsigned(a), b); }
EMU_INLINE unsigned max(unsigned a, int b) { return max(a, unsigned(b)); }
EMU_INLINE unsigned min(int a, unsigned b) { return min(unsigned(a), b); }
EMU_INLINE unsigned min(unsigned a, int b) { return min(a, unsigned(b)); }
EMU_INLINE long max(int a, long b) { return max(long(a), b); }
EMU_INLINE long max(long a, int b) { return max(a, long(b)); }
EMU_INLINE long min(int a, long b) { return min(long(a), b); }
EMU_INLINE long min(long a, int b) { return min(a, long(b)); }
using std::isnan;
using std::isinf;
using std::isfinite;
