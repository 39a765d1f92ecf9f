// Where a thread is, and where shared memory is.
#pragma once
#include "mfma.h"
#include "wgmma.h"

namespace emu {

Dim3 thread_index() { return current->index; }
Dim3 block_index() { return current->block->index; }
Dim3 block_size() {
  const uint32_t* b = machine->request.block;
  return {b[0], b[1], b[2]};
}
Dim3 grid_size() {
  const uint32_t* g = machine->request.grid;
  return {g[0], g[1], g[2]};
}
uint32_t special(Special which) {
  const Request& r = machine->request;
  const Thread& t = *current;
  switch (which) {
    case Special::lane: return t.lane;
    case Special::warp: return t.warp->number;
    case Special::warps: return uint32_t(t.block->warps.size());
    case Special::block_rank: return t.block->rank;
    case Special::cluster_blocks: return r.cluster;
    case Special::cluster: return t.block->index.x / r.cluster;
    case Special::clusters: return r.grid[0] / r.cluster;
    case Special::sm: return t.block->number % 132;
    case Special::shared_bytes: return r.shared_bytes;
  }
  return 0;
}

void unmodelled(const char* what) {
  EMU_ENTER;
  fail(Fault::unmodelled, std::string(what) + " is not modelled");
  __builtin_unreachable();
}
// Dynamic shared memory is aligned as declared and not better: twice that would hide mistakes.
void* dynamic_shared(size_t align) {
  Block& b = *current->block;
  uint32_t base = kReserved + (align < kReserved ? uint32_t(align) : 0);
  if (align < 16) base = kReserved + 16;
  if (b.dynamic_base && b.dynamic_base != base)
    fail(Fault::misuse, "dynamic shared memory is declared twice with different alignments");
  b.dynamic_base = base;
  return b.arena + base;
}
void* static_shared(int id, size_t bytes, size_t align) {
  Block& b = *current->block;
  auto [it, fresh] = b.statics.emplace(id, 0);
  if (fresh) {
    if (!b.static_base) b.static_base = b.static_end = kReserved + 2048 + (machine->request.shared_bytes + 1023) / 1024 * 1024;
    uint32_t at = uint32_t((b.static_end + align - 1) / align * align);
    it->second = at;
    b.static_end = at + uint32_t(bytes);
    uint32_t total = machine->request.shared_bytes + b.static_end - b.static_base;
    if (b.static_end > kWindow || total > machine->request.shared_limit)
      fail(Fault::bounds, text("the kernel needs %u bytes of shared memory; a block has %u", total,
                               machine->request.shared_limit));
  }
  return b.arena + it->second;
}
uint32_t shared_address(const void* pointer) {
  EMU_ENTER;
  Cluster& c = machine->cluster;
  uintptr_t offset = uintptr_t(pointer) - uintptr_t(c.arenas);
  if (offset >= c.blocks.size() * kWindow)
    fail(Fault::bounds, "the address of something that is not in shared memory is taken as one");
  uint32_t rank = uint32_t(offset / kWindow), at = uint32_t(offset % kWindow);
  return at | rank << kRankShift;
}
// PTX's registers are virtual, and compilers put moves into accumulators behind wgmma.fence (nvcc
// does): ptxas gives them the same register, or moves before the fence. So a move does not count as
// the access that the fence must follow; while a wgmma uses the register it is forbidden all the same.
void register_moved(void* place) {
  EMU_ENTER;
  check_watches(t, uintptr_t(place), 4, Access::store, t.site);
}
// PTX ISA, "cvta": the generic address of a shared one.
void* shared_pointer(uint32_t address) {
  EMU_ENTER;
  return block_of(t, address).arena + local(address);
}
uint32_t rank_of(uint32_t address) {
  EMU_ENTER;
  return block_of(t, address).rank;
}
bool in_space(uint64_t pointer, Space space) {
  Cluster& c = machine->cluster;
  uint64_t offset = pointer - uint64_t(c.arenas);
  bool shared = offset < c.blocks.size() * kWindow;
  bool stack = pointer - uint64_t(current->stack) < Stacks::kBytes;
  switch (space) {
    case Space::shared:
    case Space::shared_cta: return shared && offset / kWindow == current->block->rank;
    case Space::shared_cluster: return shared;
    case Space::local: return stack;
    case Space::global: return !shared && !stack;
  }
  return false;
}
uint32_t map_rank(uint32_t address, uint32_t rank) {
  EMU_ENTER;
  if (rank >= machine->cluster.blocks.size())
    fail(Fault::misuse, text("mapa to rank %u of %zu blocks", rank, machine->cluster.blocks.size()));
  return local(address) | rank << kRankShift;
}
uint64_t map_rank_generic(uint64_t pointer, uint32_t rank) {
  uint32_t address = map_rank(shared_address(byte(pointer)), rank);
  return uint64_t(machine->cluster.blocks[rank].arena + local(address));
}

inline uint8_t* shared_access(Thread& t, uint32_t address, size_t bytes, Access how) {
  Block& b = block_of(t, address);
  uint32_t at = local(address);
  if (at % bytes) misaligned(t, at, bytes, how, t.site);
  on_shared(t, b, at, bytes, how, t.site);
  return b.arena + at;
}
void* shared_load(uint32_t address, size_t bytes) {
  EMU_ENTER;
  return shared_access(t, address, bytes, Access::load);
}
void* shared_store(uint32_t address, size_t bytes) {
  EMU_ENTER;
  return shared_access(t, address, bytes, Access::store);
}
void* shared_atomic(uint32_t address, size_t bytes) {
  EMU_ENTER;
  return shared_access(t, address, bytes, Access::atomic);
}
void* memory_load(const void* pointer, size_t bytes) {
  EMU_ENTER;
  on_access(uintptr_t(pointer), bytes, Access::load, true, t.site);
  return const_cast<void*>(pointer);
}
void* memory_store(void* pointer, size_t bytes) {
  EMU_ENTER;
  on_access(uintptr_t(pointer), bytes, Access::store, true, t.site);
  return pointer;
}
void* memory_atomic(void* pointer, size_t bytes) {
  EMU_ENTER;
  on_access(uintptr_t(pointer), bytes, Access::atomic, true, t.site);
  return pointer;
}

}  // namespace emu
