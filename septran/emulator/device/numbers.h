// Number formats of a GPU that a CPU has no types for: bits to float and back.
#pragma once
#include <math.h>
#include <stdlib.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#ifdef __F16C__
#include <immintrin.h>
#endif

namespace emu {

template <class To, class From>
inline To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "bits are kept");
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}

// A float of `exponent` and `mantissa` bits, rounded to nearest even.  Finite-only formats
// (e4m3) have one NaN a sign and no infinity; `saturate` clamps to the largest finite value.
struct Format {
  int exponent, mantissa, bias;
  bool infinities;
};
constexpr Format kE4M3{4, 3, 7, false}, kE5M2{5, 2, 15, true}, kF16{5, 10, 15, true};

inline float decode(uint32_t bits, Format f) {
  uint32_t sign = bits >> (f.exponent + f.mantissa) & 1, top = (1u << f.exponent) - 1;
  uint32_t e = bits >> f.mantissa & top, m = bits & ((1u << f.mantissa) - 1);
  float value;
  if (e == top && (f.infinities || m == (1u << f.mantissa) - 1))
    value = f.infinities && m == 0 ? __builtin_inff() : __builtin_nanf("");
  else if (e == 0)
    value = std::ldexp(float(m), 1 - f.bias - f.mantissa);
  else
    value = std::ldexp(float(m | 1u << f.mantissa), int(e) - f.bias - f.mantissa);
  return sign ? -value : value;
}

inline uint32_t encode(float value, Format f, bool saturate) {
  uint32_t sign = bit_cast<uint32_t>(value) >> 31, top = (1u << f.exponent) - 1;
  uint32_t high = sign << (f.exponent + f.mantissa);
  uint32_t nan = f.infinities ? top << f.mantissa | 1u << (f.mantissa - 1)
                              : (1u << (f.exponent + f.mantissa)) - 1;
  uint32_t largest = f.infinities ? (top << f.mantissa) - 1 : nan - 1;
  if (value != value) return f.infinities ? high | nan : nan | high;
  float magnitude = std::fabs(value), limit = decode(largest, f);
  if (std::isinf(magnitude))
    return high | (saturate ? largest : f.infinities ? top << f.mantissa : nan);
  int e;
  std::frexp(magnitude, &e);
  int unit = std::fmax(e - 1, 1 - f.bias) - f.mantissa;
  float rounded = std::ldexp(std::nearbyint(std::ldexp(magnitude, -unit)), unit);
  if (rounded > limit)
    return high | (saturate ? largest : f.infinities ? top << f.mantissa : nan);
  if (rounded == 0) return high;
  std::frexp(rounded, &e);
  e -= 1;
  if (e < 1 - f.bias) return high | uint32_t(std::ldexp(rounded, f.bias - 1 + f.mantissa));
  uint32_t m = uint32_t(std::ldexp(rounded, f.mantissa - e)) & ((1u << f.mantissa) - 1);
  return high | uint32_t(e + f.bias) << f.mantissa | m;
}

inline float f16_to_float(uint16_t bits) {
#ifdef __F16C__
  return _cvtsh_ss(bits);
#else
  return decode(bits, kF16);
#endif
}
inline uint16_t float_to_f16(float value) {
#ifdef __F16C__
  return _cvtss_sh(value, 0);
#else
  return uint16_t(encode(value, kF16, false));
#endif
}
inline float bf16_to_float(uint16_t bits) { return bit_cast<float>(uint32_t(bits) << 16); }
inline uint16_t float_to_bf16(float value) {
  uint32_t bits = bit_cast<uint32_t>(value);
  if (value != value) return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline float e4m3_to_float(uint8_t bits) { return decode(bits, kE4M3); }
inline float e5m2_to_float(uint8_t bits) { return decode(bits, kE5M2); }
inline uint8_t float_to_e4m3(float value) { return uint8_t(encode(value, kE4M3, true)); }
inline uint8_t float_to_e5m2(float value) { return uint8_t(encode(value, kE5M2, true)); }
// Tensor cores ignore the 13 lowest bits of a tf32 operand.
inline float tf32_to_float(uint32_t bits) { return bit_cast<float>(bits & 0xffffe000u); }
inline uint32_t float_to_tf32(float value) {
  uint32_t bits = bit_cast<uint32_t>(value);
  return value != value ? bits : (bits + 0x1000) & 0xffffe000u;  // .rna: ties away from zero
}

}  // namespace emu
