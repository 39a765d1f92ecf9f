// A launch: clusters one after another, each with its threads as fibers.
#pragma once
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "crash.h"

namespace emu {

inline void check_end(Thread& t) {
  for (const Pending& p : t.stores)
    if (p.group + 1 > t.store_group || t.known->seen[t.store_agent] < p.group)
      fail(Fault::unfinished, "the thread returns while the copy engine may still read its block's "
                              "shared memory: no cp.async.bulk.wait_group");
  if (!t.watches.empty())
    fail_at(Fault::registers, t, "the thread returns while a wgmma <site 1> is in flight",
            {t.site, t.watches[0].site});
  if (!t.copies.empty()) land(t.copies, ~0ull);
}
inline void leave(Thread& t) {
  Cluster& c = machine->cluster;
  Block& b = *t.block;
  t.done = true;
  if (t.tentative.at) settle(t);
  waited(t, kThreads, t.time, &Record::sync);
  c.live--;
  b.live--;
  leave_warp(*t.warp, t.lane);
  if (!t.warp->live) flush_conflicts(*t.warp);
  if (b.live && b.whole.arrived == b.live) complete(b.whole);
  if (c.live && c.arrived == c.live) complete_cluster(c);
}
inline void fiber_main() {
  Thread* t = current;
  machine->request.entry(machine->request.arguments);
  t->site = nullptr;
  check_end(*t);
  leave(*t);
  machine->running = nullptr;
  for (;;) Fiber::change(t->fiber, machine->scheduler);
}

inline void set_up_threads(Block& b, uint32_t first) {
  const Request& r = machine->request;
  Cluster& c = machine->cluster;
  uint32_t n = r.block[0] * r.block[1] * r.block[2];
  b.live = n;
  b.warps = std::vector<Warp>((n + kLanes - 1) / kLanes);
  for (uint32_t i = 0; i < n; ++i) {
    Thread& t = c.threads[first + i];
    Warp& w = b.warps[i / kLanes];
    t.id = first + i;
    t.number = i;
    t.lane = i % kLanes;
    t.index = {i % r.block[0], i / r.block[0] % r.block[1], i / r.block[0] / r.block[1]};
    t.block = &b;
    t.warp = &w;
    t.stack = machine->stacks->of(first + i);
    t.known = c.completed;
    w.number = i / kLanes;
    w.block = &b;
    w.registers = r.registers;
    w.live |= Lanes(1) << t.lane;
    w.thread[t.lane] = &t;
    t.fiber.start(t.stack, Stacks::kBytes, fiber_main);
    c.agents[t.id] = {AgentKind::thread, &t};
    c.agents[c.threads.size() + t.id] = {AgentKind::copies, &t};
  }
}
inline void set_up(uint32_t number) {
  const Request& r = machine->request;
  Cluster& c = machine->cluster;
  uint32_t n = r.block[0] * r.block[1] * r.block[2];
  c = Cluster();
  c.number = number;
  c.blocks = std::vector<Block>(r.cluster);
  c.threads = std::vector<Thread>(n * r.cluster);
  c.agents.resize(2 * c.threads.size());
  c.live = n * r.cluster;
  machine->agent_limit = 2 * c.threads.size() + 384;
  c.completed = std::make_shared<Knowledge>(machine->agent_limit);
  size_t window = size_t(kWindow) * r.cluster;
  machine->arena_memory.resize(window + 4096);
  machine->cell_memory.assign(window, Cell{});
  uintptr_t base = (uintptr_t(machine->arena_memory.data()) + 4095) / 4096 * 4096;
  c.arenas = reinterpret_cast<uint8_t*>(base);
  memset(c.arenas, 0xff, window);  // NaN in every floating type
  machine->ready.clear();
  machine->random.seed(r.seed * 0x9e3779b97f4a7c15ull + number);
  for (uint32_t rank = 0; rank < r.cluster; ++rank) {
    Block& b = c.blocks[rank];
    uint32_t block = number * r.cluster + rank;
    b.rank = rank;
    b.number = block;
    b.cluster = &c;
    b.index = {block % r.grid[0], block / r.grid[0] % r.grid[1], block / r.grid[0] / r.grid[1]};
    b.arena = c.arenas + size_t(rank) * kWindow;
    b.cells = machine->cell_memory.data() + size_t(rank) * kWindow;
    b.dynamic_base = 0;
    set_up_threads(b, rank * n);
  }
  for (Thread& t : c.threads) make_ready(&t);
}

// What must hold when all threads have returned.
inline void check_block(Block& b) {
  auto bad = [&](Fault fault, std::string message, Site site) {
    note(fault, nullptr, text("block %u: ", b.number) + message, {site});
    throw Stop();
  };
  for (auto& [address, m] : b.mbarriers)
    if (m->bytes || m->pending != m->expected)
      bad(Fault::counts, "all threads have returned, and the mbarrier at " + place(b, address) +
          " is in the middle of a phase (" + describe(*m) + ")", m->site);
  for (int i = 0; i < 16; ++i)
    if (b.named[i].arrived)
      bad(Fault::counts, text("all threads have returned, and %u of %u threads are at barrier %d",
                              b.named[i].arrived, b.named[i].threads, i), b.named[i].site);
}

inline void run_one(Machine& m, uint32_t number) {
  set_up(number);
  run_cluster();
  uint64_t latest = 0;
  for (Thread& t : m.cluster.threads) latest = std::max(latest, t.time);
  m.counts.steps = std::max(m.counts.steps, latest);
  for (Block& b : m.cluster.blocks) check_block(b);
}

struct Result {
  Error error;
  Counts counts{};
  std::vector<Record> trace;
  std::vector<Conflict> conflicts;
  std::mutex lock;
};

inline void find_image(Machine& m) {
  auto look = [](dl_phdr_info* info, size_t, void* data) {
    Machine& to = *static_cast<Machine*>(data);
    uintptr_t entry = uintptr_t(to.request.entry), low = ~uintptr_t(0), high = 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
      uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
      low = std::min(low, start);
      high = std::max(high, start + info->dlpi_phdr[i].p_memsz);
    }
    if (entry < low || entry >= high) return 0;
    to.image_low = low;
    to.image_high = high;
    return 1;
  };
  dl_iterate_phdr(look, &m);
}
inline void add(Counts& to, const Counts& from) {
  const uint64_t* f = reinterpret_cast<const uint64_t*>(&from);
  uint64_t *t = reinterpret_cast<uint64_t*>(&to), steps = std::max(to.steps, from.steps);
  for (size_t i = 0; i < sizeof(Counts) / 8; ++i) t[i] += f[i];
  to.steps = steps;
}
// One thread of the operating system: takes clusters until none is left, or one has failed.
inline void work(const Request& r, Result& result, std::atomic<uint32_t>& next, uint32_t clusters,
                 std::atomic<bool>& failed) {
  SignalStack signals(r);
  Machine m(r);
  machine = &m;
  try {
    m.stacks = std::make_unique<Stacks>(size_t(r.block[0]) * r.block[1] * r.block[2] * r.cluster);
    find_image(m);
    for (uint32_t n; !failed && (n = next++) < clusters;) run_one(m, n);
  } catch (Stop&) {
    failed = true;
  } catch (std::bad_alloc&) {
    m.error = {Fault::unmodelled, "the host has too little memory to emulate this", {}};
    failed = true;
  }
  std::lock_guard<std::mutex> hold(result.lock);
  if (m.error.fault != Fault::none && result.error.fault == Fault::none) result.error = m.error;
  add(result.counts, m.counts);
  result.trace.insert(result.trace.end(), m.trace.begin(), m.trace.end());
  for (auto& [site, c] : m.conflicts) result.conflicts.push_back(c);
  machine = nullptr;
  current = nullptr;
}
inline Result* launch(const Request& r) {
  auto* result = new Result;
  watch_for_crashes(r);
  std::atomic<uint32_t> next{0};
  std::atomic<bool> failed{false};
  uint32_t clusters = r.grid[0] * r.grid[1] * r.grid[2] / r.cluster;
  std::vector<std::thread> helpers;
  for (uint32_t i = 1; i < std::min(r.threads, clusters); ++i)
    helpers.emplace_back([&] { work(r, *result, next, clusters, failed); });
  work(r, *result, next, clusters, failed);
  for (std::thread& h : helpers) h.join();
  auto before = [](const Record& a, const Record& b) { return a.block < b.block; };
  faulty = nullptr;
  std::stable_sort(result->trace.begin(), result->trace.end(), before);
  return result;
}

}  // namespace emu
