// What Python passes and reads: plain C structures, as in ../native.py.
#pragma once
#include <cstdint>

namespace emu {

enum class Fault : int32_t {
  none, bounds, alignment, uninitialised, unfinished, proxy, registers, race, deadlock, counts,
  misuse, unmodelled
};

enum Checks : uint32_t {
  kUnwritten = 1,  // operands of tensor cores that nobody wrote are an error
  kDocumented = 2,  // so is what documents ask for, and kernels that are right on GPUs leave out
};
struct Buffer {
  uint64_t address, bytes;
};
struct Request {
  void (*entry)(void**);
  void** arguments;
  uint32_t grid[3], block[3];
  uint32_t cluster, shared_bytes, shared_limit;
  int32_t mode;  // 0 eager, 1 late, 2 random
  uint64_t seed;
  uint32_t threads;  // of the operating system
  uint32_t trace;    // records kept at most
  uint32_t checks;   // Checks, or-ed
  uint32_t registers;  // of a thread at launch
  uint32_t buffers;
  const Buffer* buffer;
  uint64_t memory, memory_bytes;  // in which all buffers lie
  uint64_t crash;  // where a `Crash` is left; 0 for nowhere
  uint64_t image;  // where the library was loaded
  int64_t number;  // of the launch in its call
};
struct Record {
  uint64_t site;
  int32_t command, queue, block, warp;
  int64_t issue, start, end, bytes, flops, barrier, bandwidth, sync;
};
struct Conflict {
  uint64_t site;
  uint64_t requests, wavefronts, ideal;
};
struct Counts {
  uint64_t steps, tma_loads, tma_load_bytes, tma_stores, tma_store_bytes, copies, copy_bytes,
      wgmma, mma, flops, global_load_bytes, global_store_bytes, shared_loads, shared_stores,
      barriers, switches, poisoned;
};
struct Crash {  // what a signal leaves of the process
  uint64_t magic;
  int64_t launch, block, thread;
  uint64_t image, fault, site;
};
constexpr uint64_t kCrashMagic = 0x5e97a4dead;
struct TensorMap {
  uint64_t base, extent[5], stride[5];
  uint32_t box[5];
  uint8_t rank, element, swizzle, type;  // swizzle in units of 32 bytes, type a Type
  uint32_t magic, spare[3];
};
static_assert(sizeof(TensorMap) == 128, "as the hardware's");
constexpr uint32_t kTensorMapMagic = 0x7e45a9b1;

}  // namespace emu
