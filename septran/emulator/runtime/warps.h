// What lanes of a warp do together: shuffles, votes, matrix instructions.
#pragma once
#include "trace.h"

namespace emu {

constexpr Lanes kFull = ~Lanes(0);
inline uint32_t first_of(Lanes lanes) { return uint32_t(__builtin_ctzll(lanes)); }

inline void carry_out(Warp& w, size_t number) {
  Rendezvous done = std::move(w.open[number]);
  w.open.erase(w.open.begin() + long(number));
  uint64_t time = 0;
  for (uint32_t l = 0; l < kLanes; ++l)
    if (done.arrived >> l & 1) time = std::max(time, done.waiting[l]->time);
  for (uint32_t l = 0; l < kLanes; ++l)
    if (done.arrived >> l & 1) done.waiting[l]->time = time + 1;
  done.act(done.payload, done.arrived);
  for (uint32_t l = 0; l < kLanes; ++l)
    if ((done.arrived >> l & 1) && done.waiting[l] != current) make_ready(done.waiting[l]);
}
[[noreturn]] inline void diverged(const Thread& t, const char* what, Lanes mask,
                                  const Rendezvous& other) {
  uint32_t lane = first_of(other.arrived);
  fail_at(Fault::misuse, t,
          text("lanes of a warp diverge: this one is in %s (mask %#llx), lane %u in %s (mask %#llx) "
               "<site 1>", what, (unsigned long long)mask, lane, other.what,
               (unsigned long long)other.mask),
          {t.site, other.waiting[lane]->site});
}
// The lanes of `mask` meet in one instruction; the last of them carries it out for all.
// `act(payloads, lanes)` gets what each lane passed.  Lanes that have returned are not missed.
template <class F>
inline void meet(Thread& t, const char* what, Lanes mask, void* payload, F act) {
  Warp& w = *t.warp;
  if (!(mask >> t.lane & 1))
    fail(Fault::misuse, text("%s: the lane is not in its own mask %#llx", what, (unsigned long long)mask));
  size_t number = w.open.size();
  for (size_t i = 0; i < w.open.size(); ++i) {
    if (w.open[i].mask == mask && !strcmp(w.open[i].what, what)) number = i;
    else if (w.open[i].mask & mask) diverged(t, what, mask, w.open[i]);
  }
  if (number == w.open.size()) {
    w.open.emplace_back();
    w.open.back().what = what;
    w.open.back().mask = mask;
    w.open.back().act = act;
  }
  Rendezvous& r = w.open[number];
  r.arrived |= Lanes(1) << t.lane;
  r.payload[t.lane] = payload;
  r.waiting[t.lane] = &t;
  if ((r.arrived & w.live) == (mask & w.live)) {
    carry_out(w, number);
  } else {
    t.waiting = {what};
    give_way();
    t.waiting = {};
  }
}
// A lane returns: the others may have waited for it alone.
inline void leave_warp(Warp& w, uint32_t lane) {
  w.live &= ~(Lanes(1) << lane);
  for (size_t i = 0; i < w.open.size();)
    if (w.live && (w.open[i].arrived & w.live) == (w.open[i].mask & w.live)) carry_out(w, i);
    else ++i;
}

inline void flush_conflicts(Warp& w) {
  w.conflicts.flush([](void* site, uint64_t requests, uint64_t total, uint64_t ideal) {
    Conflict& c = machine->conflicts[site];
    c.site = uint64_t(site);
    c.requests += requests;
    c.wavefronts += total;
    c.ideal += ideal;
  });
}

// Registers of an instruction that begin in an array must be in it: what is beyond is another's.
inline void check_array(Thread& t, uint32_t* const* registers, uint32_t count, const char* what) {
  uintptr_t first = uintptr_t(registers[0]);
  auto inside = [&](const Span& s) { return first >= s.low && first < s.high; };
  auto found = std::find_if(t.arrays.rbegin(), t.arrays.rend(), inside);
  if (found == t.arrays.rend()) return;
  for (uint32_t i = 0; i < count; ++i) {
    uintptr_t at = uintptr_t(registers[i]);
    if (at >= found->low && at + 4 <= found->high) continue;
    fail(Fault::bounds, text("%s has %u registers, and number %u is outside of the array of %zu bytes "
                             "in which they begin", what, count, i, size_t(found->high - found->low)));
  }
}
void enter_array(const void* first, size_t bytes) {
  current->arrays.push_back({uintptr_t(first), uintptr_t(first) + bytes});
}
void leave_array() { current->arrays.pop_back(); }

uint64_t shuffle(Lanes mask, uint64_t value, int lane) {
  EMU_ENTER;
  struct Slot {
    uint64_t value, result;
    int lane;
  } slot{value, 0, lane & int(kLanes - 1)};
  meet(t, "a shuffle", mask, &slot, [&](void** all, Lanes lanes) {
    for (uint32_t l = 0; l < kLanes; ++l)
      if (lanes >> l & 1) {
        Slot& s = *static_cast<Slot*>(all[l]);
        bool there = lanes >> s.lane & 1;
        s.result = there ? static_cast<Slot*>(all[s.lane])->value : ~0ull;
      }
  });
  return slot.result;
}
Lanes ballot(Lanes mask, bool predicate) {
  EMU_ENTER;
  struct Slot {
    bool predicate;
    Lanes result;
  } slot{predicate, 0};
  meet(t, "a vote", mask, &slot, [&](void** all, Lanes lanes) {
    Lanes votes = 0;
    for (uint32_t l = 0; l < kLanes; ++l)
      if (lanes >> l & 1) votes |= Lanes(static_cast<Slot*>(all[l])->predicate) << l;
    for (uint32_t l = 0; l < kLanes; ++l)
      if (lanes >> l & 1) static_cast<Slot*>(all[l])->result = votes;
  });
  return slot.result;
}
uint64_t reduce(Lanes mask, uint64_t value, uint64_t (*combine)(uint64_t, uint64_t)) {
  EMU_ENTER;
  meet(t, "a reduction of a warp", mask, &value, [&](void** all, Lanes lanes) {
    uint64_t total = 0;
    bool first = true;
    for (uint32_t l = 0; l < kLanes; ++l)
      if (lanes >> l & 1) {
        uint64_t v = *static_cast<uint64_t*>(all[l]);
        total = first ? v : combine(total, v);
        first = false;
      }
    for (uint32_t l = 0; l < kLanes; ++l)
      if (lanes >> l & 1) *static_cast<uint64_t*>(all[l]) = total;
  });
  return value;
}
Lanes match(Lanes mask, uint64_t value) {
  EMU_ENTER;
  struct Slot {
    uint64_t value;
    Lanes result;
  } slot{value, 0};
  meet(t, "a match", mask, &slot, [&](void** all, Lanes lanes) {
    for (uint32_t l = 0; l < kLanes; ++l)
      for (uint32_t k = 0; k < kLanes; ++k)
        if ((lanes >> l & 1) && (lanes >> k & 1) &&
            static_cast<Slot*>(all[l])->value == static_cast<Slot*>(all[k])->value)
          static_cast<Slot*>(all[l])->result |= Lanes(1) << k;
  });
  return slot.result;
}
bool elect(Lanes mask) {
  EMU_ENTER;
  bool elected = false;
  meet(t, "elect.sync", mask, &elected, [&](void** all, Lanes lanes) {
    *static_cast<bool*>(all[first_of(lanes)]) = true;
  });
  return elected;
}
Lanes active_mask() {
  EMU_ENTER;
  fail(Fault::unmodelled, "activemask depends on how the hardware runs lanes");
  return 0;
}
void warp_sync(Lanes mask) {
  EMU_ENTER;
  meet(t, "__syncwarp", mask, &t, [&](void** all, Lanes lanes) {
    Gathering gathered;
    for (uint32_t l = 0; l < kLanes; ++l)
      if (lanes >> l & 1) release(*static_cast<Thread*>(all[l]), gathered);
    Known known = gathered.take();
    for (uint32_t l = 0; l < kLanes; ++l)
      if (lanes >> l & 1) acquire(*static_cast<Thread*>(all[l]), known);
    if (lanes == (t.warp->live & kFull)) flush_conflicts(*t.warp);
  });
}

}  // namespace emu
