// mbarriers: phases, pending arrivals, and bytes that copies still owe.
#pragma once
#include "barriers.h"

namespace emu {

constexpr int64_t kMostBytes = (1 << 20) - 1;

inline Mbarrier& mbarrier(Thread& t, uint32_t address, const char* what) {
  Block& b = block_of(t, address);
  uint32_t at = local(address);
  if (at % 8) fail(Fault::alignment, text("%s of an mbarrier at address %u, no multiple of 8", what, at));
  auto it = b.mbarriers.find(at);
  if (it == b.mbarriers.end())
    fail(Fault::misuse, text("%s: no mbarrier was initialised at ", what) + place(b, at));
  Mbarrier& m = *it->second;
  bool published = m.published && t.cluster_passed >= m.published;
  if (!published && !knows(t, m.initialiser, m.init_clock))
    fail_at(Fault::race, t,
            text("%s of the mbarrier at ", what) + place(b, at) +
                " without a barrier after its initialisation <site 1>",
            {t.site, m.site});
  return m;
}
inline bool passed(const Mbarrier& m, uint32_t parity) { return (m.phase & 1) != (parity & 1); }

inline void try_complete(Mbarrier& m) {
  if (m.pending || m.bytes) return;
  m.phase++;
  m.pending = m.expected;
  m.arriving.set_empty(machine->agent_limit);
  m.arriving.set(m.agent, m.phase, m.phase);
  m.completed = machine->cluster.join(m.completed, m.arriving.take());
  m.completed_time = m.time;
  machine->counts.barriers++;
  wake(m.waiters);
}
void mbarrier_init(uint32_t address, uint32_t count) {
  EMU_ENTER;
  Block& b = *t.block;
  uint32_t at = own(t, address);
  if (at % 8) fail(Fault::alignment, text("mbarrier.init at address %u, no multiple of 8", at));
  if (!count || count > kMostBytes) fail(Fault::counts, text("mbarrier.init for %u arrivals", count));
  check_inside(t, b, at, 8, "mbarrier.init of", t.site);
  auto& slot = b.mbarriers[at];
  if (slot && (!slot->waiters.empty() || slot->pending != slot->expected || slot->bytes))
    fail_at(Fault::misuse, t, "mbarrier.init of one that is in use, at " + place(b, at) + " <site 1>",
            {t.site, slot->site});
  for (uint32_t i = 0; i < 8; ++i) b.cells[at + i].flags = 0;
  write_cells(t, b, at, 8, t.site, false);
  for (uint32_t i = 0; i < 8; ++i) b.cells[at + i].flags = kBarrier;
  slot = std::make_unique<Mbarrier>();
  slot->block = &b;
  slot->address = at;
  slot->expected = slot->pending = count;
  slot->agent = new_agent(AgentKind::mbarrier, nullptr);
  slot->initialiser = t.id;
  slot->init_clock = t.clock;
  slot->site = t.site;
}
void mbarrier_invalidate(uint32_t address) {
  EMU_ENTER;
  Mbarrier& m = mbarrier(t, address, "mbarrier.inval");
  Block& b = *m.block;
  uint32_t at = m.address;
  for (uint32_t i = 0; i < 8; ++i) b.cells[at + i] = {};
  b.mbarriers.erase(at);
}
inline void expect(Thread& t, Mbarrier& m, uint32_t bytes) {
  m.bytes += bytes;
  if (m.bytes > kMostBytes)
    fail_at(Fault::counts, t, text("an mbarrier expects %lld bytes, more than 2^20 - 1",
                                   (long long)m.bytes), {t.site});
}
void mbarrier_expect(uint32_t address, uint32_t bytes) {
  EMU_ENTER;
  expect(t, mbarrier(t, address, "mbarrier.expect_tx"), bytes);
}
inline void arrive(Thread& t, Mbarrier& m, uint32_t count, bool releases) {
  if (count > m.pending)
    fail_at(Fault::counts, t,
            text("%u arrival%s at the mbarrier at ", count, count == 1 ? "" : "s") +
                place(*m.block, m.address) + ", which misses only " + text("%u", m.pending) +
                text(" of %u in phase %u <site 1>", m.expected, m.phase),
            {t.site, m.site});
  m.time = std::max(m.time, t.time);
  if (releases) release(t, m.arriving);
  m.pending -= count;
  try_complete(m);
}
uint64_t mbarrier_arrive(uint32_t address, uint32_t count, bool releases) {
  EMU_ENTER;
  Mbarrier& m = mbarrier(t, address, "mbarrier.arrive");
  uint64_t state = m.phase;
  arrive(t, m, count, releases);
  t.time++;
  return state;
}
// A copy of `issuer` has landed `bytes` for the phase that was open when it was issued.
inline void complete_bytes(Thread& issuer, Site site, Mbarrier& m, uint32_t phase, uint32_t bytes,
                           uint64_t time) {
  if (m.phase != phase)
    fail_at(Fault::counts, issuer,
            text("phase %u of the mbarrier at ", phase) + place(*m.block, m.address) +
                text(" was over before this copy of %u bytes arrived: fewer bytes were expected "
                     "than copied <site 1>", bytes),
            {site, m.site});
  m.bytes -= bytes;
  if (m.bytes < -kMostBytes)
    fail_at(Fault::counts, issuer, "an mbarrier got far more bytes than it expected", {site, m.site});
  m.time = std::max(m.time, time);
  try_complete(m);
}
void mbarrier_complete(uint32_t address, uint32_t bytes) {
  EMU_ENTER;
  Mbarrier& m = mbarrier(t, address, "mbarrier.complete_tx");
  complete_bytes(t, t.site, m, m.phase, bytes, t.time);
}

// A thread that asks again and again: others must get on, and what is in flight must land.
// Where nobody but those that ask has anything to do, they wait for ever.
inline void poll(Thread& t) {
  Machine& m = *machine;
  t.time += 32;
  uint64_t everybody = 4ull * m.cluster.live;
  if (++m.asked > everybody && !m.cluster.in_flight.empty()) {
    m.asked = 0;
    land_one();
  } else if (m.asked > 64 * everybody) {
    t.waiting.what = "a loop of mbarrier.test_wait";
    m.running = nullptr;
    Fiber::change(t.fiber, m.scheduler);
  }
  uint64_t asked = m.asked;
  make_ready(&t);
  m.asked = asked;
  give_way();
}
inline void await(Thread& t, Mbarrier& m, uint32_t parity, bool acquires) {
  wait_until({"mbarrier.try_wait", m.block, m.address, int64_t(parity & 1)}, m.waiters,
             [&] { return passed(m, parity); });
  if (acquires) acquire(t, m.completed);
  waited(t, kWaitMbarrier, m.completed_time, &Record::barrier);
}
inline bool test(Thread& t, Mbarrier& m, uint32_t parity, bool acquires) {
  if (!passed(m, parity)) {
    poll(t);
    return false;
  }
  if (acquires) acquire(t, m.completed);
  return true;
}
bool mbarrier_test(uint32_t address, uint32_t parity, bool acquires) {
  EMU_ENTER;
  own(t, address);
  return test(t, mbarrier(t, address, "mbarrier.test_wait"), parity, acquires);
}
bool mbarrier_wait(uint32_t address, uint32_t parity, bool acquires) {
  EMU_ENTER;
  own(t, address);
  // PTX ISA, "mbarrier.test_wait": "the valid values of phaseParity operand are 0 and 1". Triton
  // passes 0 and -1, so hardware takes the lowest bit.
  if (parity > 1 && machine->request.checks & kDocumented) fail(Fault::misuse, text("mbarrier.try_wait for parity %u", parity));
  await(t, mbarrier(t, address, "mbarrier.try_wait"), parity & 1, acquires);
  return true;
}
bool mbarrier_test_state(uint32_t address, uint64_t state, bool acquires) {
  return mbarrier_test(address, uint32_t(state & 1), acquires);
}
bool mbarrier_wait_state(uint32_t address, uint64_t state, bool acquires) {
  EMU_ENTER;
  own(t, address);
  await(t, mbarrier(t, address, "mbarrier.try_wait"), uint32_t(state & 1), acquires);
  return true;
}

}  // namespace emu
