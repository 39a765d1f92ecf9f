// What clang has built in for AMD's GPUs, as far as generated HIP text uses it.
#pragma once
#include "arithmetic.h"

EMU_INLINE float __builtin_amdgcn_exp2f(float x) {
  float power = std::exp2(x);
  return std::fpclassify(power) == FP_SUBNORMAL ? 0.f : power;
}
EMU_INLINE void __builtin_amdgcn_sched_barrier(int) {}  // is for the compiler alone
// The lanes of a set below this one, and what is added to their number.
EMU_INLINE unsigned __builtin_amdgcn_mbcnt_lo(unsigned set, unsigned more) {
  unsigned l = emu::lane();
  return more + unsigned(__builtin_popcount(l >= 32 ? set : set & ((1u << l) - 1)));
}
EMU_INLINE unsigned __builtin_amdgcn_mbcnt_hi(unsigned set, unsigned more) {
  unsigned l = emu::lane();
  return more + unsigned(l < 32 ? 0 : __builtin_popcount(set & ((1u << (l - 32)) - 1)));
}
namespace emu {
EMU_INLINE int word_of(int word, unsigned source) {
  return int(shuffle(~Lanes(0), uint32_t(word), int(source)));
}
}  // namespace emu
// "AMD Instinct MI300 ISA", data parallel primitives: permutations of four lanes, and rotations of 16.
EMU_INLINE int __builtin_amdgcn_mov_dpp(int word, int control, int rows, int banks, bool) {
  unsigned l = emu::lane(), from = l;
  if (control < 0x100) from = (l & ~3u) | (unsigned(control) >> (2 * (l & 3)) & 3);
  else if (control > 0x120 && control < 0x130) from = (l & ~15u) | ((l - (control & 15)) & 15);
  else emu::unmodelled("a control of DPP that is no quad_perm and no row_ror");
  if (rows != 15 || banks != 15) emu::unmodelled("DPP for some rows or banks alone");
  return emu::word_of(word, from);
}
EMU_INLINE int __builtin_amdgcn_ds_swizzle(int word, int pattern) {
  if (pattern & 0x8000) emu::unmodelled("ds_swizzle of four lanes or by rotation");
  unsigned l = emu::lane(), in = l & 31;
  return emu::word_of(word, (l & ~31u) | (((in & (pattern & 31)) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31)));
}
EMU_INLINE int __builtin_amdgcn_ds_bpermute(int address, int word) {
  return emu::word_of(word, unsigned(address) / 4 % emu::kLanes);
}
#define EMU_MFMA(name, side, depth, operand, result)                               \
  template <class A, class C>                                                      \
  EMU_INLINE C __builtin_amdgcn_mfma_##name(A a, A b, C c, int, int, int) {        \
    C d;                                                                           \
    emu::mfma({side, depth, emu::Element::operand, emu::Element::result}, &d, &a, &b, &c); \
    return d;                                                                      \
  }
EMU_MFMA(f32_16x16x16f16, 16, 16, f16, f32)
EMU_MFMA(f32_16x16x16bf16_1k, 16, 16, bf16, f32)
EMU_MFMA(i32_16x16x32_i8, 16, 32, s8, s32)
EMU_MFMA(i32_16x16x16i8, 16, 16, s8, s32)
EMU_MFMA(f32_16x16x4f32, 16, 4, f32, f32)
EMU_MFMA(f64_16x16x4f64, 16, 4, f64, f64)
EMU_MFMA(f32_32x32x8f16, 32, 8, f16, f32)
EMU_MFMA(f32_32x32x8bf16_1k, 32, 8, bf16, f32)
EMU_MFMA(i32_32x32x16_i8, 32, 16, s8, s32)
EMU_MFMA(f32_32x32x2f32, 32, 2, f32, f32)
#undef EMU_MFMA
