// Bank conflicts: what a warp's accesses by one instruction cost shared memory.
#pragma once
#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace emu {

struct LaneAccess {
  uint32_t address, bytes;
};

// Wavefronts that 32 banks of 4 bytes need for up to 32 lanes.  8-byte accesses are served
// half a warp at a time, 16-byte accesses a quarter.
inline uint32_t wavefronts(const LaneAccess* lanes, uint32_t count, uint32_t* ideal) {
  uint32_t bytes = 0;
  for (uint32_t i = 0; i < count; ++i) bytes = std::max(bytes, lanes[i].bytes);
  uint32_t at_once = bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8, total = 0;
  *ideal = 0;
  for (uint32_t first = 0; first < count; first += at_once) {
    uint32_t words[64], n = 0, load[32] = {}, most = 0;
    for (uint32_t i = first; i < std::min(count, first + at_once); ++i) {
      if (!lanes[i].bytes) continue;
      uint32_t last = (lanes[i].address + lanes[i].bytes - 1) / 4;
      for (uint32_t w = lanes[i].address / 4; w <= last && n < 64; ++w) {
        if (std::find(words, words + n, w) != words + n) continue;
        words[n++] = w;
        most = std::max(most, ++load[w % 32]);
      }
    }
    total += most;
    *ideal += n > 0;
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
    for (auto& [site, group] : groups_) {
      if (group.rows.empty()) continue;
      uint64_t total = 0, least = 0;
      for (Row& row : group.rows) {
        uint32_t ideal;
        total += wavefronts(row.lane, 32, &ideal);
        least += ideal;
      }
      add(site, group.rows.size(), total, least);
      group.rows.clear();
      std::fill(group.count, group.count + 32, 0);
    }
  }
  void clear() {
    groups_.clear();
    last_ = nullptr;
  }

 private:
  static constexpr uint32_t kRows = 4096;  // what comes after is not counted
  struct Row {
    LaneAccess lane[32] = {};
  };
  struct Group {
    std::vector<Row> rows;
    uint32_t count[32] = {};
  };
  Group& find(void* site) {
    if (site != last_ || !last_group_) {
      last_group_ = &groups_[site];
      last_ = site;
    }
    return *last_group_;
  }
  std::unordered_map<void*, Group> groups_;
  void* last_ = nullptr;
  Group* last_group_ = nullptr;
};

}  // namespace emu
