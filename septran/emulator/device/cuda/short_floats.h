// What half and bfloat16 have in common.
#pragma once
#define EMU_SHORT_FLOAT(T, T2, alias, N)                                        \
  struct T {                                                                    \
    uint16_t bits;                                                              \
    T() = default;                                                              \
    EMU_INLINE T(float x) : bits(N::to(x)) {}                                   \
    EMU_INLINE T(double x) : T(float(x)) {}                                     \
    EMU_INLINE T(int x) : T(float(x)) {}                                        \
    EMU_INLINE T(unsigned x) : T(float(x)) {}                                   \
    EMU_INLINE T(long x) : T(float(x)) {}                                       \
    EMU_INLINE T(short x) : T(float(x)) {}                                      \
    EMU_INLINE T(bool x) : T(float(x)) {}                                       \
    EMU_INLINE operator float() const { return N::of(bits); }                   \
  };                                                                            \
  struct alignas(4) T2 {                                                        \
    T x, y;                                                                     \
    T2() = default;                                                             \
    EMU_INLINE T2(T a, T b) : x(a), y(b) {}                                     \
  };                                                                            \
  typedef T2 alias;                                                             \
  EMU_INLINE T operator+(T a, T b) { return T(float(a) + float(b)); }           \
  EMU_INLINE T operator-(T a, T b) { return T(float(a) - float(b)); }           \
  EMU_INLINE T operator*(T a, T b) { return T(float(a) * float(b)); }           \
  EMU_INLINE T operator/(T a, T b) { return T(float(a) / float(b)); }           \
  EMU_INLINE T operator-(T a) { return T(-float(a)); }                          \
  EMU_INLINE T& operator+=(T& a, T b) { return a = a + b; }                     \
  EMU_INLINE T& operator-=(T& a, T b) { return a = a - b; }                     \
  EMU_INLINE T& operator*=(T& a, T b) { return a = a * b; }                     \
  EMU_INLINE bool operator<(T a, T b) { return float(a) < float(b); }           \
  EMU_INLINE bool operator>(T a, T b) { return float(a) > float(b); }           \
  EMU_INLINE bool operator<=(T a, T b) { return float(a) <= float(b); }         \
  EMU_INLINE bool operator>=(T a, T b) { return float(a) >= float(b); }         \
  EMU_INLINE bool operator==(T a, T b) { return float(a) == float(b); }         \
  EMU_INLINE bool operator!=(T a, T b) { return float(a) != float(b); }         \
  EMU_INLINE bool __hgt(T a, T b) { return a > b; }                             \
  EMU_INLINE bool __hlt(T a, T b) { return a < b; }                             \
  EMU_INLINE T __hadd(T a, T b) { return a + b; }                               \
  EMU_INLINE T __hsub(T a, T b) { return a - b; }                               \
  EMU_INLINE T __hmul(T a, T b) { return a * b; }                               \
  EMU_INLINE T __hfma(T a, T b, T c) { return T(float(double(a) * double(b) + double(c))); } \
  EMU_INLINE T __hmax(T a, T b) { return T(std::fmax(float(a), float(b))); }    \
  EMU_INLINE T __hmin(T a, T b) { return T(std::fmin(float(a), float(b))); }    \
  EMU_INLINE T __habs(T a) { return T(std::fabs(float(a))); }                   \
  EMU_INLINE T __hneg(T a) { return -a; }                                       \
  EMU_INLINE bool __hisnan(T a) { return float(a) != float(a); }                \
  EMU_INLINE T hexp(T a) { return T(std::exp(float(a))); }                      \
  EMU_INLINE T hexp2(T a) { return T(std::exp2(float(a))); }                    \
  EMU_INLINE T hlog(T a) { return T(std::log(float(a))); }                      \
  EMU_INLINE T hsqrt(T a) { return T(std::sqrt(float(a))); }                    \
  EMU_INLINE T hrsqrt(T a) { return T(1.f / std::sqrt(float(a))); }             \
  EMU_INLINE T2 operator+(T2 a, T2 b) { return {a.x + b.x, a.y + b.y}; }        \
  EMU_INLINE T2 operator*(T2 a, T2 b) { return {a.x * b.x, a.y * b.y}; }        \
  EMU_INLINE T2 __hadd2(T2 a, T2 b) { return a + b; }                           \
  EMU_INLINE T2 __hmul2(T2 a, T2 b) { return a * b; }                           \
  EMU_INLINE T2 __hfma2(T2 a, T2 b, T2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
