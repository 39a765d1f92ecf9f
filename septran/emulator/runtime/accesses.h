// Every access to memory: bounds, alignment, who wrote, who read, who is in between.
#pragma once
#include "ordering.h"

namespace emu {

inline uint16_t number_of(Site site) {
  Machine& m = *machine;
  auto [it, fresh] = m.site_numbers.emplace(site, uint16_t(m.sites.size()));
  if (fresh) {
    if (m.sites.size() == 65535) fail(Fault::unmodelled, "more than 65535 accessing instructions");
    m.sites.push_back(site);
  }
  return it->second;
}
inline Reading& reading(Thread& t, Site site) {
  Reading& r = t.readings[uintptr_t(site) / 4 % kReadings];
  if (r.site != site) r = {site, 0, 0, ~0u, 0, number_of(site)};
  return r;
}
inline uint16_t number_of(Thread& t, Site site) { return reading(t, site).number; }
inline Site site_of(const Cell& c) { return machine->sites[c.site]; }

// ---------------------------------------------------------------- where an address is
inline bool inside(const Block& b, uint32_t address, uint64_t bytes) {
  uint64_t end = address + bytes;
  return (address >= b.dynamic_base && end <= b.dynamic_base + uint64_t(machine->request.shared_bytes)) ||
         (address >= b.static_base && end <= b.static_end);
}
inline void check_inside(const Thread& t, const Block& b, uint32_t address, uint64_t bytes,
                         const char* what, Site site) {
  if (inside(b, address, bytes)) return;
  fail_at(Fault::bounds, t,
          text("%s %llu bytes at ", what, (unsigned long long)bytes) + place(b, address) +
              text(", which has %u bytes", is_static(b, address) ? b.static_end - b.static_base
                                                                 : machine->request.shared_bytes),
          {site});
}
inline Block& block_of(const Thread& t, uint32_t address) {
  uint32_t rank = address >> kRankShift;
  auto& blocks = t.block->cluster->blocks;
  if (rank >= blocks.size())
    fail_at(Fault::bounds, t, text("a shared address names rank %u of a cluster of %zu blocks",
                                   rank, blocks.size()), {t.site});
  Block& b = blocks[rank];
  if (!b.live && &b != t.block)
    fail_at(Fault::bounds, t, text("shared memory of block %u, which has ended, is used", b.number),
            {t.site});
  return b;
}
inline uint32_t local(uint32_t address) { return address & (kWindow - 1); }
// The same where an instruction takes addresses of the block's own memory (shared::cta).
inline uint32_t own(const Thread& t, uint32_t address) {
  uint32_t rank = address >> kRankShift;
  if (rank != t.block->rank)
    fail_at(Fault::bounds, t, text("an instruction for a block's own shared memory gets an address "
                                   "of rank %u in the block of rank %u", rank, t.block->rank),
            {t.site});
  return local(address);
}

// ---------------------------------------------------------------- races
// The words for an access that is not ordered after what agent `other` did.
inline Fault unordered(const Agent& other, bool wrote, bool writes, std::string& message) {
  const char* verb = writes ? "written" : "read";
  switch (other.kind) {
    case AgentKind::mbarrier:
      message += text(" are %s while a copy of the copy engine may still be writing them: its "
                      "mbarrier has not been waited for", verb);
      return Fault::unfinished;
    case AgentKind::copies:
      message += text(" are %s while ", verb) + name(other) +
                 " may still be writing them: its group has not been waited for, or no barrier "
                 "follows the wait";
      return Fault::unfinished;
    case AgentKind::wgmma:
      message += text(" are %s while ", verb) + name(other) +
                 " may still be reading them: it has not been waited for";
      return Fault::unfinished;
    case AgentKind::stores:
      message += text(" are %s while ", verb) + name(other) +
                 " may still be reading them: no cp.async.bulk.wait_group.read in between";
      return Fault::unfinished;
    case AgentKind::thread: break;
  }
  message += text(" are %s without a barrier after ", verb) + name(other) +
             (wrote ? " wrote them" : " read them");
  return Fault::race;
}
[[noreturn]] inline void conflict(const Thread& t, const Block& b, uint32_t address, uint32_t bytes,
                                  uint32_t other, bool wrote, bool writes, Site site, Site before) {
  std::string message = text("%u byte%s from ", bytes, bytes == 1 ? "" : "s") + place(b, address);
  Fault fault = unordered(machine->cluster.agents[other], wrote, writes, message);
  fail_at(fault, t, message + " <site 1>", {site, before});
}
[[noreturn]] inline void uninitialised(const Thread& t, const Block& b, uint32_t address,
                                       uint32_t bytes, Site site) {
  fail_at(Fault::uninitialised, t,
          text("%u byte%s from ", bytes, bytes == 1 ? "" : "s") + place(b, address) +
              " are read, and nobody has written them",
          {site});
}
[[noreturn]] inline void barrier_as_data(const Thread& t, const Block& b, uint32_t address, Site site) {
  fail_at(Fault::misuse, t, "an mbarrier's memory is used as data: " + place(b, address), {site});
}

inline Reading& as_reader(Thread& t, Site site) {
  Reading& r = reading(t, site);
  if (r.clock != t.clock) {
    r.clock = t.clock;
    r.token = machine->cluster.readers.token({t.id, t.clock, r.number});
    r.from = ~0u;
  }
  return r;
}
inline void read_cells(Thread& t, Block& b, uint32_t address, uint32_t bytes, Site site) {
  Cell* cell = b.cells + address;
  Reading& r = as_reader(t, site);
  for (uint32_t i = 0; i < bytes; ++i) {
    Cell& c = cell[i];
    if (i && c.clock == cell[i - 1].clock && c.agent == cell[i - 1].agent &&
        c.readers == r.from && !(c.flags & kBarrier)) {
      c.readers = r.to;  // as the byte before it
      continue;
    }
    if (!c.clock) uninitialised(t, b, address + i, bytes - i, site);
    if (c.flags & kBarrier) barrier_as_data(t, b, address + i, site);
    if (!knows(t, c.agent, c.clock))
      conflict(t, b, address + i, bytes - i, c.agent, true, false, site, site_of(c));
    if (c.readers != r.from) {
      r.from = c.readers;
      r.to = machine->cluster.readers.with(
          c.readers, r.token, [&](const Reader& x) { return knows(t, x.agent, x.clock); });
    }
    c.readers = r.to;
  }
}
inline void check_readers(Thread& t, Block& b, uint32_t address, uint32_t bytes, const Cell& c,
                          Site site) {
  if (!c.readers || c.readers == t.set_ok) return;
  const Reader* r = machine->cluster.readers.unknown(
      c.readers, [&](const Reader& x) { return knows(t, x.agent, x.clock); });
  if (r) conflict(t, b, address, bytes, r->agent, false, true, site, machine->sites[r->site]);
  t.set_ok = c.readers;
}
// Two threads may write the same value; the new one is seen when the thread goes on.
inline void settle(Thread& t) {
  Tentative w = t.tentative;
  t.tentative.at = nullptr;
  if (!memcmp(w.at, w.before, w.bytes)) return;
  std::string message = text("%u byte%s of shared memory are written without a barrier after ",
                             w.bytes, w.bytes == 1 ? "" : "s") +
                        name(machine->cluster.agents[w.other]) + " wrote something else";
  fail_at(Fault::race, t, message + " <site 1>", {w.site, w.other_site});
}
inline void write_cells(Thread& t, Block& b, uint32_t address, uint32_t bytes, Site site,
                        bool atomic) {
  Cell* cell = b.cells + address;
  uint16_t number = number_of(t, site);
  uint32_t flags = atomic ? uint32_t(kAtomic) : 0;
  for (uint32_t i = 0; i < bytes; ++i) {
    Cell& c = cell[i];
    if (c.flags & kBarrier) barrier_as_data(t, b, address + i, site);
    if (c.clock && !knows(t, c.agent, c.clock) && !(atomic && c.flags & kAtomic)) {
      if (machine->cluster.agents[c.agent].kind != AgentKind::thread || atomic || bytes > 16)
        conflict(t, b, address + i, bytes - i, c.agent, true, true, site, site_of(c));
      if (!t.tentative.at) {
        t.tentative.at = b.arena + address;
        t.tentative.bytes = bytes;
        memcpy(t.tentative.before, b.arena + address, bytes);
        t.tentative.site = site;
        t.tentative.other_site = site_of(c);
        t.tentative.other = c.agent;
      }
    }
    check_readers(t, b, address + i, bytes - i, c, site);
    c = {t.clock, uint16_t(t.id), number, 0, flags};
  }
}

// ---------------------------------------------------------------- accesses by threads
enum class Access { load, store, atomic };
inline const char* verb(Access a) {
  return a == Access::load ? "a load of" : a == Access::store ? "a store of" : "an atomic access to";
}
inline void on_shared(Thread& t, Block& b, uint32_t address, uint64_t bytes, Access how, Site site) {
  check_inside(t, b, address, bytes, verb(how), site);
  t.warp->conflicts.record(site, t.lane, address, uint32_t(std::min<uint64_t>(bytes, 16)));
  t.time++;
  if (how == Access::load) {
    machine->counts.shared_loads++;
    read_cells(t, b, address, uint32_t(bytes), site);
  } else {
    machine->counts.shared_stores++;
    write_cells(t, b, address, uint32_t(bytes), site, how == Access::atomic);
  }
}
constexpr uint64_t kNear = 1 << 16;  // bytes from an array that are its overrun
inline void on_global(Thread& t, uintptr_t address, uint64_t bytes, Access how, Site site) {
  const Request& r = machine->request;
  const Buffer* nearest = nullptr;
  for (uint32_t i = 0; i < r.buffers; ++i) {
    const Buffer& b = r.buffer[i];
    if (address >= b.address && address + bytes <= b.address + b.bytes) {
      t.time++;
      t.busy_bytes += bytes;
      (how == Access::load ? machine->counts.global_load_bytes
                           : machine->counts.global_store_bytes) += bytes;
      return;
    }
    if (address + kNear > b.address && address < b.address + b.bytes + kNear) nearest = &b;
  }
  std::string where = "an address that no array has";
  if (nearest)
    where = text("byte %lld of <buffer %zu>, which has %llu bytes",
                 (long long)(address - nearest->address), size_t(nearest - r.buffer),
                 (unsigned long long)nearest->bytes);
  fail_at(Fault::bounds, t, text("%s %llu bytes at ", verb(how), (unsigned long long)bytes) + where,
          {site});
}
// Registers whose address was taken: accumulators of a wgmma in flight must be left alone.
inline void check_watches(Thread& t, uintptr_t address, uint64_t bytes, Access how, Site site) {
  for (const Watch& w : t.watches)
    if (address < w.high && address + bytes > w.low)
      fail_at(Fault::registers, t,
              text("a register is %s while a wgmma <site 1> uses it: no wgmma.wait_group in between",
                   how == Access::load ? "read" : "written"),
              {site, w.site});
}
inline void on_register(Thread& t, uintptr_t address, uint64_t bytes, Access how, Site site) {
  check_watches(t, address, bytes, how, site);
  if (how == Access::load || !t.wgmma_fenced) return;
  uint32_t first = uint32_t(address - uintptr_t(t.stack)) / 4;
  uint32_t last = uint32_t(address + bytes - 1 - uintptr_t(t.stack)) / 4;
  if (t.written.empty()) t.written.resize(Stacks::kBytes / 256);
  for (uint32_t w = first; w <= last; ++w) t.written[w / 64] |= 1ull << (w % 64);
  t.written_low = std::min(t.written_low, first);
  t.written_high = std::max(t.written_high, last);
}
inline void misaligned(Thread& t, uintptr_t address, uint64_t bytes, Access how, Site site) {
  fail_at(Fault::alignment, t,
          text("%s %llu bytes at an address that is %llu beyond a multiple of them", verb(how),
               (unsigned long long)bytes, (unsigned long long)(address % bytes)),
          {site});
}
inline void on_access(uintptr_t address, uint64_t bytes, Access how, bool aligned, Site site) {
  Thread* t = current;
  if (!t) return;
  if (t->tentative.at) settle(*t);
  if (address - uintptr_t(t->stack) < Stacks::kBytes) {
    if (!t->watches.empty() || t->wgmma_fenced) on_register(*t, address, bytes, how, site);
    return;
  }
  if (++t->since > kPatience) fail(Fault::deadlock, "a thread runs on without a barrier: it spins");
  Cluster& c = machine->cluster;
  uintptr_t offset = address - uintptr_t(c.arenas);
  if (offset < c.blocks.size() * kWindow) {
    if (aligned && address % bytes) misaligned(*t, address, bytes, how, site);
    on_shared(*t, c.blocks[offset / kWindow], uint32_t(offset % kWindow), bytes, how, site);
    return;
  }
  // The kernel library's own constants.
  if (address >= machine->image_low && address < machine->image_high) return;
  if (aligned && address % bytes) misaligned(*t, address, bytes, how, site);
  on_global(*t, address, bytes, how, site);
}

// ---------------------------------------------------------------- accesses by engines
// Bytes that the copy engine will write; agent and clock say who may know that it has.
inline void engine_writes(Thread& t, Block& b, uint32_t address, uint32_t bytes, uint32_t agent,
                          uint32_t clock, Site site) {
  uint16_t number = number_of(t, site);
  for (uint32_t i = 0; i < bytes; ++i) {
    Cell& c = b.cells[address + i];
    if (c.flags & kBarrier) barrier_as_data(t, b, address + i, site);
    if (c.clock && !knows(t, c.agent, c.clock) && !(c.agent == agent && c.clock == clock))
      conflict(t, b, address + i, bytes - i, c.agent, true, true, site, site_of(c));
    bool generic = c.clock && machine->cluster.agents[c.agent].kind <= AgentKind::copies;
    if (generic && !has_fenced(t, c.agent, c.clock))
      fail_at(Fault::proxy, t,
              "the copy engine overwrites " + place(b, address + i) +
                  ", which threads wrote <site 1>, without fence.proxy.async in between",
              {site, site_of(c)});
    check_readers(t, b, address + i, bytes - i, c, site);
    c = {clock, uint16_t(agent), number, 0, 0};
  }
}
// Bytes that an engine (copies or tensor cores) reads for an issuer, which is a thread or a
// warp.  Returns how many of them nobody has written.
template <class Issuer>
inline uint32_t engine_reads(Thread& t, const Issuer& issuer, Block& b, uint32_t address,
                             uint32_t bytes, uint32_t token, Site site, const char* what) {
  uint32_t unwritten = 0, from = ~0u, to = 0;
  for (uint32_t i = 0; i < bytes; ++i) {
    Cell& c = b.cells[address + i];
    if (!c.clock) {
      unwritten++;
      continue;
    }
    if (c.flags & kBarrier) barrier_as_data(t, b, address + i, site);
    if (!issuer.seen(c.agent, c.clock))
      conflict(t, b, address + i, bytes - i, c.agent, true, false, site, site_of(c));
    bool generic = machine->cluster.agents[c.agent].kind <= AgentKind::copies;
    if (generic && !issuer.fenced(c.agent, c.clock))
      fail_at(Fault::proxy, t,
              text("%s reads ", what) + place(b, address + i) +
                  ", which threads wrote <site 1>, without fence.proxy.async in between",
              {site, site_of(c)});
    if (c.readers != from) {
      from = c.readers;
      to = machine->cluster.readers.with(from, token, [&](const Reader& r) {
        return issuer.seen(r.agent, r.clock);
      });
    }
    c.readers = to;
  }
  return unwritten;
}
struct Alone {  // a thread as an issuer
  const Thread& t;
  bool seen(uint32_t agent, uint32_t clock) const { return knows(t, agent, clock); }
  bool fenced(uint32_t agent, uint32_t clock) const { return has_fenced(t, agent, clock); }
};

inline Thread& enter(Site site) {
  Thread& t = *current;
  if (t.tentative.at) settle(t);
  t.site = site;
  t.since = 0;
  return t;
}
#define EMU_ENTER [[maybe_unused]] Thread& t = enter(__builtin_return_address(0))

}  // namespace emu
