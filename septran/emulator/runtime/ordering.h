// Happens-before: what a thread gives to others at a barrier, and takes from them.
#pragma once
#include "scheduler.h"

namespace emu {

inline bool knows(const Thread& t, uint32_t agent, uint32_t clock) {
  return agent == t.id || t.known->seen[agent] >= clock;
}
inline bool has_fenced(const Thread& t, uint32_t agent, uint32_t clock) {
  return agent == t.id ? t.fenced >= clock : t.known->fenced[agent] >= clock;
}
inline void release(Thread& t, Gathering& to) {
  to.add(t.known, machine->cluster.join);
  to.set(t.id, t.clock, t.fenced);
  t.clock++;
}
inline void acquire(Thread& t, const Known& from) {
  t.known = machine->cluster.join(t.known, from);
}
inline void learn(Thread& t, uint32_t agent, uint32_t clock) {
  if (t.known->seen[agent] >= clock) return;
  if (t.known.use_count() > 1) t.known = std::make_shared<Knowledge>(*t.known);
  t.known->seen[agent] = clock;
}
inline uint32_t new_agent(AgentKind kind, Thread* thread) {
  auto& agents = machine->cluster.agents;
  if (agents.size() == machine->agent_limit)
    fail(Fault::unmodelled, "more mbarriers and engines at work than the emulator keeps apart");
  agents.push_back({kind, thread});
  return uint32_t(agents.size() - 1);
}
// What all lanes of a warp know together: who issues a warp's instruction.
struct Together {
  Known known;
  bool seen(uint32_t agent, uint32_t clock) const { return known->seen[agent] >= clock; }
  bool fenced(uint32_t agent, uint32_t clock) const { return known->fenced[agent] >= clock; }
};
inline Together together(const Warp& w) {
  Gathering all;
  for (Thread* t : w.thread)
    if (t && !t->done) {
      all.add(t->known, machine->cluster.join);
    }
  for (Thread* t : w.thread)
    if (t && !t->done) all.set(t->id, t->clock, t->fenced);
  return {all.take()};
}

}  // namespace emu
