// ldmatrix, stmatrix and mma.sync: matrix instructions of one warp.
#pragma once
#include "operands.h"

namespace emu {

struct MatrixSlot {
  uint32_t row;
  uint32_t* const* registers;  // of ldmatrix
  const uint32_t* values;      // of stmatrix
};
inline void count_rows(Warp& w, Site site, const uint32_t* rows, int count) {
  for (int i = 0; i < count; ++i) {
    LaneAccess lanes[8];
    for (int r = 0; r < 8; ++r) lanes[r] = {rows[8 * i + r], 16};
    uint32_t ideal, total = wavefronts(lanes, 8, &ideal);
    Conflict& c = machine->conflicts[site];
    c.site = uint64_t(site);
    c.requests++;
    c.wavefronts += total;
    c.ideal += ideal;
  }
  (void)w;
}
inline void matrix_rows(void** all, int count, uint32_t* rows, const char* what) {
  for (int l = 0; l < 8 * count; ++l) {
    rows[l] = own(*current, static_cast<MatrixSlot*>(all[l])->row);
    if (rows[l] % 16)
      fail(Fault::alignment, text("%s: the row of lane %d is at %u, no multiple of 16", what, l, rows[l]));
    check_inside(*current, *current->block, rows[l], 16, what, current->site);
  }
}
// Operand rows that nobody has written hold NaN; rows of a ragged tile may be such.
inline void read_matrix_row(Thread& t, Block& b, uint32_t address) {
  uint32_t i = 0;
  while (i < 16) {
    uint32_t n = 0;
    while (i + n < 16 && b.cells[address + i + n].clock) ++n;
    if (n) read_cells(t, b, address + i, n, t.site);
    i += n;
    if (i < 16) {
      if (machine->request.checks & kUnwritten) uninitialised(t, b, address + i, 16 - i, t.site);
      machine->counts.poisoned++;
      ++i;
    }
  }
}
void ldmatrix(uint32_t* const* registers, int count, uint32_t row, bool transposed) {
  EMU_ENTER;
  check_array(t, registers, uint32_t(count), "ldmatrix");
  MatrixSlot slot{row, registers, nullptr};
  meet(t, transposed ? "ldmatrix.trans" : "ldmatrix", kFull, &slot, [=](void** all, uint32_t) {
    Warp& w = *current->warp;
    Block& b = *w.block;
    uint32_t rows[32];
    matrix_rows(all, count, rows, "ldmatrix of");
    for (int l = 0; l < 8 * count; ++l) read_matrix_row(*w.thread[l], b, rows[l]);
    count_rows(w, current->site, rows, count);
    machine->counts.shared_loads += uint64_t(count);
    for (uint32_t l = 0; l < 32; ++l)
      for (int i = 0; i < count; ++i) {
        uint32_t& to = *static_cast<MatrixSlot*>(all[l])->registers[i];
        if (!transposed) {
          memcpy(&to, b.arena + rows[8 * i + l / 4] + l % 4 * 4, 4);
        } else {
          uint16_t v[2];
          for (uint32_t e = 0; e < 2; ++e)
            memcpy(&v[e], b.arena + rows[8 * uint32_t(i) + 2 * (l % 4) + e] + l / 4 * 2, 2);
          memcpy(&to, v, 4);
        }
      }
  });
}
void stmatrix(const uint32_t* registers, int count, uint32_t row, bool transposed) {
  EMU_ENTER;
  MatrixSlot slot{row, nullptr, registers};
  meet(t, transposed ? "stmatrix.trans" : "stmatrix", kFull, &slot, [=](void** all, uint32_t) {
    Warp& w = *current->warp;
    Block& b = *w.block;
    uint32_t rows[32];
    matrix_rows(all, count, rows, "stmatrix of");
    count_rows(w, current->site, rows, count);
    machine->counts.shared_stores += uint64_t(count);
    for (uint32_t l = 0; l < 32; ++l)
      for (int i = 0; i < count; ++i) {
        uint32_t value = static_cast<MatrixSlot*>(all[l])->values[i];
        for (uint32_t e = 0; e < 2; ++e) {
          uint32_t at = transposed ? rows[8 * uint32_t(i) + 2 * (l % 4) + e] + l / 4 * 2
                                   : rows[8 * uint32_t(i) + l / 4] + l % 4 * 4 + 2 * e;
          write_cells(*w.thread[l], b, at, 2, current->site, false);
          memcpy(b.arena + at, reinterpret_cast<uint8_t*>(&value) + 2 * e, 2);
        }
      }
  });
}
void mma(const Mma& shape, uint32_t* const* d, const uint32_t* a, const uint32_t* b,
         const uint32_t* c) {
  EMU_ENTER;
  struct Slot {
    uint32_t* const* d;
    const uint32_t *a, *b, *c;
  } slot{d, a, b, c};
  meet(t, "mma.sync", kFull, &slot, [&shape](void** all, uint32_t) {
    const uint32_t *ra[32], *rb[32];
    for (int l = 0; l < 32; ++l) {
      ra[l] = static_cast<Slot*>(all[l])->a;
      rb[l] = static_cast<Slot*>(all[l])->b;
    }
    float left[16 * 32], right[32 * 8];
    uint32_t k = uint32_t(shape.k);
    fragment_a(shape.a, k, ra, left);
    fragment_b(shape.b, k, rb, right);
    bool half = shape.result == Type::f16, integer = shape.result == Type::s32;
    for (uint32_t l = 0; l < 32; ++l) {
      Slot& s = *static_cast<Slot*>(all[l]);
      uint16_t packed[4];
      for (uint32_t i = 0; i < 4; ++i) {
        uint32_t row = l / 4 + 8 * (i >> 1), column = 2 * (l % 4) + (i & 1);
        float sum = 0;
        int64_t whole = 0;
        for (uint32_t x = 0; x < k; ++x) {
          float product = left[row * k + x] * right[x * 8 + column];
          if (integer) whole += int64_t(product);
          else sum += product;
        }
        if (integer) {
          *s.d[i] = uint32_t(int32_t(s.c[i]) + int32_t(whole));
        } else if (half) {
          uint16_t old = uint16_t(s.c[i / 2] >> (16 * (i & 1)));
          packed[i] = float_to_f16(f16_to_float(old) + sum);
        } else {
          *s.d[i] = bit_cast<uint32_t>(bit_cast<float>(s.c[i]) + sum);
        }
      }
      if (half) memcpy(s.d[0], packed, 4), memcpy(s.d[1], packed + 2, 4);
    }
    Warp& w = *current->warp;
    uint64_t flops = 2ull * 16 * 8 * k;
    machine->counts.mma++;
    machine->counts.flops += flops;
    for (Thread* lane : w.thread)
      if (lane) lane->time += std::max<uint64_t>(1, flops * 4 / kFlops);
  });
}

}  // namespace emu
