// Barriers of blocks and clusters, fences, and registers.
#pragma once
#include "warps.h"

namespace emu {

// A phase of a barrier is over: all that arrived is known to who waits.
inline void complete(NamedBarrier& b) {
  b.completed = machine->cluster.join(b.completed, b.arriving.take());
  b.completed_time = b.time;
  b.arrived = 0;
  b.generation++;
  b.result = b.votes;
  b.votes = 0;
  machine->counts.barriers++;
  wake(b.waiters);
}
inline void pass(Thread& t, NamedBarrier& b, uint32_t generation, Waiting waiting, Command command) {
  wait_until(waiting, b.waiters, [&] { return b.generation != generation; });
  acquire(t, b.completed);
  waited(t, command, b.completed_time, &Record::sync);
}
inline void arrive_at(Thread& t, NamedBarrier& b) {
  release(t, b.arriving);
  b.time = std::max(b.time, t.time);
  b.site = t.site;
  Warp& w = *t.warp;
  if (++w.at_barrier >= uint32_t(__builtin_popcountll(w.live))) {
    w.at_barrier = 0;
    flush_conflicts(w);
  }
}

inline uint32_t whole_block(Thread& t, const char* what, bool predicate) {
  NamedBarrier& b = t.block->whole;
  uint32_t generation = b.generation;
  arrive_at(t, b);
  b.votes += predicate;
  if (++b.arrived == t.block->live) complete(b);
  pass(t, b, generation, {what}, kWaitBlock);
  return b.result;
}
void block_sync() {
  EMU_ENTER;
  whole_block(t, "__syncthreads", false);
}
uint32_t block_vote(bool predicate) {
  EMU_ENTER;
  return whole_block(t, "__syncthreads with a vote", predicate);
}

inline NamedBarrier& named(Thread& t, uint32_t id, uint32_t threads) {
  if (id > 15) fail(Fault::misuse, text("barrier %u: a block has 16", id));
  if (!threads || threads % 32)
    fail(Fault::misuse, text("barrier %u for %u threads: not a multiple of 32", id, threads));
  NamedBarrier& b = t.block->named[id];
  if (!b.arrived) b.threads = threads;
  if (b.threads != threads)
    fail_at(Fault::counts, t,
            text("barrier %u for %u threads, while others came to it for %u <site 1>", id, threads,
                 b.threads),
            {t.site, b.site});
  return b;
}
// The warp comes as a whole, and counts for 32 threads.
inline void come(Thread& t, const char* what, uint32_t id, uint32_t threads, uint32_t* generation) {
  *generation = t.block->named[id & 15].generation;
  meet(t, what, kFull, &t, [id, threads](void** all, Lanes lanes) {
    Thread& first = *static_cast<Thread*>(all[first_of(lanes)]);
    NamedBarrier& b = named(first, id, threads);
    for (uint32_t l = 0; l < 32; ++l)
      if (lanes >> l & 1) arrive_at(*static_cast<Thread*>(all[l]), b);
    b.arrived += 32;
    if (b.arrived >= b.threads) complete(b);
  });
}
void bar_sync(uint32_t id, uint32_t threads) {
  EMU_ENTER;
  named(t, id, threads);
  uint32_t generation;
  come(t, "bar.sync", id, threads, &generation);
  pass(t, t.block->named[id], generation, {"bar.sync", t.block, id, threads}, kWaitNamed);
}
void bar_arrive(uint32_t id, uint32_t threads) {
  EMU_ENTER;
  named(t, id, threads);
  uint32_t generation;
  come(t, "bar.arrive", id, threads, &generation);
}

inline void complete_cluster(Cluster& c) {
  c.completed = c.join(c.completed, c.arriving.take());
  c.phase_time = c.arrive_time;
  c.arrived = 0;
  c.phase++;
  for (Thread& other : c.threads)
    if (other.waiting.what && !strcmp(other.waiting.what, "barrier.cluster.wait")) make_ready(&other);
}
void cluster_arrive(bool releases) {
  EMU_ENTER;
  Cluster& c = machine->cluster;
  t.cluster_phase = c.phase + 1;
  if (releases) release(t, c.arriving);
  else c.arriving.set_empty(machine->agent_limit);
  c.arrive_time = std::max(c.arrive_time, t.time);
  if (++c.arrived == c.live) complete_cluster(c);
}
void cluster_wait(bool acquires) {
  EMU_ENTER;
  Cluster& c = machine->cluster;
  if (!t.cluster_phase) fail(Fault::misuse, "barrier.cluster.wait without an arrive before it");
  while (c.phase < t.cluster_phase) {
    t.waiting = {"barrier.cluster.wait"};
    give_way();
  }
  t.waiting = {};
  t.cluster_passed = t.cluster_phase;
  t.cluster_phase = 0;
  if (acquires) acquire(t, c.completed);
  waited(t, kWaitCluster, c.phase_time, &Record::sync);
}

// ---------------------------------------------------------------- fences
inline void show_mbarriers(Thread& t) {
  for (auto& [address, b] : t.block->mbarriers)
    if (knows(t, b->initialiser, b->init_clock)) b->visible = true;
}
void fence_proxy_async() {
  EMU_ENTER;
  t.known = machine->cluster.join.fence(t.known);
  t.fenced = t.clock++;
  show_mbarriers(t);
}
// PTX ISA, "fence.mbarrier_init.release.cluster": what this thread has initialised is known after
// the cluster's next barrier, even where its arrival is .relaxed.
void fence_barrier_init() {
  EMU_ENTER;
  show_mbarriers(t);
  uint32_t open = (t.cluster_phase ? t.cluster_phase : machine->cluster.phase) + 1;
  for (auto& [address, b] : t.block->mbarriers)
    if (!b->published && b->initialiser == t.id) b->published = open;
}

// ---------------------------------------------------------------- registers
// PTX ISA, setmaxnreg: a pool of registers is kept for each block. `.dec` gives to it, `.inc`
// blocks until it has as many as the warp asks for. It begins empty: a block is launched with
// what its threads need then, and the rest of the multiprocessor's file is not its own.
inline bool give_registers(Warp& w, uint32_t registers) {
  Block& b = *w.block;
  if (registers > w.registers + b.pool / 32) return false;
  b.pool += 32 * (w.registers - registers);  // may be negative, and wraps to the right sum
  w.registers = registers;
  return true;
}
void set_max_registers(uint32_t registers, bool more) {
  EMU_ENTER;
  const char* what = more ? "setmaxnreg.inc" : "setmaxnreg.dec";
  if (registers < 24 || registers > 256 || registers % 8)
    fail(Fault::misuse, text("%s %u: not a multiple of 8 from 24 to 256", what, registers));
  meet(t, what, kFull, &t, [=](void** all, Lanes lanes) {
    Warp& w = *static_cast<Thread*>(all[first_of(lanes)])->warp;
    // ptxas launches a kernel with no more registers than its largest `.inc` asks for.
    if (more && w.registers == machine->request.registers) w.registers = std::min(w.registers, registers);
    if (more ? registers < w.registers : registers > w.registers)
      fail(Fault::misuse, text("%s to %u registers by a warp that has %u", what, registers, w.registers));
    if (more) return;
    give_registers(w, registers);
    wake(w.block->pool_waiters);
  });
  Warp& w = *t.warp;
  Waiting waiting{what, t.block};
  waiting.registers = registers;
  if (more)
    wait_until(waiting, t.block->pool_waiters,
               [&] { return w.registers == registers || give_registers(w, registers); });
}
void sleep() {
  EMU_ENTER;
  t.time += 32;
  make_ready(&t);
  give_way();
}
void trap() {
  EMU_ENTER;
  fail(Fault::misuse, "the kernel traps");
}
uint64_t clock() {
  EMU_ENTER;
  return t.time++;
}

}  // namespace emu
