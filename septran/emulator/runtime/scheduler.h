// Which thread runs next, and when what is in flight lands.
#pragma once
#include "faults.h"

namespace emu {

inline bool later(const Thread* a, const Thread* b) {
  return a->time != b->time ? a->time > b->time : a->id > b->id;
}
inline void make_ready(Thread* t) {
  if (t->ready || t->done) return;
  t->ready = true;
  machine->asked = 0;
  auto& ready = machine->ready;
  ready.push_back(t);
  if (!machine->random_order()) std::push_heap(ready.begin(), ready.end(), later);
}
inline Thread* take_ready() {
  auto& ready = machine->ready;
  if (ready.empty()) return nullptr;
  if (machine->random_order())
    std::swap(ready[machine->random() % ready.size()], ready.back());
  else
    std::pop_heap(ready.begin(), ready.end(), later);
  Thread* t = ready.back();
  ready.pop_back();
  t->ready = false;
  return t;
}
inline void run(Fiber& from, Thread* next) {
  machine->counts.switches++;
  machine->running = current = next;
  Fiber::change(from, next->fiber);
}
// Gives way; comes back when somebody has made this thread ready.
inline void give_way() {
  Thread* me = current;
  auto& in_flight = machine->cluster.in_flight;
  bool landing = machine->random_order() && !in_flight.empty() && machine->random() % 8 == 0;
  Thread* next = landing ? nullptr : take_ready();
  if (next == me) return;
  if (next) {
    run(me->fiber, next);
  } else {
    machine->running = nullptr;
    Fiber::change(me->fiber, machine->scheduler);
  }
}
template <class F>
inline void wait_until(Waiting waiting, std::vector<Thread*>& waiters, F condition) {
  Thread* me = current;
  me->since = 0;
  while (!condition()) {
    me->waiting = waiting;
    waiters.push_back(me);
    give_way();
  }
  me->waiting = {};
}
inline void wake(std::vector<Thread*>& waiters) {
  for (Thread* t : waiters) make_ready(t);
  waiters.clear();
}
// Carries out what is asynchronous: now, or when nothing else can go on, or some time before.
inline void submit(std::function<void()> land) {
  if (machine->eager())
    land();
  else
    machine->cluster.in_flight.push_back({std::move(land)});
}
inline void land_one() {
  auto& in_flight = machine->cluster.in_flight;
  size_t i = machine->random_order() ? machine->random() % in_flight.size() : 0;
  auto land = std::move(in_flight[i].land);
  in_flight.erase(in_flight.begin() + long(i));
  land();
}

inline std::string describe(const Mbarrier& b) {
  std::string s = text("phase %u, %u of %u arrivals missing", b.phase, b.pending, b.expected);
  if (b.bytes > 0) s += text(", %lld bytes still expected", (long long)b.bytes);
  if (b.bytes < 0) s += text(", %lld bytes more arrived than were expected", -(long long)b.bytes);
  return s;
}
inline std::string describe(const Waiting& w) {
  std::string s = w.what ? w.what : "nothing";
  if (!w.block) return s;
  if (w.registers)
    return s + text(" to %u registers a thread (the block's pool has %u left of what it was "
                    "launched with, %u a thread)", w.registers, w.block->pool, machine->request.registers);
  auto it = w.block->mbarriers.find(w.address);
  if (it != w.block->mbarriers.end())
    return s + text(" for parity %lld of the mbarrier at ", (long long)w.detail) +
           place(*w.block, w.address) + " (" + describe(*it->second) + ")";
  if (w.address < 16 && w.detail > 0) {
    const NamedBarrier& n = w.block->named[w.address];
    return s + text(" of barrier %u (%u of %lld threads are there)", w.address, n.arrived,
                    (long long)w.detail);
  }
  return s;
}
[[noreturn]] inline void deadlock() {
  struct Group {
    std::string what;
    Site site;
    uint32_t block, first, last, threads;
  };
  std::vector<Group> groups;
  const Thread* one = nullptr;
  for (const Thread& t : machine->cluster.threads) {
    if (t.done) continue;
    if (!one) one = &t;
    std::string what = describe(t.waiting);
    auto same = [&](const Group& g) {
      return g.what == what && g.site == t.site && g.block == t.block->number;
    };
    auto it = std::find_if(groups.begin(), groups.end(), same);
    if (it == groups.end())
      groups.push_back({what, t.site, t.block->number, t.number, t.number, 1});
    else
      it->last = t.number, it->threads++;
  }
  std::string message = "the threads wait for each other, or for nobody";
  std::vector<Site> sites;
  for (const Group& g : groups) {
    message += text("\n  block %u, %u thread%s (%u to %u): ", g.block, g.threads,
                    g.threads == 1 ? "" : "s", g.first, g.last);
    message += g.what + text(" <site %zu>", sites.size());
    sites.push_back(g.site);
  }
  note(Fault::deadlock, one, message, sites);
  throw Stop();
}
// Runs all threads of the cluster to their end.
inline void run_cluster() {
  Cluster& c = machine->cluster;
  for (;;) {
    if (Thread* t = take_ready()) {
      run(machine->scheduler, t);
      if (machine->error.fault != Fault::none) throw Stop();
    }
    machine->running = nullptr;
    bool some = machine->random_order() && machine->random() % 2;
    if (!c.in_flight.empty() && (machine->ready.empty() || some)) land_one();
    else if (machine->ready.empty()) {
      if (!c.live) return;
      deadlock();
    }
  }
}

}  // namespace emu
