// AMD's matrix instructions of one wave, from the equations of its matrix instruction calculator.
#pragma once
#include "matrices.h"

namespace emu {

// For a square tile of `side`, of `depth` steps:
//   A[i][k]: lane i + side * (k / held), element k % held, where held = depth * side / lanes;
//   B[k][j]: lane j + side * (k / held), element k % held;
//   D[i][j]: lane j + side * (i / 4 % groups), element 4 * (i / (4 * groups)) + i % 4,
//            where groups = lanes / side; of float64 lane j + 16 * (i % 4), element i / 4.
struct MfmaSlot {
  void* d;
  const void *a, *b, *c;
};
inline double mfma_element(Element type, const void* from, uint32_t i) {
  switch (type) {
    case Element::f16: return f16_to_float(static_cast<const uint16_t*>(from)[i]);
    case Element::bf16: return bf16_to_float(static_cast<const uint16_t*>(from)[i]);
    case Element::s8: return static_cast<const int8_t*>(from)[i];
    case Element::f32: return static_cast<const float*>(from)[i];
    case Element::f64: return static_cast<const double*>(from)[i];
    case Element::s32: return static_cast<const int32_t*>(from)[i];
  }
  return 0;
}
// One sum: whole numbers wrap, float32 is rounded at each step.
inline void mfma_sum(const Mfma& m, const double* a, const double* b, const void* c, void* d) {
  if (m.result == Element::s32) {
    uint32_t sum = *static_cast<const uint32_t*>(c);
    for (uint32_t k = 0; k < m.depth; ++k) sum += uint32_t(int32_t(a[k]) * int32_t(b[k]));
    *static_cast<uint32_t*>(d) = sum;
  } else if (m.result == Element::f64) {
    double sum = *static_cast<const double*>(c);
    for (uint32_t k = 0; k < m.depth; ++k) sum = std::fma(a[k], b[k], sum);
    *static_cast<double*>(d) = sum;
  } else {
    float sum = *static_cast<const float*>(c);
    for (uint32_t k = 0; k < m.depth; ++k) sum = std::fma(float(a[k]), float(b[k]), sum);
    *static_cast<float*>(d) = sum;
  }
}
void mfma(const Mfma& shape, void* d, const void* a, const void* b, const void* c) {
  EMU_ENTER;
  MfmaSlot slot{d, a, b, c};
  meet(t, "a matrix instruction", kFull, &slot, [m = shape](void** all, Lanes lanes) {
    if (kLanes != 64 || lanes != kFull)
      fail(Fault::misuse, "a matrix instruction without some lanes of the wave");
    uint32_t held = m.depth * m.side / kLanes, groups = kLanes / m.side;
    std::vector<double> left(m.side * m.depth), right(m.side * m.depth);
    for (uint32_t i = 0; i < m.side; ++i)
      for (uint32_t k = 0; k < m.depth; ++k) {
        const MfmaSlot& s = *static_cast<MfmaSlot*>(all[i + m.side * (k / held)]);
        left[i * m.depth + k] = mfma_element(m.operand, s.a, k % held);
        right[i * m.depth + k] = mfma_element(m.operand, s.b, k % held);
      }
    size_t size = m.result == Element::f64 ? 8 : 4;
    for (uint32_t i = 0; i < m.side; ++i)
      for (uint32_t j = 0; j < m.side; ++j) {
        bool wide = m.result == Element::f64;
        uint32_t lane = j + m.side * (wide ? i % 4 : i / 4 % groups);
        uint32_t at = wide ? i / 4 : 4 * (i / (4 * groups)) + i % 4;
        MfmaSlot& s = *static_cast<MfmaSlot*>(all[lane]);
        mfma_sum(m, &left[i * m.depth], &right[j * m.depth],
                 static_cast<const uint8_t*>(s.c) + at * size, static_cast<uint8_t*>(s.d) + at * size);
      }
    uint64_t flops = 2ull * m.side * m.side * m.depth;
    machine->counts.mma++;
    machine->counts.flops += flops;
    for (Thread* lane : current->warp->thread)
      if (lane) lane->time += std::max<uint64_t>(1, flops * 4 / kFlops);
  });
}

}  // namespace emu
