// PTX instructions on registers: conversions, approximations, packed half arithmetic.
#pragma once
#include "arithmetic.h"

namespace emu {

inline uint16_t cvt_f16(float x) { return float_to_f16(x); }
inline uint16_t cvt_bf16(float x) { return float_to_bf16(x); }
inline uint32_t pack(uint16_t high, uint16_t low) { return uint32_t(high) << 16 | low; }
inline uint32_t cvt_f16x2(float high, float low) { return pack(cvt_f16(high), cvt_f16(low)); }
inline uint32_t cvt_bf16x2(float high, float low) { return pack(cvt_bf16(high), cvt_bf16(low)); }
inline uint16_t cvt_e4m3x2(float high, float low) {
  return uint16_t(float_to_e4m3(high) << 8 | float_to_e4m3(low));
}
inline uint16_t cvt_e5m2x2(float high, float low) {
  return uint16_t(float_to_e5m2(high) << 8 | float_to_e5m2(low));
}
inline uint32_t cvt_f16x2_e4m3x2(uint16_t v) {
  return cvt_f16x2(e4m3_to_float(uint8_t(v >> 8)), e4m3_to_float(uint8_t(v)));
}
inline uint32_t cvt_f16x2_e5m2x2(uint16_t v) {
  return cvt_f16x2(e5m2_to_float(uint8_t(v >> 8)), e5m2_to_float(uint8_t(v)));
}
inline uint32_t cvt_tf32(float x) { return float_to_tf32(x); }
// Conversions to integers clamp, and NaN is 0.
template <class To>
inline To cvt_integer(double rounded) {
  constexpr bool is_signed = To(-1) < To(0);
  constexpr int bits = 8 * sizeof(To) - is_signed;
  double limit = std::ldexp(1.0, bits);
  if (rounded != rounded) return 0;
  if (rounded >= limit) return To(~To(0)) ^ (is_signed ? To(To(1) << (bits)) : To(0));
  if (rounded < (is_signed ? -limit : 0.0)) return is_signed ? To(To(1) << bits) : To(0);
  return To(rounded);
}

inline uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t r = 0;
  for (int i = 0; i < 32; ++i)
    r |= (table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i;
  return r;
}
// How a fiber enters a kernel; what it reads here is not the kernel's doing.
template <class... P, size_t... I>
__attribute__((no_sanitize("thread"))) inline void spread(void (*kernel)(P...), void** arguments, std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_cv_t<std::remove_reference_t<P>>*>(arguments[I])...);
}
template <class... P>
__attribute__((no_sanitize("thread"))) inline void invoke(void (*kernel)(P...), void** arguments) {
  spread(kernel, arguments, std::index_sequence_for<P...>{});
}

}  // namespace emu
