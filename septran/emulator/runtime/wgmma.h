// wgmma: the four warps of a warpgroup each own 16 rows of the result.
#pragma once
#include "matrices.h"

namespace emu {

// The accumulators of a lane: one run of registers, or scattered ones.
struct Accumulators {
  uint32_t* first = nullptr;
  std::vector<uint32_t*> scattered;
  uint32_t* operator[](size_t i) const { return first ? first + i : scattered[i]; }
};
struct WgmmaOperation {
  Wgmma shape;
  Descriptor a, b;
  bool from_registers, accumulate, mn_major_a, mn_major_b;
  int sign_a, sign_b;
  uint32_t warp;  // in its warpgroup
  Block* block;
  Accumulators lanes[32];
  std::vector<float> fragment;
};

inline void load_a(const WgmmaOperation& o, float* a) {
  uint32_t k = uint32_t(o.shape.k), size = size_of(o.shape.a);
  if (o.from_registers) {
    std::copy(o.fragment.begin(), o.fragment.end(), a);
    return;
  }
  for_chunks(o.a, o.mn_major_a, 16 * o.warp, 16, k, size, [&](uint32_t at, uint32_t mn, uint32_t y) {
    float v[16];
    uint32_t n = 16 / size;
    widen(o.shape.a, o.block->arena + at, n, v);
    for (uint32_t e = 0; e < n; ++e)
      a[o.mn_major_a ? (mn + e) * k + y : mn * k + y + e] = v[e];
  });
}
inline void load_b(const WgmmaOperation& o, float* b) {
  uint32_t n = uint32_t(o.shape.n), k = uint32_t(o.shape.k), size = size_of(o.shape.b);
  for_chunks(o.b, o.mn_major_b, 0, n, k, size, [&](uint32_t at, uint32_t mn, uint32_t y) {
    float v[16];
    uint32_t count = 16 / size;
    widen(o.shape.b, o.block->arena + at, count, v);
    for (uint32_t e = 0; e < count; ++e)
      b[o.mn_major_b ? y * n + mn + e : (y + e) * n + mn] = v[e];
  });
}
// Terms of 8-bit floats, and the sum so far, are aligned to the greatest of them and cut off 13 bits
// behind its point (DeepSeek-V3, arXiv 2412.19437, 3.3.2; SageAttention2, arXiv 2411.10958).
constexpr int kFractionBits = 13;
inline float cut_sum(const float* terms, uint32_t count, float sum) {
  float greatest = std::fabs(sum);
  bool finite = std::isfinite(sum);
  for (uint32_t x = 0; x < count; ++x) {
    greatest = std::max(greatest, std::fabs(terms[x]));
    finite &= bool(std::isfinite(terms[x]));
  }
  if (!finite || greatest == 0) {
    for (uint32_t x = 0; x < count; ++x) sum += terms[x];
    return sum;
  }
  double unit = std::ldexp(1.0, std::ilogb(greatest) - kFractionBits);
  double total = std::trunc(sum / unit);
  for (uint32_t x = 0; x < count; ++x) total += std::trunc(terms[x] / unit);
  return float(total * unit);
}
inline void multiply_cut(const WgmmaOperation& o, const float* a, const float* b) {
  uint32_t n = uint32_t(o.shape.n), k = uint32_t(o.shape.k);
  float terms[32], sign = float(o.sign_a * o.sign_b);
  for (uint32_t l = 0; l < 32; ++l)
    for (uint32_t i = 0; i < n / 2; ++i) {
      uint32_t r = l / 4 + 8 * (i >> 1 & 1), c = 8 * (i / 4) + 2 * (l % 4) + (i & 1);
      for (uint32_t x = 0; x < k; ++x) terms[x] = sign * a[r * k + x] * b[x * n + c];
      uint32_t* to = o.lanes[l][i];
      *to = bit_cast<uint32_t>(cut_sum(terms, k, o.accumulate ? bit_cast<float>(*to) : 0.f));
    }
}
inline void multiply(const WgmmaOperation& o) {
  uint32_t n = uint32_t(o.shape.n), k = uint32_t(o.shape.k);
  float a[16 * 32];
  static thread_local std::vector<float> b_memory, d_memory;
  b_memory.resize(32 * 256);
  d_memory.resize(16 * 256);
  float *b = b_memory.data(), *d = d_memory.data();
  load_a(o, a);
  load_b(o, b);
  if (o.shape.a == Type::e4m3 || o.shape.a == Type::e5m2) return multiply_cut(o, a, b);
  for (uint32_t r = 0; r < 16; ++r) {
    float* row = d + r * n;
    std::fill(row, row + n, 0.f);
    for (uint32_t x = 0; x < k; ++x) {
      float s = a[r * k + x];
      const float* from = b + x * n;
      for (uint32_t c = 0; c < n; ++c) row[c] += s * from[c];
    }
  }
  float sign = float(o.sign_a * o.sign_b);
  bool integer = o.shape.result == Type::s32;
  for (uint32_t l = 0; l < 32; ++l)
    for (uint32_t i = 0; i < n / 2; ++i) {
      float v = sign * d[(l / 4 + 8 * (i >> 1 & 1)) * n + 8 * (i / 4) + 2 * (l % 4) + (i & 1)];
      uint32_t* to = o.lanes[l][i];
      if (integer) *to = uint32_t((o.accumulate ? int32_t(*to) : 0) + int32_t(v));
      else *to = bit_cast<uint32_t>((o.accumulate ? bit_cast<float>(*to) : 0.f) + v);
    }
}

inline void check_operand(Warp& w, const Together& issuer, uint32_t token, const Descriptor& d,
                          bool mn_major, uint32_t first, uint32_t count, uint32_t k, uint32_t size) {
  Thread& t = *current;
  for_chunks(d, mn_major, first, count, k, size, [&](uint32_t at, uint32_t, uint32_t) {
    check_inside(t, *w.block, at, 16, "wgmma reads", t.site);
    uint32_t n = engine_reads(t, issuer, *w.block, at, 16, token, t.site, "wgmma");
    if (n && machine->request.checks & kUnwritten) uninitialised(t, *w.block, at, n, t.site);
    machine->counts.poisoned += n;
  });
}
inline void check_registers(Thread& t, const Accumulators& d, uint32_t count) {
  if (!t.wgmma_fenced)
    fail_at(Fault::registers, t, "wgmma without a wgmma.fence before it", {t.site});
  for (uint32_t i = 0; i < count && !t.written.empty(); ++i) {
    uint32_t word = uint32_t(reinterpret_cast<uint8_t*>(d[i]) - t.stack) / 4;
    if (t.written[word / 64] >> (word % 64) & 1)
      fail_at(Fault::registers, t,
              "accumulators were written after the last wgmma.fence, and wgmma uses them", {t.site});
  }
}
inline Accumulators accumulators(uint32_t* const* d, uint32_t count) {
  Accumulators result;
  bool run = true;
  for (uint32_t i = 1; i < count; ++i) run &= d[i] == d[0] + i;
  if (run) result.first = d[0];
  else result.scattered.assign(d, d + count);
  return result;
}
inline void watch(Thread& t, const Accumulators& d, uint32_t count, uint64_t group) {
  auto add = [&](uint32_t* p, uint32_t n) {
    uintptr_t low = uintptr_t(p);
    if (!t.watches.empty() && t.watches.back().low == low && t.watches.back().group == group) return;
    t.watches.push_back({low, low + 4 * n, group, t.site});
  };
  if (d.first) add(d.first, count);
  else
    for (uint32_t* p : d.scattered) add(p, 1);
}
struct WgmmaSlot {
  uint32_t* const* d;
  const uint32_t* fragment;
  uint64_t a, b;
};
inline void same_for_all(void** all, uint32_t lanes) {
  const WgmmaSlot& first = *static_cast<WgmmaSlot*>(all[__builtin_ctz(lanes)]);
  for (uint32_t l = 0; l < 32; ++l) {
    const WgmmaSlot& s = *static_cast<WgmmaSlot*>(all[l]);
    if (s.a != first.a || s.b != first.b)
      fail(Fault::misuse, text("lane %u passes another matrix descriptor to wgmma", l));
  }
}
inline void issue(Warp& w, const WgmmaOperation& o) {
  uint32_t k = uint32_t(o.shape.k), n = uint32_t(o.shape.n);
  if (!w.wgmma_agent) w.wgmma_agent = new_agent(AgentKind::wgmma, w.thread[0]);
  uint32_t token = machine->cluster.readers.token(
      {w.wgmma_agent, uint32_t(w.wgmma_group), number_of(*current, current->site)});
  Together issuer = together(w);
  if (!o.from_registers)
    check_operand(w, issuer, token, o.a, o.mn_major_a, 16 * o.warp, 16, k, size_of(o.shape.a));
  check_operand(w, issuer, token, o.b, o.mn_major_b, 0, n, k, size_of(o.shape.b));
  for (uint32_t l = 0; l < 32; ++l) {
    Thread& t = *w.thread[l];
    t.site = current->site;
    check_registers(t, o.lanes[l], n / 2);
    watch(t, o.lanes[l], n / 2, w.wgmma_group);
  }
  uint64_t flops = 2ull * 16 * n * k, all = 4 * flops, end = current->time;
  uint64_t rate = size_of(o.shape.a) == 1 ? 2 * kFlops : size_of(o.shape.a) == 4 ? kFlops / 2 : kFlops;
  if (o.warp == 0)
    end = engine_work(*current, kWgmma, machine->cluster.tensor_free, 0, all, all / rate, 32);
  else end = std::max(end, machine->cluster.tensor_free + 32);
  machine->counts.wgmma++;
  machine->counts.flops += flops;
  if (machine->eager()) multiply(o);
  auto act = machine->eager() ? std::function<void()>([] {}) : [o] { multiply(o); };
  w.wgmma.push_back({act, w.wgmma_group, 0, end, flops, current->site, machine->eager()});
}
void wgmma(const Wgmma& shape, uint32_t* const* d, uint64_t a, const uint32_t* fragment,
           uint64_t b, bool accumulate, int sign_a, int sign_b, bool mn_major_a, bool mn_major_b) {
  EMU_ENTER;
  check_array(t, d, uint32_t(shape.n) / 2, "wgmma.mma_async");
  WgmmaSlot slot{d, fragment, fragment ? 0 : a, b};
  meet(t, "wgmma.mma_async", kFull, &slot, [=, &shape](void** all, uint32_t lanes) {
    Thread& t = *current;
    Warp& w = *t.warp;
    if (lanes != kFull) fail(Fault::misuse, "wgmma in a warp whose lanes have partly returned");
    same_for_all(all, lanes);
    const WgmmaSlot& first = *static_cast<WgmmaSlot*>(all[0]);
    WgmmaOperation o;
    o.shape = shape;
    o.from_registers = fragment;
    o.a = fragment ? Descriptor{} : descriptor(first.a);
    o.b = descriptor(first.b);
    o.accumulate = accumulate;
    o.sign_a = sign_a;
    o.sign_b = sign_b;
    o.mn_major_a = mn_major_a;
    o.mn_major_b = mn_major_b;
    o.warp = w.number % 4;
    o.block = w.block;
    const uint32_t* registers[32];
    for (int l = 0; l < 32; ++l) {
      o.lanes[l] = accumulators(static_cast<WgmmaSlot*>(all[l])->d, uint32_t(shape.n) / 2);
      registers[l] = static_cast<WgmmaSlot*>(all[l])->fragment;
    }
    if (fragment) {
      o.fragment.resize(16 * size_t(shape.k));
      fragment_a(shape.a, uint32_t(shape.k), registers, o.fragment.data());
    }
    issue(w, o);
  });
}
void wgmma_fence() {
  EMU_ENTER;
  meet(t, "wgmma.fence", kFull, &t, [](void** all, uint32_t lanes) {
    for (uint32_t l = 0; l < 32; ++l) {
      if (!(lanes >> l & 1)) continue;
      Thread& lane = *static_cast<Thread*>(all[l]);
      lane.wgmma_fenced = true;
      if (!lane.written.empty() && lane.written_low <= lane.written_high)
        std::fill(lane.written.begin() + lane.written_low / 64,
                  lane.written.begin() + lane.written_high / 64 + 1, 0);
      lane.written_low = ~0u;
      lane.written_high = 0;
    }
  });
}
inline void land_wgmma(Warp& w, uint64_t up_to, uint64_t* end) {
  while (!w.wgmma.empty() && w.wgmma.front().group <= up_to) {
    *end = std::max(*end, w.wgmma.front().end);
    if (!w.wgmma.front().landed) w.wgmma.front().land();
    w.wgmma.pop_front();
  }
}
void wgmma_commit() {
  EMU_ENTER;
  meet(t, "wgmma.commit_group", kFull, &t, [](void** all, uint32_t lanes) {
    Warp& w = *static_cast<Thread*>(all[__builtin_ctz(lanes)])->warp;
    w.wgmma_group++;
    if (machine->random_order() && machine->flip())
      for (WgmmaWork& work : w.wgmma)
        if (!work.landed) {
          work.land();
          work.landed = true;
        }
  });
}
void wgmma_wait(uint32_t groups) {
  EMU_ENTER;
  uint64_t end = 0, *at = &end;
  meet(t, "wgmma.wait_group", kFull, &end, [groups](void** all, uint32_t lanes) {
    Warp& w = *current->warp;
    uint64_t committed = w.wgmma_group - 1, latest = 0;
    if (committed >= groups) land_wgmma(w, committed - groups, &latest);
    for (uint32_t l = 0; l < 32; ++l)
      if (lanes >> l & 1) *static_cast<uint64_t*>(all[l]) = latest;
  });
  uint64_t committed = t.warp->wgmma_group - 1;
  if (committed >= groups) {
    uint64_t done = committed - groups;
    auto finished = [&](const Watch& x) { return x.group <= done; };
    t.watches.erase(std::remove_if(t.watches.begin(), t.watches.end(), finished), t.watches.end());
    if (done && t.warp->wgmma_agent) learn(t, t.warp->wgmma_agent, uint32_t(done));
  }
  waited(t, kWaitWgmma, *at, &Record::barrier);
}

}  // namespace emu
