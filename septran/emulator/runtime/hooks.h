// The compiler calls these before every access of a kernel to memory (-fsanitize=thread).
#pragma once
#include "places.h"

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
#define EMU_HOOK(name, bytes, how, aligned)                                              \
  void name(void* p) {                                                                   \
    emu::on_access(uintptr_t(p), bytes, emu::Access::how, aligned, __builtin_return_address(0)); \
  }
#define EMU_HOOKS(bytes)                                       \
  EMU_HOOK(__tsan_read##bytes, bytes, load, true)              \
  EMU_HOOK(__tsan_write##bytes, bytes, store, true)            \
  EMU_HOOK(__tsan_unaligned_read##bytes, bytes, load, false)   \
  EMU_HOOK(__tsan_unaligned_write##bytes, bytes, store, false) \
  EMU_HOOK(__tsan_volatile_read##bytes, bytes, load, true)     \
  EMU_HOOK(__tsan_volatile_write##bytes, bytes, store, true)
EMU_HOOKS(1)
EMU_HOOKS(2)
EMU_HOOKS(4)
EMU_HOOKS(8)
EMU_HOOKS(16)
#undef EMU_HOOKS
#undef EMU_HOOK
void __tsan_read_range(void* p, size_t bytes) {
  emu::on_access(uintptr_t(p), bytes, emu::Access::load, false, __builtin_return_address(0));
}
void __tsan_write_range(void* p, size_t bytes) {
  emu::on_access(uintptr_t(p), bytes, emu::Access::store, false, __builtin_return_address(0));
}
void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
  emu::on_access(uintptr_t(from), bytes, emu::Access::load, false, __builtin_return_address(0));
  emu::on_access(uintptr_t(to), bytes, emu::Access::store, false, __builtin_return_address(0));
  return memcpy(to, from, bytes);
}
void* __tsan_memset(void* to, int value, size_t bytes) {
  emu::on_access(uintptr_t(to), bytes, emu::Access::store, false, __builtin_return_address(0));
  return memset(to, value, bytes);
}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}
}
