// CUDA's built-in variables and functions: places, barriers, shuffles, votes, atomics.
#pragma once
#include "types.h"

#define threadIdx (::emu::thread_index())
#define blockIdx (::emu::block_index())
#define blockDim (::emu::block_size())
#define gridDim (::emu::grid_size())
#define warpSize int(::emu::kLanes)
#define EMU_INLINE inline __attribute__((always_inline))

EMU_INLINE void __syncthreads() { emu::block_sync(); }
EMU_INLINE int __syncthreads_or(int p) { return emu::block_vote(p) != 0; }
EMU_INLINE int __syncthreads_and(int p) { return emu::block_vote(!p) == 0; }
EMU_INLINE int __syncthreads_count(int p) { return int(emu::block_vote(p)); }
EMU_INLINE void __syncwarp(emu::Lanes mask = ~emu::Lanes(0)) { emu::warp_sync(mask); }
EMU_INLINE void __threadfence() { __asm__ volatile("" ::: "memory"); }
EMU_INLINE void __threadfence_block() { __threadfence(); }
EMU_INLINE void __threadfence_system() { __threadfence(); }
EMU_INLINE void __nanosleep(unsigned) { emu::sleep(); }
EMU_INLINE void __trap() { emu::trap(); }
EMU_INLINE unsigned __activemask() { return emu::active_mask(); }
EMU_INLINE unsigned long long clock64() { return emu::clock(); }
EMU_INLINE unsigned long long globaltimer() { return emu::clock(); }
EMU_INLINE size_t __cvta_generic_to_shared(const void* p) { return emu::shared_address(p); }
EMU_INLINE size_t __cvta_generic_to_global(const void* p) { return size_t(p); }

namespace emu {
EMU_INLINE unsigned lane() { return special(Special::lane); }
template <class T>
EMU_INLINE T shuffle_as(Lanes mask, T value, int source) {
  static_assert(sizeof(T) <= 8, "at most 8 bytes are shuffled");
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  bits = shuffle(mask, bits, source);
  T result;
  __builtin_memcpy(&result, &bits, sizeof(T));
  return result;
}
// Bytes that the runtime has already been told of.
template <class T>
__attribute__((noinline, no_sanitize("thread"))) T load_from(const void* at) {
  T v;
  __builtin_memcpy(&v, at, sizeof(T));
  return v;
}
template <class T>
__attribute__((noinline, no_sanitize("thread"))) void store_to(void* at, T v) {
  __builtin_memcpy(at, &v, sizeof(T));
}
__attribute__((noinline, no_sanitize("thread"))) inline void copy_bytes(void* to, const void* from, size_t n) {
  for (size_t i = 0; i < n; ++i) static_cast<volatile char*>(to)[i] = static_cast<const char*>(from)[i];
}
template <class T, class F>
EMU_INLINE T atomically(T* p, F change) {
  void* at = memory_atomic(p, sizeof(T));
  T before = load_from<T>(at);
  store_to<T>(at, change(before));
  return before;
}
// A move into an accumulator of wgmma.
template <class R, class V>
EMU_INLINE void move_to(R& to, V value) {
  R bits;
  put(bits, value);
  register_moved(&to);
  store_to<R>(&to, bits);
}
// PTX ISA, "shfl.sync": the lane whose value is taken, and whether it lies in the segment.
enum class Shuffle { up, down, bfly, idx };
EMU_INLINE int shuffle_source(Shuffle mode, uint32_t b, uint32_t c, bool* inside) {
  int l = int(lane()), by = int(b & 31), segment = int(c >> 8 & 31), clamp = int(c & 31), j = 0;
  int last = (l & segment) | (clamp & ~segment), first = l & segment;
  switch (mode) {
    case Shuffle::up: j = l - by; *inside = j >= last; break;
    case Shuffle::down: j = l + by; *inside = j <= last; break;
    case Shuffle::bfly: j = l ^ by; *inside = j <= last; break;
    case Shuffle::idx: j = first | (by & ~segment); *inside = j <= last; break;
  }
  return *inside ? j : l;
}
EMU_INLINE uint32_t block_threads() { return block_size().x * block_size().y * block_size().z; }
// PTX ISA, "bar.sync": without a count all threads of the block; barrier 0 is the one of
// __syncthreads, however its count is said.
EMU_INLINE void barrier_of(uint32_t id, uint32_t threads) {
  if (id == 0 && threads == block_threads()) block_sync();
  else bar_sync(id, threads);
}
}  // namespace emu

template <class T>
EMU_INLINE T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  return emu::shuffle_as(mask, value, (emu::lane() & ~(width - 1)) | (source & (width - 1)));
}
template <class T>
EMU_INLINE T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
  unsigned l = emu::lane(), from = l ^ bits;
  return emu::shuffle_as(mask, value, from / width > l / width ? l : from);
}
template <class T>
EMU_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  unsigned l = emu::lane();
  return emu::shuffle_as(mask, value, (l & (width - 1)) < delta ? l : l - delta);
}
template <class T>
EMU_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  unsigned l = emu::lane();
  return emu::shuffle_as(mask, value, (l & (width - 1)) + delta < unsigned(width) ? l + delta : l);
}
EMU_INLINE unsigned __ballot_sync(unsigned mask, int p) { return emu::ballot(mask, p); }
EMU_INLINE int __any_sync(unsigned mask, int p) { return emu::ballot(mask, p) != 0; }
EMU_INLINE int __all_sync(unsigned mask, int p) { return emu::ballot(mask, !p) == 0; }
template <class T>
EMU_INLINE unsigned __match_any_sync(unsigned mask, T value) {
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return emu::match(mask, bits);
}
#define EMU_REDUCE(name, T, expression)                                        \
  EMU_INLINE T name(unsigned mask, T value) {                                  \
    return T(emu::reduce(mask, uint64_t(value), [](uint64_t p, uint64_t q) {   \
      T a = T(p), b = T(q);                                                    \
      return uint64_t(expression);                                             \
    }));                                                                       \
  }
EMU_REDUCE(__reduce_add_sync, unsigned, a + b)
EMU_REDUCE(__reduce_add_sync, int, a + b)
EMU_REDUCE(__reduce_min_sync, unsigned, a < b ? a : b)
EMU_REDUCE(__reduce_min_sync, int, a < b ? a : b)
EMU_REDUCE(__reduce_max_sync, unsigned, a > b ? a : b)
EMU_REDUCE(__reduce_max_sync, int, a > b ? a : b)
EMU_REDUCE(__reduce_and_sync, unsigned, a& b)
EMU_REDUCE(__reduce_or_sync, unsigned, a | b)
EMU_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
#undef EMU_REDUCE

#define EMU_ATOMIC(name, expression)                                           \
  template <class T, class V>                                                  \
  EMU_INLINE T name(T* p, V value) {                                           \
    T v = T(value);                                                            \
    return emu::atomically(p, [=](T x) { return T(expression); });             \
  }
EMU_ATOMIC(atomicAdd, x + v)
EMU_ATOMIC(atomicSub, x - v)
EMU_ATOMIC(atomicExch, v)
EMU_ATOMIC(atomicMin, v < x ? v : x)
EMU_ATOMIC(atomicMax, v > x ? v : x)
EMU_ATOMIC(atomicAnd, x& v)
EMU_ATOMIC(atomicOr, x | v)
EMU_ATOMIC(atomicXor, x ^ v)
EMU_ATOMIC(atomicInc, x >= v ? 0 : x + 1)
EMU_ATOMIC(atomicDec, (x == 0 || x > v) ? v : x - 1)
#undef EMU_ATOMIC
template <class T>
EMU_INLINE T atomicCAS(T* p, T compare, T value) {
  return emu::atomically(p, [=](T x) { return x == compare ? value : x; });
}
template <class T>
EMU_INLINE T __ldg(const T* p) { return *p; }
template <class T>
EMU_INLINE T __ldcs(const T* p) { return *p; }
template <class T>
EMU_INLINE T __ldcg(const T* p) { return *p; }
template <class T>
EMU_INLINE void __stcs(T* p, T v) { *p = v; }
template <class T>
EMU_INLINE void __stcg(T* p, T v) { *p = v; }
