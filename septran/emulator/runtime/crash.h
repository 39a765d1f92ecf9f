// A fault of the host's processor in a kernel: where it was, written down before the process ends.
#pragma once
#include <signal.h>
#include <ucontext.h>

#include "hooks.h"

namespace emu {

inline const Request* faulty = nullptr;  // what runs now

inline uint64_t counter(void* context) {
  [[maybe_unused]] auto& machine_context = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__) && defined(__linux__)
  return uint64_t(machine_context.gregs[REG_RIP]);
#elif defined(__aarch64__) && defined(__linux__)
  return machine_context.pc;
#else
  return 0;
#endif
}
// Only what a signal handler may do: stores to memory, and a signal to the process itself.
inline void on_signal(int signal, siginfo_t*, void* context) {
  if (const Request* r = faulty) {
    const Thread* t = current;
    *reinterpret_cast<Crash*>(r->crash) = {
        kCrashMagic, r->number, t ? int64_t(t->block->number) : -1, t ? int64_t(t->number) : -1,
        r->image, counter(context) + 1, t ? uint64_t(t->site) : 0};
  }
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}
inline void watch_for_crashes(const Request& r) {
  if (!r.crash) return;
  faulty = &r;
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::sigaction(s, &action, nullptr);
}
// A stack for the handler, as a kernel's own may be what is used up.
struct SignalStack {
  std::vector<uint8_t> room;
  explicit SignalStack(const Request& r) {
    if (!r.crash) return;
    room.resize(1 << 16);
    stack_t stack = {};
    stack.ss_sp = room.data();
    stack.ss_size = room.size();
    ::sigaltstack(&stack, nullptr);
  }
  ~SignalStack() {
    stack_t off = {};
    off.ss_flags = SS_DISABLE;
    if (!room.empty()) ::sigaltstack(&off, nullptr);
  }
};

}  // namespace emu
