// Bank conflicts: what a warp's accesses by one instruction cost shared memory.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "../device/calls.h"

namespace emu {

struct LaneAccess {
  uint32_t address, bytes;
};

// Wavefronts that 32 banks of 4 bytes need for up to a warp's lanes.  8-byte accesses are served
// half a warp at a time, 16-byte accesses a quarter; equal words are served together.
inline uint32_t wavefronts(const LaneAccess* lanes, uint32_t count, uint32_t* ideal) {
  uint32_t bytes = 0;
  for (uint32_t i = 0; i < count; ++i) bytes = std::max(bytes, lanes[i].bytes);
  uint32_t at_once = bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8, total = 0;
  *ideal = 0;
  uint32_t words[32][32];  // different words of each bank
  for (uint32_t first = 0; first < count; first += at_once) {
    uint8_t load[32] = {};
    uint32_t most = 0;
    for (uint32_t i = first; i < std::min(count, first + at_once); ++i) {
      if (!lanes[i].bytes) continue;
      uint32_t last = (lanes[i].address + lanes[i].bytes - 1) / 4;
      for (uint32_t w = lanes[i].address / 4; w <= last; ++w) {
        uint32_t bank = w % 32, n = load[bank];
        if (std::find(words[bank], words[bank] + n, w) != words[bank] + n || n == 32) continue;
        words[bank][n] = w;
        load[bank] = uint8_t(n + 1);
        most = std::max(most, n + 1);
      }
    }
    total += most;
    *ideal += most > 0;
  }
  return total;
}

// Collects accesses of lanes that run one after another: the k-th time that each lane comes
// to a site since the warp last met counts as one instruction of the warp.
class ConflictCounter {
 public:
  void record(void* site, uint32_t lane, uint32_t address, uint32_t bytes) {
    Group& group = find(site);
    uint32_t k = group.count[lane]++;
    if (k >= kRows) return;
    if (group.rows.size() <= k) group.rows.resize(k + 1);
    group.rows[k].lane[lane] = {address, bytes};
  }
  // `add(site, requests, wavefronts, ideal)`
  template <class F>
  void flush(F add) {
    for (auto& [site, kept] : groups_) {
      Group& group = *kept;
      if (group.rows.empty()) continue;
      uint64_t total = 0, least = 0;
      for (Row& row : group.rows) {
        uint32_t ideal;
        total += wavefronts(row.lane, kLanes, &ideal);
        least += ideal;
      }
      add(site, group.rows.size(), total, least);
      group.rows.clear();
      std::fill(group.count, group.count + kLanes, 0);
    }
  }

 private:
  static constexpr uint32_t kRows = 4096;  // what comes after is not counted
  struct Row {
    LaneAccess lane[kLanes] = {};
  };
  struct Group {
    std::vector<Row> rows;
    uint32_t count[kLanes] = {};
  };
  Group& find(void* site) {
    Recent& r = recent_[uintptr_t(site) / 4 % kRecent];
    if (r.site != site) {
      auto& group = groups_[site];
      if (!group) group = std::make_unique<Group>();
      r = {site, group.get()};
    }
    return *r.group;
  }
  static constexpr size_t kRecent = 64;
  struct Recent {
    void* site = nullptr;
    Group* group = nullptr;
  };
  std::unordered_map<void*, std::unique_ptr<Group>> groups_;
  Recent recent_[kRecent];
};

}  // namespace emu
