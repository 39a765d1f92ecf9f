// CUDA's words and its built-in vector types.
#pragma once
#include "calls.h"
#include "numbers.h"

#define __global__ __attribute__((noinline, used))
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __align__(n) alignas(n)
#define __restrict__ __restrict
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __CUDACC__ 1
#define __SM_61_INTRINSICS_DECL__ inline
#define __DEF_IF_HOST ;

using dim3 = emu::Dim3;

namespace emu {
// A register holds bits: what an instruction of another kind writes keeps its own.
template <class R, class V>
inline __attribute__((always_inline)) void put(R& to, V value) {
  if constexpr (std::is_floating_point_v<R> != std::is_floating_point_v<V>) to = bit_cast<R>(value);
  else to = value;
}
}  // namespace emu

#define EMU_VECTORS(T, name)                                                     \
  struct name##1 { T x; };                                                       \
  struct alignas(2 * sizeof(T)) name##2 { T x, y; };                             \
  struct name##3 { T x, y, z; };                                                 \
  struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) name##4 { T x, y, z, w; }; \
  inline name##1 make_##name##1(T x) { return {x}; }                             \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }                     \
  inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }             \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EMU_VECTORS(signed char, char)
EMU_VECTORS(unsigned char, uchar)
EMU_VECTORS(short, short)
EMU_VECTORS(unsigned short, ushort)
EMU_VECTORS(int, int)
EMU_VECTORS(unsigned, uint)
EMU_VECTORS(long, long)
EMU_VECTORS(unsigned long, ulong)
EMU_VECTORS(long long, longlong)
EMU_VECTORS(unsigned long long, ulonglong)
EMU_VECTORS(float, float)
EMU_VECTORS(double, double)
#undef EMU_VECTORS
