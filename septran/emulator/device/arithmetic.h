// PTX arithmetic with its modifiers: rounding, flushing, saturation, carries, bit fields.
#pragma once
#include <cfenv>

#include "mathematics.h"

namespace emu {

// Modifiers of floating-point instructions, or-ed.
enum Modifier : int {
  kNearest = 0, kZero = 1, kDown = 2, kUp = 3, kRounding = 3,
  kFtz = 4, kSat = 8, kRelu = 16, kNan = 32, kXorsign = 64,
};

// ---------------------------------------------------------------- floating point
template <int M, class T>
EMU_INLINE T flushed(T x) {
  if constexpr ((M & kFtz) && sizeof(T) == 4)
    return std::fabs(x) < 1.17549435e-38f ? std::copysign(T(0), x) : x;
  return x;
}
// PTX ISA, ".sat": clamped to [0, 1], and NaN becomes 0; ".relu": negative is 0, NaN canonical.
template <int M, class T>
EMU_INLINE T finished(T x) {
  x = flushed<M>(x);
  if constexpr (M & kSat) x = x > 0 ? (x < 1 ? x : T(1)) : T(0);
  if constexpr (M & kRelu) x = x < 0 ? T(0) : x;
  return x;
}
template <int M, class T, class F>
__attribute__((noinline)) T directed(F operation, T a, T b, T c) {
  static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  volatile T x = a, y = b, z = c;
  int before = std::fegetround();
  std::fesetround(modes[M & kRounding]);
  volatile T result = operation(x, y, z);
  std::fesetround(before);
  return result;
}
template <int M, class T, class F>
EMU_INLINE T computed(F operation, T a, T b = 0, T c = 0) {
  a = flushed<M>(a), b = flushed<M>(b), c = flushed<M>(c);
  if constexpr (M & kRounding) return finished<M>(directed<M>(operation, a, b, c));
  return finished<M>(T(operation(a, b, c)));
}
#define EMU_FLOAT(name, expression)                                              \
  template <int M, class T>                                                      \
  EMU_INLINE T f_##name(T a, T b = 0, T c = 0) {                                 \
    return computed<M>([](T x, T y, T z) -> T { return expression; }, a, b, c);  \
  }
EMU_FLOAT(add, x + y)
EMU_FLOAT(sub, x - y)
EMU_FLOAT(mul, x * y)
EMU_FLOAT(div, x / y)
EMU_FLOAT(fma, std::fma(x, y, z))
EMU_FLOAT(abs, std::fabs(x))
EMU_FLOAT(neg, -x)
EMU_FLOAT(rcp, T(1) / x)
EMU_FLOAT(sqrt, std::sqrt(x))
EMU_FLOAT(rsqrt, T(1.0 / std::sqrt(double(x))))
EMU_FLOAT(sin, std::sin(x))
EMU_FLOAT(cos, std::cos(x))
EMU_FLOAT(lg2, std::log2(x))
EMU_FLOAT(ex2, std::exp2(x))
EMU_FLOAT(tanh, std::tanh(x))
EMU_FLOAT(copysign, std::copysign(y, x))
#undef EMU_FLOAT
// PTX ISA, "min", "max": of a NaN and a number the number, with .NaN the canonical NaN; -0 < +0.
// With .xorsign.abs the magnitudes are compared, and the signs' exclusive or is the result's.
template <int M, class T>
EMU_INLINE T f_extreme(T a, T b, bool most) {
  a = flushed<M>(a), b = flushed<M>(b);
  bool negative = std::signbit(a) != std::signbit(b);
  if constexpr (M & kXorsign) a = std::fabs(a), b = std::fabs(b);
  T result;
  if (a != a || b != b) result = (M & kNan) || (a != a && b != b) ? T(__builtin_nan("")) : a != a ? b : a;
  else if (a == b) result = std::signbit(a) == most ? b : a;
  else result = (a > b) == most ? a : b;
  if constexpr (M & kXorsign) result = negative ? -result : result;
  return finished<M>(result);
}
template <int M, class T>
EMU_INLINE T f_min(T a, T b) { return f_extreme<M>(a, b, false); }
template <int M, class T>
EMU_INLINE T f_max(T a, T b) { return f_extreme<M>(a, b, true); }

// Of a double the float of which rounding to 16 bits gives what rounding the double would.
EMU_INLINE float to_odd(double v) {
  float f = float(v);
  uint32_t bits = bit_cast<uint32_t>(f);
  if (double(f) != v && std::isfinite(f) && !(bits & 1)) bits += (std::fabs(v) > std::fabs(f)) ? 1 : -1;
  return bit_cast<float>(bits);
}
// Of 16 bits: the operation in float, rounded to 16 bits once more. With 24 bits of the float,
// 11 of the half, that is the rounding of the exact result for all but fma.
struct F16 {
  static float of(uint16_t v) { return f16_to_float(v); }
  static uint16_t to(float v) { return float_to_f16(v); }
};
struct BF16 {
  static float of(uint16_t v) { return bf16_to_float(v); }
  static uint16_t to(float v) { return float_to_bf16(v); }
};
template <class N, int M>
EMU_INLINE uint16_t h_flushed(uint16_t v) {
  if constexpr (std::is_same_v<N, F16> && (M & kFtz)) return v & 0x7c00 ? v : v & 0x8000;
  return v;
}
#define EMU_SHORT(name)                                                                       \
  template <class N, int M>                                                                   \
  EMU_INLINE uint16_t h_##name(uint16_t a, uint16_t b = 0, uint16_t c = 0) {                  \
    float x = N::of(h_flushed<N, M>(a)), y = N::of(h_flushed<N, M>(b));                       \
    float z = N::of(h_flushed<N, M>(c));                                                      \
    (void)z;                                                                                  \
    return h_flushed<N, M>(N::to(h_call_##name<M & ~(kFtz | kRounding)>(x, y, z)));           \
  }
#define EMU_SHORT_CALL(name, ...)                                                             \
  template <int M>                                                                            \
  EMU_INLINE float h_call_##name(float x, float y, float z) { (void)y, (void)z; return __VA_ARGS__; } \
  EMU_SHORT(name)
EMU_SHORT_CALL(add, f_add<M>(x, y))
EMU_SHORT_CALL(sub, f_sub<M>(x, y))
EMU_SHORT_CALL(mul, f_mul<M>(x, y))
// The exact product fits a double; the sum is rounded to odd, so that rounding again is right.
EMU_SHORT_CALL(fma, finished<M>([&] {
  double product = double(x) * y, sum = product + z, back = sum - product;
  double lost = (product - (sum - back)) + (z - back);
  uint64_t bits = bit_cast<uint64_t>(sum);
  if (lost != 0 && std::isfinite(sum) && !(bits & 1)) bits += (lost > 0) == (sum > 0) ? 1 : -1;
  return to_odd(bit_cast<double>(bits));
}()))
EMU_SHORT_CALL(min, f_min<M>(x, y))
EMU_SHORT_CALL(max, f_max<M>(x, y))
EMU_SHORT_CALL(ex2, f_ex2<M>(x))
EMU_SHORT_CALL(tanh, f_tanh<M>(x))
#undef EMU_SHORT
#undef EMU_SHORT_CALL
template <class N, int M>
EMU_INLINE uint16_t h_neg(uint16_t a, uint16_t = 0, uint16_t = 0) { return h_flushed<N, M>(a) ^ 0x8000; }
template <class N, int M>
EMU_INLINE uint16_t h_abs(uint16_t a, uint16_t = 0, uint16_t = 0) { return h_flushed<N, M>(a) & 0x7fff; }
template <class F>
EMU_INLINE uint32_t halves(F f, uint32_t a, uint32_t b = 0, uint32_t c = 0) {
  uint16_t low = f(uint16_t(a), uint16_t(b), uint16_t(c));
  uint16_t high = f(uint16_t(a >> 16), uint16_t(b >> 16), uint16_t(c >> 16));
  return uint32_t(high) << 16 | low;
}

// ---------------------------------------------------------------- comparisons
// PTX ISA, "setp": ordered comparisons are false of NaN, those with u in their name are true.
template <class T>
EMU_INLINE bool unordered(T a, T b) { return a != a || b != b; }

// ---------------------------------------------------------------- integers
template <class T>
using Wide = std::conditional_t<
    sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>>>;
template <class T>
EMU_INLINE T mul_low(T a, T b) { return T(uint64_t(a) * uint64_t(b)); }
template <class T>
EMU_INLINE T mul_high(T a, T b) { return T(Wide<T>(a) * Wide<T>(b) >> (8 * sizeof(T))); }
template <class T>
EMU_INLINE Wide<T> mul_wide(T a, T b) { return Wide<T>(a) * Wide<T>(b); }
// PTX ISA, "div", "rem": by zero an unspecified, machine-specific value; the one of sm_90.
template <class T>
EMU_INLINE T i_div(T a, T b) {
  if (b == 0) return T(-1);
  if (std::is_signed_v<T> && b == T(-1)) return T(-std::make_unsigned_t<T>(a));
  return T(a / b);
}
template <class T>
EMU_INLINE T i_rem(T a, T b) {
  if (b == 0) return a;
  if (std::is_signed_v<T> && b == T(-1)) return 0;
  return T(a % b);
}
template <class T>
EMU_INLINE T i_clamped(Wide<T> v) {
  const Wide<T> low = std::is_signed_v<T> ? -(Wide<T>(1) << (8 * sizeof(T) - 1)) : Wide<T>(0);
  const Wide<T> high = (Wide<T>(1) << (8 * sizeof(T) - std::is_signed_v<T>)) - 1;
  return T(v < low ? low : v > high ? high : v);
}
// Between types; PTX ISA, "cvt.sat": limited to what the destination holds.
template <class To, class From>
EMU_INLINE To i_limited(From v) {
  __int128 x = v, one = 1;
  const __int128 low = std::is_signed_v<To> ? -(one << (8 * sizeof(To) - 1)) : 0;
  const __int128 high = (one << (8 * sizeof(To) - std::is_signed_v<To>)) - 1;
  return To(x < low ? low : x > high ? high : x);
}
template <class T>
EMU_INLINE T carry_add(T a, T b, uint32_t carry, uint32_t* out) {
  using U = std::make_unsigned_t<T>;
  U sum = U(a) + U(b), result = sum + carry;
  if (out) *out = sum < U(a) || result < sum;
  return T(result);
}
// The borrow is kept as the hardware keeps it: CC.CF is set where there is one.
template <class T>
EMU_INLINE T carry_sub(T a, T b, uint32_t borrow, uint32_t* out) {
  using U = std::make_unsigned_t<T>;
  U difference = U(a) - U(b), result = difference - borrow;
  if (out) *out = U(a) < U(b) || difference < borrow;
  return T(result);
}
template <class T>
EMU_INLINE T shift_left(T a, uint32_t by) { return by < 8 * sizeof(T) ? T(a << by) : T(0); }
// PTX ISA, "shr": by more than there are bits is by all of them.
template <class T>
EMU_INLINE T shift_right(T a, uint32_t by) {
  constexpr uint32_t most = 8 * sizeof(T) - 1;
  if (by <= most) return T(a >> by);
  return std::is_signed_v<T> ? T(a >> most) : T(0);
}
EMU_INLINE uint32_t funnel(uint32_t low, uint32_t high, uint32_t by, bool left, bool clamp) {
  by = clamp ? (by < 32 ? by : 32) : by & 31;
  uint64_t both = uint64_t(high) << 32 | low;
  return left ? uint32_t((both << by) >> 32) : uint32_t(both >> by);
}
// PTX ISA, "bfe": position and length have 8 bits; beyond the top the sign (or 0) is taken.
template <class T>
EMU_INLINE T bit_field(T a, uint32_t position, uint32_t length) {
  using U = std::make_unsigned_t<T>;
  const uint32_t most = 8 * sizeof(T) - 1;
  position &= 255, length &= 255;
  uint32_t top = position + length - 1 < most ? position + length - 1 : most;
  bool sign = std::is_signed_v<T> && length && (U(a) >> top & 1);
  U result = 0;
  for (uint32_t i = 0; i <= most; ++i) {
    bool bit = i < length && position + i <= most ? U(a) >> (position + i) & 1 : sign;
    result |= U(bit) << i;
  }
  return T(result);
}
template <class T>
EMU_INLINE T insert_field(T a, T b, uint32_t position, uint32_t length) {
  position &= 255, length &= 255;
  for (uint32_t i = 0; i < length && position + i < 8 * sizeof(T); ++i) {
    b &= ~(T(1) << (position + i));
    b |= (a >> i & 1) << (position + i);
  }
  return b;
}
template <class T>
EMU_INLINE uint32_t leading_zeros(T a) {
  return a ? uint32_t(sizeof(T) == 8 ? __builtin_clzll(a) : __builtin_clz(a)) : 8 * sizeof(T);
}
// PTX ISA, "bfind": the highest bit that is 1, of a negative number that is 0; else ~0.
template <class T>
EMU_INLINE uint32_t find_bit(T a, bool distance) {
  using U = std::make_unsigned_t<T>;
  U v = std::is_signed_v<T> && a < 0 ? U(~a) : U(a);
  if (!v) return ~0u;
  uint32_t at = 8 * sizeof(T) - 1 - leading_zeros(v);
  return distance ? 8 * sizeof(T) - 1 - at : at;
}
template <class T>
EMU_INLINE T bits_reversed(T a) {
  T r = 0;
  for (uint32_t i = 0; i < 8 * sizeof(T); ++i) r |= (a >> i & 1) << (8 * sizeof(T) - 1 - i);
  return r;
}
EMU_INLINE uint32_t bit_mask(uint32_t position, uint32_t length, bool clamp) {
  if (!clamp) position &= 31, length &= 31;
  uint64_t high = position + uint64_t(length) > 63 ? ~0ull << (position < 64 ? position : 63)
                                                   : ((1ull << length) - 1) << position;
  return position > 31 ? 0 : uint32_t(high);
}
// PTX ISA, "prmt": a byte of two registers for each of four selectors; bit 3 spreads its sign.
EMU_INLINE uint32_t permute_mode(uint32_t a, uint32_t b, uint32_t selector, const uint8_t (*table)[4]) {
  uint64_t both = uint64_t(b) << 32 | a;
  uint32_t r = 0;
  for (int i = 0; i < 4; ++i) r |= uint32_t(both >> (8 * table[selector & 3][i]) & 0xff) << (8 * i);
  return r;
}
constexpr uint8_t kForward[4][4] = {{0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 5}, {3, 4, 5, 6}};
constexpr uint8_t kBackward[4][4] = {{0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0}};
constexpr uint8_t kReplicate8[4][4] = {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}};
constexpr uint8_t kEdgeLeft[4][4] = {{0, 1, 2, 3}, {1, 1, 2, 3}, {2, 2, 2, 3}, {3, 3, 3, 3}};
constexpr uint8_t kEdgeRight[4][4] = {{0, 0, 0, 0}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 2, 3}};
constexpr uint8_t kReplicate16[4][4] = {{0, 1, 0, 1}, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}};

template <class A, class B>
EMU_INLINE int32_t dot4(uint32_t a, uint32_t b, int32_t c) {
  uint32_t sum = uint32_t(c);
  for (int i = 0; i < 4; ++i) sum += uint32_t(int32_t(A(a >> (8 * i))) * int32_t(B(b >> (8 * i))));
  return int32_t(sum);
}
template <class A, class B>
EMU_INLINE int32_t dot2(uint32_t a, uint32_t b, int32_t c, bool high) {
  uint32_t sum = uint32_t(c);
  for (int i = 0; i < 2; ++i)
    sum += uint32_t(int32_t(A(a >> (16 * i))) * int32_t(B(b >> (8 * (i + 2 * high)))));
  return int32_t(sum);
}

// ---------------------------------------------------------------- conversions
template <int M, class To, class From>
inline To converted(From v) {  // between numbers, by a rounding mode
  if constexpr (!(M & kRounding)) return finished<M>(To(v));
  static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  volatile From x = v;
  int before = std::fegetround();
  std::fesetround(modes[M & kRounding]);
  volatile To result = To(x);
  std::fesetround(before);
  return finished<M & ~kRounding>(To(result));
}
// To 16 bits by a rounding mode: of the neighbours of the nearest one the right one.
template <class N, int M>
inline uint16_t to_short(float v) {
  v = finished<M & ~(kRounding | kFtz)>(v);
  uint16_t near = N::to(v);
  float back = N::of(near);
  constexpr int mode = M & kRounding;
  if (mode == kNearest || v != v || back == v) return near;
  bool toward_zero = mode == kZero || (mode == kDown) == (v > 0);
  bool larger = std::fabs(back) > std::fabs(v);
  if (toward_zero && larger) return uint16_t(near - 1);
  if (!toward_zero && !larger) return uint16_t(near + 1);
  return near;
}
template <class N>
EMU_INLINE float limited(float v) {  // PTX ISA, "cvt.satfinite": NaN stays one
  const float most = std::is_same_v<N, F16> ? 65504.f : N::of(0x7f7f);
  return v > most ? most : v < -most ? -most : v;
}
template <int M>
EMU_INLINE uint32_t to_tf32(float v) {
  uint32_t bits = bit_cast<uint32_t>(v);
  if (v != v || std::isinf(v)) return bits;
  if constexpr ((M & kRounding) == kNearest) bits += 0xfff + (bits >> 13 & 1);
  return bits & 0xffffe000u;
}
template <int M>
EMU_INLINE float integral(float v, int how) {
  v = flushed<M>(v);
  return finished<M>(how == 0 ? std::nearbyint(v) : how == 1 ? std::trunc(v) : how == 2 ? std::floor(v) : std::ceil(v));
}

}  // namespace emu
