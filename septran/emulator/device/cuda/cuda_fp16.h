// half as in CUDA's header: every operation is rounded to 16 bits.
#pragma once
#include "short_floats.h"
EMU_SHORT_FLOAT(__half, __half2, half2, ::emu::F16)
typedef __half half;
EMU_INLINE __half __float2half(float x) { return __half(x); }
EMU_INLINE __half __float2half_rn(float x) { return __half(x); }
EMU_INLINE float __half2float(__half x) { return float(x); }
EMU_INLINE __half2 __float22half2_rn(float2 v) { return {__half(v.x), __half(v.y)}; }
EMU_INLINE __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
EMU_INLINE float2 __half22float2(__half2 v) { return {float(v.x), float(v.y)}; }
EMU_INLINE __half2 __halves2half2(__half x, __half y) { return {x, y}; }
EMU_INLINE __half2 __half2half2(__half x) { return {x, x}; }
EMU_INLINE unsigned short __half_as_ushort(__half x) { return x.bits; }
EMU_INLINE __half __ushort_as_half(unsigned short v) { __half x; x.bits = v; return x; }
