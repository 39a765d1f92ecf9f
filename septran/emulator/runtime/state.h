// The state of the emulated machine: threads, warps, blocks, a cluster.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "../device/calls.h"
#include "../device/numbers.h"
#include "conflicts.h"
#include "fiber.h"
#include "interface.h"
#include "knowledge.h"
#include "shadow.h"

namespace emu {

constexpr uint32_t kWindow = 1 << 18;  // bytes of a block's shared window
// A shared address has its block's rank in the cluster in bits 24 and up, a block's own included:
// `cvta` and `mov` of a variable are compiled to SR_CgaCtaId << 24 | offset on sm_90.
constexpr uint32_t kRankShift = 24;
constexpr uint32_t kRegisters = 65536;  // of a multiprocessor, and so of a block at most
constexpr uint32_t kReserved = 1024;   // the system's, at the start of the window
constexpr uint64_t kPatience = 1ull << 26;  // accesses without a barrier: a thread spins

struct Block;
struct Cluster;
struct Warp;
struct Machine;
using Site = void*;

// Why a thread does not go on; all texts are constants.
struct Waiting {
  const char* what = nullptr;
  Block* block = nullptr;
  uint32_t address = 0;
  int64_t detail = -1;
  uint32_t registers = 0;  // that a warp asks for, each thread's
};
struct Watch {  // accumulators of a wgmma in flight
  uintptr_t low, high;
  uint64_t group;
  Site site;
};
struct Span {
  uintptr_t low, high;
};
struct Pending {  // asynchronous work that is grouped and waited for in order
  std::function<void()> land;
  uint64_t group;
  bool landed;
};
struct Tentative {  // a write to bytes that another thread wrote: fine if the value is equal
  uint8_t* at = nullptr;
  uint32_t bytes = 0;
  uint8_t before[16];
  Site site = nullptr, other_site = nullptr;
  uint32_t other = 0;
};

// What a thread is called as a reader at one site, and the last set it was added to.
struct Reading {
  Site site = nullptr;
  uint32_t clock = 0, token = 0, from = ~0u, to = 0;
  uint16_t number = 0;
};
constexpr size_t kReadings = 64;

struct Thread {
  Fiber fiber;
  uint8_t* stack;
  Block* block;
  Warp* warp;
  uint32_t id, number, lane;  // in the cluster, in the block, in the warp
  Dim3 index;
  bool done = false, ready = false;
  Waiting waiting;
  Site site = nullptr;
  Known known;
  uint32_t clock = 1, fenced = 0;
  uint64_t time = 0, since = 0, busy_since = 0, busy_bytes = 0;
  Reading readings[kReadings];
  uint32_t set_ok = 0;
  Tentative tentative;
  std::vector<Watch> watches;
  std::vector<Span> arrays;  // its own, the innermost last
  bool wgmma_fenced = false;
  std::vector<uint64_t> written;  // a bit for each 4 bytes of the stack since the last fence
  uint32_t written_low = 0, written_high = 0;
  std::deque<Pending> copies, stores;
  uint64_t copy_group = 1, store_group = 1;  // the open ones
  uint32_t store_agent = 0;
  uint32_t cluster_phase = 0, cluster_passed = 0;  // arrived for, and waited for last
};

struct Rendezvous {  // of lanes that execute one instruction together
  const char* what = nullptr;
  Lanes mask = 0, arrived = 0;
  void* payload[kLanes] = {};
  Thread* waiting[kLanes] = {};
  std::function<void(void**, Lanes)> act;
};
struct WgmmaWork {
  std::function<void()> land;
  uint64_t group, start, end, flops;
  Site site;
  bool landed;
};
struct Warp {
  Lanes live = 0;
  uint32_t number, at_barrier = 0;
  Block* block;
  Thread* thread[kLanes] = {};
  std::vector<Rendezvous> open;
  std::deque<WgmmaWork> wgmma;
  uint64_t wgmma_group = 1;
  uint32_t wgmma_agent = 0, registers = 0;
  ConflictCounter conflicts;
};

struct Mbarrier {
  Block* block;
  uint32_t address, expected, pending, phase = 0, agent, initialiser, init_clock;
  int64_t bytes = 0;
  bool visible = false;  // to the copy engine
  uint32_t published = 0;  // the phase of the cluster's barrier after which all know of it; 0: none
  Site site;
  Gathering arriving;
  Known completed;
  std::vector<Thread*> waiters;
  uint64_t time = 0, completed_time = 0;
};
struct NamedBarrier {
  uint32_t threads = 0, arrived = 0, generation = 0;
  uint64_t time = 0, completed_time = 0;
  Site site = nullptr;
  Gathering arriving;
  Known completed;
  std::vector<Thread*> waiters;
  uint32_t votes = 0, result = 0;
};

struct Block {
  uint32_t rank;
  Dim3 index;
  Cluster* cluster;
  uint8_t* arena;  // so that arena + address is where a shared address is
  Cell* cells;     // likewise
  uint32_t dynamic_base = 0, static_end = 0, static_base = 0;
  std::map<int, uint32_t> statics;
  std::vector<Warp> warps;
  NamedBarrier named[16], whole;
  std::map<uint32_t, std::unique_ptr<Mbarrier>> mbarriers;
  uint32_t live = 0, number;
  uint32_t pool = 0;  // registers that setmaxnreg has given back
  std::vector<Thread*> pool_waiters;
};

enum class AgentKind : uint8_t { thread, copies, mbarrier, wgmma, stores };
struct Agent {
  AgentKind kind;
  Thread* thread;  // whose; of a warp its first; null for an mbarrier
};
struct InFlight {
  std::function<void()> land;
};

struct Cluster {
  std::vector<Block> blocks;
  std::vector<Thread> threads;
  uint8_t* arenas = nullptr;
  std::vector<Agent> agents;
  Readers readers;
  std::vector<InFlight> in_flight;
  uint32_t arrived = 0, phase = 0, live = 0, number;
  uint64_t arrive_time = 0, phase_time = 0;
  Gathering arriving;
  Known completed;
  uint64_t copy_engine_free = 0, tensor_free = 0;
  Joiner join;
};

struct Error {
  Fault fault = Fault::none;
  std::string message;
  std::vector<Site> sites;  // the message names them as <site 0>, <site 1>...
  uint32_t block = 0, thread = 0;
  bool has_thread = false;
};

// What one thread of the operating system emulates with.
struct Machine {
  const Request& request;
  std::unique_ptr<Stacks> stacks;
  Cluster cluster;
  Fiber scheduler;
  Thread* running = nullptr;
  std::vector<Thread*> ready;  // a heap by time, or a bag
  std::mt19937_64 random;
  Error error;
  Counts counts{};
  std::vector<Record> trace;
  std::unordered_map<Site, Conflict> conflicts;
  std::unordered_map<Site, uint16_t> site_numbers;
  std::vector<Site> sites;
  std::vector<uint8_t> arena_memory;
  std::vector<Cell> cell_memory;
  uint64_t asked = 0;  // times that threads asked in vain since another was made ready
  uintptr_t image_low = 0, image_high = 0;
  size_t agent_limit = 0;

  explicit Machine(const Request& r) : request(r) {}
  bool eager() const { return request.mode == 0; }
  bool random_order() const { return request.mode == 2; }
  bool flip() { return random() & 1; }
};

extern thread_local Machine* machine __attribute__((tls_model("initial-exec")));
extern thread_local Thread* current __attribute__((tls_model("initial-exec")));

}  // namespace emu
