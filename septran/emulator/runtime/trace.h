// The trace: what each engine and each warp did, in emulated steps.
#pragma once
#include "accesses.h"

namespace emu {

// Numbers as in ../trace.py.
enum Command : int32_t {
  kTmaLoad, kTmaStore, kBulkLoad, kBulkStore, kWgmma, kMma, kWaitMbarrier, kWaitBlock,
  kWaitNamed, kWaitCluster, kWaitCopies, kWaitStores, kWaitWgmma, kThreads
};
enum Queue : int32_t { kCopyEngine, kTensorCore, kFirstWarp };

// Steps that a unit needs; rough, they order a timeline and promise no time.
constexpr uint64_t kCopyLatency = 500, kCopyBytes = 32, kFlops = 4096;

inline void record(const Record& r) {
  if (machine->trace.size() < machine->request.trace) machine->trace.push_back(r);
}
inline bool tracing() { return machine->request.trace; }
inline Record blank(const Thread& t, Command command, int32_t queue) {
  Record r{};
  r.site = uint64_t(t.site);
  r.command = command;
  r.queue = queue;
  r.block = int32_t(t.block->number);
  r.warp = int32_t(t.warp->number);
  return r;
}
// Work of an engine from when it is free; gives when it ends.
inline uint64_t engine_work(Thread& t, Command command, uint64_t& free, uint64_t bytes,
                            uint64_t flops, uint64_t busy, uint64_t latency) {
  uint64_t start = std::max(t.time, free);
  free = start + busy;
  uint64_t end = start + busy + latency;
  if (tracing()) {
    Record r = blank(t, command, flops ? kTensorCore : kCopyEngine);
    r.issue = int64_t(t.time);
    r.start = int64_t(start);
    r.end = int64_t(end);
    r.bandwidth = int64_t(start - t.time);
    r.bytes = int64_t(bytes);
    r.flops = int64_t(flops);
    record(r);
  }
  return end;
}
// What the threads of a warp did since it last met, and that it then waited until `now`.
inline void waited(Thread& t, Command command, uint64_t now, int64_t Record::*cause) {
  uint64_t before = t.time;
  t.time = std::max(t.time, now) + 1;
  if (!tracing() || t.lane) {
    t.busy_since = t.time;
    t.busy_bytes = 0;
    return;
  }
  if (before > t.busy_since) {
    Record r = blank(t, kThreads, kFirstWarp + int32_t(t.warp->number));
    r.issue = r.start = int64_t(t.busy_since);
    r.end = int64_t(before);
    r.bytes = int64_t(t.busy_bytes);
    record(r);
  }
  if (t.time > before + 1) {
    Record r = blank(t, command, kFirstWarp + int32_t(t.warp->number));
    r.issue = r.start = int64_t(before);
    r.end = int64_t(t.time);
    r.*cause = r.end - r.start;
    record(r);
  }
  t.busy_since = t.time;
  t.busy_bytes = 0;
}

}  // namespace emu
