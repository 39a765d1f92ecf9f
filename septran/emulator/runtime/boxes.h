// A tensor map's box: which bytes of global memory are which bytes of shared memory.
#pragma once
#include "mbarriers.h"

namespace emu {

inline const TensorMap& tensor_map(const Thread& t, const void* pointer, int rank) {
  const TensorMap* m = static_cast<const TensorMap*>(pointer);
  if (uintptr_t(pointer) % 64 || m->magic != kTensorMapMagic)
    fail_at(Fault::misuse, t, "the copy engine gets something else than a tensor map", {t.site});
  if (m->rank != rank)
    fail_at(Fault::misuse, t, text("a %dd copy with a tensor map of rank %u", rank, m->rank), {t.site});
  return *m;
}
// PTX ISA, "tensormap.replace": one field of a map that lies in memory as the hardware's do.
// A map whose bytes were all zero before is one with nothing in it. The store before this has
// checked its address.
void map_replace(void* map, MapField field, uint32_t axis, uint64_t value) {
  EMU_ENTER;
  TensorMap m;
  memcpy(&m, map, sizeof m);
  static const uint8_t sizes[] = {1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4};
  static const uint8_t types[] = {uint8_t(Type::u8), 255, 255, uint8_t(Type::s32), 255, 255,
                                  uint8_t(Type::f16), uint8_t(Type::f32), 255, 255,
                                  uint8_t(Type::bf16), 255, 255};
  auto need = [&](bool holds, const char* what) {
    if (!holds) fail(Fault::misuse, text("tensormap.replace: %s %llu", what, (unsigned long long)value));
  };
  bool of_axis = field == MapField::box_dim || field == MapField::global_dim ||
                 field == MapField::global_stride || field == MapField::element_stride;
  if (of_axis && axis > (field == MapField::global_stride ? 3 : 4))
    fail(Fault::misuse, text("tensormap.replace: axis %u", axis));
  switch (field) {
    case MapField::global_address: need(value % 16 == 0, "no multiple of 16:"); m.base = value; break;
    case MapField::rank: need(value < 5, "a rank less 1 of"); m.rank = uint8_t(value + 1); break;
    case MapField::box_dim: need(value - 1 < 256, "a box of"); m.box[axis] = uint32_t(value); break;
    case MapField::global_dim: need(value, "an extent of"); m.extent[axis] = uint32_t(value); break;
    case MapField::global_stride:
      need(value % 16 == 0 && value >> 40 == 0, "a stride of");
      m.stride[axis + 1] = value;
      break;
    case MapField::element_stride:
      if (value != 1) fail(Fault::unmodelled, "element strides other than 1 are not modelled");
      break;
    case MapField::elemtype:
      need(value < sizeof sizes, "an element type of");
      m.element = sizes[value];
      m.type = types[value];
      m.stride[0] = m.element;
      break;
    case MapField::interleave_layout:
      if (value) fail(Fault::unmodelled, "interleaved tensor maps are not modelled");
      break;
    case MapField::swizzle_mode: {
      static const uint8_t spans[] = {0, 1, 2, 4};
      if (value > 3) fail(Fault::unmodelled, "swizzles other than of 32, 64, 128 bytes are not modelled");
      m.swizzle = spans[value];
      break;
    }
    case MapField::fill_mode:
      if (value) fail(Fault::unmodelled, "filling with NaN is not modelled");
      break;
  }
  if (!m.element) m.element = m.stride[0] = 1, m.type = uint8_t(Type::u8);  // .u8 is number 0
  if (!m.rank) m.rank = 1;
  m.magic = kTensorMapMagic;
  memcpy(map, &m, sizeof m);
}
inline uint32_t box_bytes(const TensorMap& m) {
  uint32_t bytes = m.element;
  for (int i = 0; i < m.rank; ++i) bytes *= m.box[i];
  return bytes;
}
// Exclusive or of address bits: 16-byte chunks are permuted within a span of 32, 64, 128 bytes.
inline uint32_t swizzled(uint32_t address, uint32_t span) {
  switch (span) {
    case 32: return address ^ ((address >> 7 & 1) << 4);
    case 64: return address ^ ((address >> 7 & 3) << 4);
    case 128: return address ^ ((address >> 7 & 7) << 4);
    default: return address;
  }
}
inline void check_box(const Thread& t, const TensorMap& m, const Block& b, uint32_t address) {
  uint32_t align = m.swizzle ? 128 : 16, row = m.box[0] * m.element, span = m.swizzle * 32;
  if (address % align)
    fail_at(Fault::alignment, t,
            text("the copy engine's shared address %u is not a multiple of %u", address, align),
            {t.site});
  if (span && row != span)
    fail_at(Fault::unmodelled, t,
            text("a box whose rows of %u bytes are not the swizzle's %u is not modelled", row, span),
            {t.site});
  check_inside(t, b, address, box_bytes(m), "a copy of", t.site);
}
// Calls `piece(shared address, global address or null, bytes)`; null is out of bounds.  Pieces
// never cross a 16-byte chunk of shared memory.
template <class F>
inline void for_pieces(const TensorMap& m, const int32_t* at, uint32_t address, F piece) {
  uint32_t row = m.box[0] * m.element, rows = 1, span = m.swizzle * 32;
  for (int i = 1; i < m.rank; ++i) rows *= m.box[i];
  for (uint32_t r = 0; r < rows; ++r) {
    uint32_t rest = r;
    uint64_t base = m.base;
    bool inside = true;
    for (int i = 1; i < m.rank; ++i) {
      int64_t c = at[i] + int64_t(rest % m.box[i]);
      rest /= m.box[i];
      inside &= c >= 0 && c < int64_t(m.extent[i]);
      base += uint64_t(c * int64_t(m.stride[i]));
    }
    int64_t first = -int64_t(at[0]) * m.element, last = first + int64_t(m.extent[0]) * m.element;
    for (uint32_t x = 0; x < row; x += 16) {
      uint32_t s = swizzled(address + r * row + x, span), n = std::min(16u, row - x);
      // Elements of [low, high) of the chunk are in bounds.
      int64_t low = std::clamp<int64_t>(first - x, 0, n), high = std::clamp<int64_t>(last - x, 0, n);
      if (!inside) low = high = 0;
      if (low > 0) piece(s, uint64_t(0), uint32_t(low));
      if (high > low)
        piece(s + uint32_t(low), base + uint64_t(int64_t(at[0]) * m.element + x + low),
              uint32_t(high - low));
      if (high < int64_t(n)) piece(s + uint32_t(high), uint64_t(0), uint32_t(n - high));
    }
  }
}

}  // namespace emu
