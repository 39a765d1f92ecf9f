// A CUDA thread's own stack, and the switch between two of them.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>

#if defined(__x86_64__) && !defined(EMU_UCONTEXT)
extern "C" void emu_switch(void** save, void* load);
asm(R"(
.text
.p2align 4
.local emu_switch
.type emu_switch,@function
emu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emu_switch, .-emu_switch
)");

namespace emu {
struct Fiber {
  void* stack_pointer = nullptr;

  void start(uint8_t* stack, size_t bytes, void (*entry)()) {
    // The entry finds the stack as a call leaves it: 16-byte aligned before the return address.
    void** top = reinterpret_cast<void**>(stack + bytes - 64);
    *--top = nullptr;
    *--top = reinterpret_cast<void*>(entry);
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    stack_pointer = top;
  }
  static void change(Fiber& from, Fiber& to) { emu_switch(&from.stack_pointer, to.stack_pointer); }
};
}  // namespace emu
#else  // portable, and slower: each switch is two system calls
#include <ucontext.h>
namespace emu {
struct Fiber {
  ucontext_t context;

  void start(uint8_t* stack, size_t bytes, void (*entry)()) {
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = bytes;
    context.uc_link = nullptr;
    makecontext(&context, entry, 0);
  }
  static void change(Fiber& from, Fiber& to) { swapcontext(&from.context, &to.context); }
};
}  // namespace emu
#endif

namespace emu {
// Stacks of all threads of a cluster, one after another.  Only touched pages take memory.
struct Stacks {
  static constexpr size_t kBytes = 256 << 10;
  uint8_t* base = nullptr;
  size_t bytes = 0;

  explicit Stacks(size_t threads) : bytes(threads * kBytes) {
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    base = static_cast<uint8_t*>(p);
  }
  ~Stacks() { munmap(base, bytes); }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  uint8_t* of(size_t thread) const { return base + thread * kBytes; }
};
}  // namespace emu
