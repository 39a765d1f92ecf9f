/* What a function of one's own gets that computes a leaf of a SepTran kernel (docs/extern.md). */
#ifndef SEPTRAN_LEAF_H
#define SEPTRAN_LEAF_H

#include <cstdint>
#include <cstring>

namespace septran {

/* A part of a tensor: `extent` elements along each axis, `stride` elements from one to the next.
   At the ragged edge of a tensor the extents are those that exist. */
template <typename T, int rank>
struct tile {
  T *data;
  std::int64_t extent[rank];
  std::int64_t stride[rank];

  template <typename... Indices>
  T &operator()(Indices... indices) const {
    static_assert(sizeof...(indices) == rank, "one index for each axis");
    const std::int64_t at[] = {static_cast<std::int64_t>(indices)...};
    std::int64_t offset = 0;
    for (int axis = 0; axis < rank; axis++) offset += at[axis] * stride[axis];
    return data[offset];
  }
};

/* The upper half of a float. Conversions to it round to the nearest, ties to even. */
struct bfloat16 {
  std::uint16_t bits;

  bfloat16() = default;
  bfloat16(float value) {
    std::uint32_t whole;
    std::memcpy(&whole, &value, sizeof whole);
    const bool nan = (whole & 0x7fffffffu) > 0x7f800000u;
    const std::uint32_t rounded = whole + 0x7fffu + ((whole >> 16) & 1u);
    bits = static_cast<std::uint16_t>((nan ? whole | 0x400000u : rounded) >> 16);
  }
  operator float() const {
    const std::uint32_t whole = static_cast<std::uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &whole, sizeof value);
    return value;
  }
};

#if defined(__FLT16_MANT_DIG__) || defined(__aarch64__)
/* IEEE's binary16, where the compiler has it. */
struct float16 {
  std::uint16_t bits;

  float16() = default;
#if defined(__aarch64__)
  typedef __fp16 native;
#else
  typedef _Float16 native;
#endif
  float16(float value) {
    const native narrow = static_cast<native>(value);
    std::memcpy(&bits, &narrow, sizeof bits);
  }
  operator float() const {
    native narrow;
    std::memcpy(&narrow, &bits, sizeof narrow);
    return static_cast<float>(narrow);
  }
};
#endif

}  // namespace septran

#endif
