// Operands of tensor cores: number types, fragments, descriptors of shared memory.
#pragma once
#include "copies.h"

namespace emu {

inline uint32_t size_of(Type t) {
  switch (t) {
    case Type::f16: case Type::bf16: return 2;
    case Type::e4m3: case Type::e5m2: case Type::s8: case Type::u8: return 1;
    default: return 4;
  }
}
inline const float* table(Type type) {  // of 8-bit floats
  static const std::vector<float> tables[2] = {[] {
    std::vector<float> v(256);
    for (int i = 0; i < 256; ++i) v[size_t(i)] = e4m3_to_float(uint8_t(i));
    return v;
  }(), [] {
    std::vector<float> v(256);
    for (int i = 0; i < 256; ++i) v[size_t(i)] = e5m2_to_float(uint8_t(i));
    return v;
  }()};
  return tables[type == Type::e5m2].data();
}
// `count` elements as float; integers of 8 bits are exact in it.
inline void widen(Type type, const uint8_t* from, uint32_t count, float* to) {
  for (uint32_t i = 0; i < count; ++i) {
    uint16_t h;
    uint32_t w;
    switch (type) {
      case Type::f16: memcpy(&h, from + 2 * i, 2); to[i] = f16_to_float(h); break;
      case Type::bf16: memcpy(&h, from + 2 * i, 2); to[i] = bf16_to_float(h); break;
      case Type::tf32: memcpy(&w, from + 4 * i, 4); to[i] = tf32_to_float(w); break;
      case Type::e4m3: case Type::e5m2: to[i] = table(type)[from[i]]; break;
      case Type::s8: to[i] = int8_t(from[i]); break;
      case Type::u8: to[i] = from[i]; break;
      default: memcpy(&to[i], from + 4 * i, 4);
    }
  }
}
// The A fragment of 16 rows of `k` elements, of which lane l has `registers[l][0..3]`:
// rows l/4 and l/4 + 8, and in each half of k the 4 bytes number l%4.
inline void fragment_a(Type type, uint32_t k, const uint32_t* const* registers, float* a) {
  uint32_t per = 4 / size_of(type), half = 4 * per, used = k / half;
  for (uint32_t l = 0; l < 32; ++l)
    for (uint32_t i = 0; i < 2 * used; ++i) {
      float v[4];
      widen(type, reinterpret_cast<const uint8_t*>(&registers[l][i]), per, v);
      uint32_t row = l / 4 + 8 * (i & 1), column = (i >> 1) * half + l % 4 * per;
      std::copy(v, v + per, a + row * k + column);
    }
}
// The B fragment of `k` by 8 as [k][8]: column l/4, the same places along k.
inline void fragment_b(Type type, uint32_t k, const uint32_t* const* registers, float* b) {
  uint32_t per = 4 / size_of(type), half = 4 * per, used = k / half;
  for (uint32_t l = 0; l < 32; ++l)
    for (uint32_t i = 0; i < used; ++i) {
      float v[4];
      widen(type, reinterpret_cast<const uint8_t*>(&registers[l][i]), per, v);
      for (uint32_t e = 0; e < per; ++e) b[(i * half + l % 4 * per + e) * 8 + l / 4] = v[e];
    }
}

// A matrix descriptor of wgmma.
struct Descriptor {
  uint32_t start, leading, stride, span;
};
inline Descriptor descriptor(uint64_t bits) {
  static const uint32_t spans[4] = {0, 128, 64, 32};
  if (bits >> 49 & 7)
    fail(Fault::unmodelled, "a matrix descriptor with a base offset is not modelled");
  Descriptor d{uint32_t(bits & 0x3fff) << 4, uint32_t(bits >> 16 & 0x3fff) << 4,
               uint32_t(bits >> 32 & 0x3fff) << 4, spans[bits >> 62]};
  if (d.span && (d.start & (8 * d.span - 1)) >= std::max(d.span, 128u))
    fail(Fault::alignment,
         text("a matrix starts at %u, inside the %u-byte pattern of its swizzle", d.start, 8 * d.span));
  return d;
}
// Where 16 bytes of an operand are: of row `mn` the chunk `c` along k (K-major), or of row `k`
// the elements from `mn` on (MN-major, 16-bit elements).
inline uint32_t chunk_k(const Descriptor& d, uint32_t mn, uint32_t c) {
  uint32_t a = d.start + mn / 8 * d.stride;
  a += d.span ? mn % 8 * d.span + c * 16 : mn % 8 * 16 + c * d.leading;
  return swizzled(a, d.span) & (kWindow - 1);
}
inline uint32_t chunk_mn(const Descriptor& d, uint32_t mn, uint32_t k) {
  uint32_t per = d.span / 2, a = d.start;
  if (d.span) a += mn / per * d.leading + k / 8 * d.stride + k % 8 * d.span + mn % per * 2;
  else a += mn / 8 * d.stride + k / 8 * d.leading + k % 8 * 16;
  return swizzled(a, d.span) & (kWindow - 1);
}
// Calls `chunk(address, mn, k)` for each 16 bytes of rows [first, first + count) of an operand.
template <class F>
inline void for_chunks(const Descriptor& d, bool mn_major, uint32_t first, uint32_t count,
                       uint32_t k, uint32_t size, F chunk) {
  if (mn_major) {
    for (uint32_t y = 0; y < k; ++y)
      for (uint32_t x = first; x < first + count; x += 8) chunk(chunk_mn(d, x, y), x - first, y);
  } else {
    for (uint32_t x = first; x < first + count; ++x)
      for (uint32_t c = 0; c < k * size / 16; ++c) chunk(chunk_k(d, x, c), x - first, c * 16 / size);
  }
}

}  // namespace emu
