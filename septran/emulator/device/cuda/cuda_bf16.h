// nv_bfloat16 as in CUDA's header: every operation is rounded to 16 bits.
#pragma once
#include "short_floats.h"
EMU_SHORT_FLOAT(__nv_bfloat16, __nv_bfloat162, nv_bfloat162, ::emu::BF16)
typedef __nv_bfloat16 nv_bfloat16;
EMU_INLINE __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
EMU_INLINE __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
EMU_INLINE float __bfloat162float(__nv_bfloat16 x) { return float(x); }
EMU_INLINE __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__nv_bfloat16(x), __nv_bfloat16(y)}; }
EMU_INLINE float2 __bfloat1622float2(__nv_bfloat162 v) { return {float(v.x), float(v.y)}; }
EMU_INLINE unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
EMU_INLINE __nv_bfloat16 __ushort_as_bfloat16(unsigned short v) { __nv_bfloat16 x; x.bits = v; return x; }
