// Asynchronous copies: by threads (cp.async), by the copy engine (TMA and bulk).
#pragma once
#include "boxes.h"

namespace emu {

inline uint8_t* byte(uint64_t address) { return reinterpret_cast<uint8_t*>(address); }

// ---------------------------------------------------------------- cp.async
inline uint32_t copy_agent(const Thread& t) {
  return uint32_t(machine->cluster.threads.size()) + t.id;
}
inline void land(std::deque<Pending>& queue, uint64_t up_to) {
  while (!queue.empty() && queue.front().group <= up_to) {
    if (!queue.front().landed) queue.front().land();
    queue.pop_front();
  }
}
void copy_async(uint32_t target, const void* source, uint32_t bytes, uint32_t valid) {
  EMU_ENTER;
  Block& b = *t.block;
  uint32_t at = own(t, target);
  if (valid > bytes) fail(Fault::misuse, text("cp.async of %u bytes from a source of %u", bytes, valid));
  if (at % bytes || (valid && uintptr_t(source) % bytes))
    fail(Fault::alignment, text("cp.async of %u bytes at an address that is no multiple of them", bytes));
  check_inside(t, b, at, bytes, "cp.async of", t.site);
  if (valid) on_global(t, uintptr_t(source), valid, Access::load, t.site);
  t.warp->conflicts.record(t.site, t.lane, at, bytes);
  uint16_t number = number_of(t, t.site);
  for (uint32_t i = 0; i < bytes; ++i) {
    Cell& c = b.cells[at + i];
    if (c.flags & kBarrier) barrier_as_data(t, b, at + i, t.site);
    if (c.clock && !knows(t, c.agent, c.clock) && c.agent != copy_agent(t))
      conflict(t, b, at + i, bytes - i, c.agent, true, true, t.site, site_of(c));
    check_readers(t, b, at + i, bytes - i, c, t.site);
    c = {uint32_t(t.copy_group), uint16_t(copy_agent(t)), number, 0, 0};
  }
  machine->counts.copies++;
  machine->counts.copy_bytes += bytes;
  uint8_t* to = b.arena + at;
  auto act = [=] {
    memcpy(to, source, valid);
    memset(to + valid, 0, bytes - valid);
  };
  if (machine->eager()) act();
  else t.copies.push_back({act, t.copy_group, false});
}
void copy_commit() {
  EMU_ENTER;
  t.copy_group++;
  if (machine->random_order() && machine->flip()) land(t.copies, t.copy_group - 2);
}
void copy_wait(uint32_t groups) {
  EMU_ENTER;
  uint64_t committed = t.copy_group - 1;
  if (committed < groups) return;
  uint64_t done = committed - groups;
  land(t.copies, done);
  if (done) learn(t, copy_agent(t), uint32_t(done));
  t.time++;
}
// An arrival once the thread's copies so far have landed.
void mbarrier_arrive_copies(uint32_t address, bool counted) {
  EMU_ENTER;
  Mbarrier& m = mbarrier(t, address, "cp.async.mbarrier.arrive");
  if (!counted) m.pending++, m.expected += 0;
  Thread* me = &t;
  Mbarrier* barrier = &m;
  uint64_t up_to = t.copy_group;
  t.copy_group++;
  uint32_t clock = t.clock, fenced = t.fenced;
  Known known = t.known;
  t.clock++;
  Site site = t.site;
  submit([=] {
    land(me->copies, up_to);
    if (!barrier->pending)
      fail_at(Fault::counts, *me, "an mbarrier gets more arrivals than it counts", {site, barrier->site});
    barrier->arriving.add(known, machine->cluster.join);
    barrier->arriving.set(me->id, clock, fenced);
    barrier->arriving.set(copy_agent(*me), uint32_t(up_to), 0);
    barrier->pending--;
    try_complete(*barrier);
  });
}

// ---------------------------------------------------------------- to shared memory
// The blocks that a copy goes to: one, or those of a multicast's mask.
inline std::vector<Block*> targets(Thread& t, uint32_t target, int32_t ranks) {
  if (ranks < 0) return {&block_of(t, target)};
  std::vector<Block*> result;
  auto& blocks = t.block->cluster->blocks;
  for (size_t r = 0; r < 16; ++r) {
    if (!(ranks >> r & 1)) continue;
    if (r >= blocks.size()) fail(Fault::misuse, text("multicast to rank %zu of %zu blocks", r, blocks.size()));
    result.push_back(&blocks[r]);
  }
  return result;
}
inline Mbarrier& completing(Thread& t, Block& b, uint32_t barrier, bool multicast) {
  uint32_t address = multicast ? local(barrier) | b.rank << kRankShift : barrier;
  Mbarrier& m = mbarrier(t, address, "a copy");
  // PTX ISA, "fence.mbarrier_init", speaks of other blocks of the cluster. In one block CUDA's guide
  // wants a fence, too, and Triton's specialised kernels, which are right on GPUs, have none.
  bool asked = machine->request.checks & kDocumented || machine->cluster.blocks.size() > 1;
  if (asked && !m.visible)
    fail_at(Fault::proxy, t,
            "a copy completes an mbarrier whose initialisation <site 1> was not fenced: "
            "fence.mbarrier_init or fence.proxy.async is missing",
            {t.site, m.site});
  return m;
}
void tma_load(uint32_t target, const void* map, int rank, const int32_t* at, uint32_t barrier,
              int32_t ranks) {
  EMU_ENTER;
  const TensorMap m = tensor_map(t, map, rank);
  uint32_t address = local(target), bytes = box_bytes(m);
  struct Where { int32_t at[5]; } where{};
  std::copy(at, at + rank, where.at);
  machine->counts.tma_loads++;
  machine->counts.tma_load_bytes += bytes;
  uint64_t busy = bytes / kCopyBytes;
  uint64_t end = engine_work(t, kTmaLoad, machine->cluster.copy_engine_free, bytes, 0, busy, kCopyLatency);
  for (Block* b : targets(t, target, ranks)) {
    check_box(t, m, *b, address);
    Mbarrier* done = &completing(t, *b, barrier, ranks >= 0);
    engine_writes(t, *b, address, bytes, done->agent, done->phase + 1, t.site);
    Thread* me = &t;
    Site site = t.site;
    uint32_t phase = done->phase;
    submit([=] {
      for_pieces(m, where.at, address, [&](uint32_t s, uint64_t g, uint32_t n) {
        if (g) memcpy(b->arena + s, byte(g), n);
        else memset(b->arena + s, 0, n);
      });
      complete_bytes(*me, site, *done, phase, bytes, end);
    });
  }
  t.time++;
}
void bulk_load(uint32_t target, const void* source, uint32_t bytes, uint32_t barrier, int32_t ranks) {
  EMU_ENTER;
  uint32_t address = local(target);
  if (address % 16 || uintptr_t(source) % 16 || bytes % 16)
    fail(Fault::alignment, text("a bulk copy of %u bytes: addresses and size must be multiples of 16", bytes));
  on_global(t, uintptr_t(source), bytes, Access::load, t.site);
  machine->counts.tma_loads++;
  machine->counts.tma_load_bytes += bytes;
  uint64_t end = engine_work(t, kBulkLoad, machine->cluster.copy_engine_free, bytes, 0,
                             bytes / kCopyBytes, kCopyLatency);
  for (Block* b : targets(t, target, ranks)) {
    check_inside(t, *b, address, bytes, "a bulk copy of", t.site);
    Mbarrier* done = &completing(t, *b, barrier, ranks >= 0);
    engine_writes(t, *b, address, bytes, done->agent, done->phase + 1, t.site);
    Thread* me = &t;
    Site site = t.site;
    uint32_t phase = done->phase;
    submit([=] {
      memcpy(b->arena + address, source, bytes);
      complete_bytes(*me, site, *done, phase, bytes, end);
    });
  }
  t.time++;
}

// ---------------------------------------------------------------- from shared memory
inline uint32_t store_token(Thread& t) {
  if (!t.store_agent) t.store_agent = new_agent(AgentKind::stores, &t);
  return machine->cluster.readers.token(
      {t.store_agent, uint32_t(t.store_group), number_of(t, t.site)});
}
inline void store_reads(Thread& t, uint32_t address, uint32_t bytes, uint32_t token) {
  if (engine_reads(t, Alone{t}, *t.block, address, bytes, token, t.site, "the copy engine"))
    uninitialised(t, *t.block, address, bytes, t.site);
}
inline void submit_store(Thread& t, std::function<void()> act) {
  if (machine->eager()) act();
  t.stores.push_back({std::move(act), t.store_group, machine->eager()});
}
template <class T, class F>
inline void combine(uint8_t* to, const uint8_t* from, uint32_t bytes, F f) {
  for (uint32_t i = 0; i < bytes; i += sizeof(T)) {
    T a, b;
    memcpy(&a, to + i, sizeof(T));
    memcpy(&b, from + i, sizeof(T));
    a = f(a, b);
    memcpy(to + i, &a, sizeof(T));
  }
}
template <class T>
inline void combine(uint8_t* to, const uint8_t* from, uint32_t bytes, Reduction how) {
  if (how == Reduction::add) combine<T>(to, from, bytes, [](T a, T b) { return T(a + b); });
  else if (how == Reduction::min) combine<T>(to, from, bytes, [](T a, T b) { return b < a ? b : a; });
  else combine<T>(to, from, bytes, [](T a, T b) { return b > a ? b : a; });
}
template <float (*Of)(uint16_t), uint16_t (*To)(float)>
inline void combine_short(uint8_t* to, const uint8_t* from, uint32_t bytes, Reduction how) {
  combine<uint16_t>(to, from, bytes, [how](uint16_t a, uint16_t b) {
    float x = Of(a), y = Of(b);
    return To(how == Reduction::add ? x + y : how == Reduction::min ? std::fmin(x, y) : std::fmax(x, y));
  });
}
inline void put(uint8_t* to, const uint8_t* from, uint32_t bytes, Type type, Reduction how) {
  if (how == Reduction::none) memcpy(to, from, bytes);
  else if (type == Type::f32) combine<float>(to, from, bytes, how);
  else if (type == Type::s32) combine<int32_t>(to, from, bytes, how);
  else if (type == Type::f16) combine_short<f16_to_float, float_to_f16>(to, from, bytes, how);
  else if (type == Type::bf16) combine_short<bf16_to_float, float_to_bf16>(to, from, bytes, how);
}
void tma_store(const void* map, int rank, const int32_t* at, uint32_t source, Reduction how) {
  EMU_ENTER;
  const TensorMap m = tensor_map(t, map, rank);
  Type type = Type(m.type);
  if (how > Reduction::max || (how != Reduction::none && type != Type::f32 && type != Type::s32 &&
                               type != Type::f16 && type != Type::bf16))
    fail(Fault::unmodelled, "a reduction by the copy engine of this kind is not modelled");
  uint32_t address = own(t, source), bytes = box_bytes(m), token = store_token(t);
  check_box(t, m, *t.block, address);
  struct Where { int32_t at[5]; } where{};
  std::copy(at, at + rank, where.at);
  for_pieces(m, where.at, address, [&](uint32_t s, uint64_t g, uint32_t n) {
    if (g) store_reads(t, s, n, token);
  });
  machine->counts.tma_stores++;
  machine->counts.tma_store_bytes += bytes;
  engine_work(t, kTmaStore, machine->cluster.copy_engine_free, bytes, 0, bytes / kCopyBytes, kCopyLatency);
  uint8_t* arena = t.block->arena;
  submit_store(t, [=] {
    for_pieces(m, where.at, address, [&](uint32_t s, uint64_t g, uint32_t n) {
      if (g) put(byte(g), arena + s, n, type, how);
    });
  });
  t.time++;
}
void bulk_store(void* target, uint32_t source, uint32_t bytes) {
  EMU_ENTER;
  uint32_t address = own(t, source);
  if (address % 16 || uintptr_t(target) % 16 || bytes % 16)
    fail(Fault::alignment, text("a bulk copy of %u bytes: addresses and size must be multiples of 16", bytes));
  check_inside(t, *t.block, address, bytes, "a bulk copy of", t.site);
  on_global(t, uintptr_t(target), bytes, Access::store, t.site);
  store_reads(t, address, bytes, store_token(t));
  machine->counts.tma_stores++;
  machine->counts.tma_store_bytes += bytes;
  engine_work(t, kBulkStore, machine->cluster.copy_engine_free, bytes, 0, bytes / kCopyBytes, kCopyLatency);
  uint8_t* from = t.block->arena + address;
  submit_store(t, [=] { memcpy(target, from, bytes); });
  t.time++;
}
void bulk_commit() {
  EMU_ENTER;
  t.store_group++;
  if (machine->random_order() && machine->flip()) land(t.stores, t.store_group - 2);
}
void bulk_wait(uint32_t groups, bool) {
  EMU_ENTER;
  uint64_t committed = t.store_group - 1;
  if (committed < groups) return;
  land(t.stores, committed - groups);
  if (t.store_agent) learn(t, t.store_agent, uint32_t(committed - groups));
  waited(t, kWaitStores, t.time, &Record::barrier);
}

}  // namespace emu
