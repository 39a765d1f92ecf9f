// Faults: what is said, about which thread, and how the emulation ends.
#pragma once
#include <cstdarg>
#include <cstdio>

#include "state.h"

namespace emu {

struct Stop {};  // unwinds the scheduler

inline std::string text(const char* format, ...) __attribute__((format(printf, 1, 2)));
inline std::string text(const char* format, ...) {
  char buffer[1024];
  va_list list;
  va_start(list, format);
  vsnprintf(buffer, sizeof buffer, format, list);
  va_end(list);
  return buffer;
}
inline std::string name(const Thread& t) {
  return text("thread %u (block %u, warp %u, lane %u)", t.number, t.block->number,
              t.warp->number, t.lane);
}
inline std::string name(const Agent& a) {
  switch (a.kind) {
    case AgentKind::thread: return name(*a.thread);
    case AgentKind::copies: return "a cp.async of " + name(*a.thread);
    case AgentKind::mbarrier: return "a copy of the copy engine";
    case AgentKind::wgmma:
      return text("a wgmma of warp %u (block %u)", a.thread->warp->number, a.thread->block->number);
    case AgentKind::stores: return "a bulk store of " + name(*a.thread);
  }
  return "";
}

// The address as users know it: bytes from the start of dynamic or static shared memory.
inline bool is_static(const Block& b, uint32_t address) {
  bool only = !machine->request.shared_bytes;
  return b.static_end > b.static_base && (only || address >= b.static_base);
}
inline std::string place(const Block& b, uint32_t address) {
  if (is_static(b, address)) 
    return text("byte %d of static shared memory", int(address) - int(b.static_base));
  return text("byte %d of dynamic shared memory", int(address) - int(b.dynamic_base));
}

inline void note(Fault fault, const Thread* t, std::string message, std::vector<Site> sites) {
  Error& e = machine->error;
  if (e.fault != Fault::none) return;
  e = {fault, std::move(message), std::move(sites)};
  if (t) {
    e.block = t->block->number;
    e.thread = t->number;
    e.has_thread = true;
  }
}
[[noreturn]] inline void stop() {
  if (!machine->running) throw Stop();
  for (;;) {
    Thread* t = machine->running;
    Fiber::change(t->fiber, machine->scheduler);
  }
}
// `sites[0]` is where the faulty instruction is.
[[noreturn]] inline void fail_at(Fault fault, const Thread& t, std::string message,
                                 std::vector<Site> sites) {
  note(fault, &t, std::move(message), std::move(sites));
  stop();
}
[[noreturn]] inline void fail(Fault fault, std::string message) {
  fail_at(fault, *current, std::move(message), {current->site});
}

}  // namespace emu
