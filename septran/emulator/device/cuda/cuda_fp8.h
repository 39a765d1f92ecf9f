// 8-bit floats as in CUDA's header; conversions saturate.
#pragma once
typedef uint8_t __nv_fp8_storage_t;
typedef uint16_t __nv_fp8x2_storage_t;
typedef uint32_t __nv_fp8x4_storage_t;
#define EMU_FP8(kind)                                                           \
  struct __nv_fp8_##kind {                                                      \
    __nv_fp8_storage_t __x;                                                     \
    __nv_fp8_##kind() = default;                                                \
    EMU_INLINE explicit __nv_fp8_##kind(float v) : __x(::emu::float_to_##kind(v)) {} \
    EMU_INLINE operator float() const { return ::emu::kind##_to_float(__x); }   \
  };                                                                            \
  struct __nv_fp8x2_##kind {                                                    \
    __nv_fp8x2_storage_t __x;                                                   \
  };                                                                            \
  struct __nv_fp8x4_##kind {                                                    \
    __nv_fp8x4_storage_t __x;                                                   \
  };
EMU_FP8(e4m3)
EMU_FP8(e5m2)
