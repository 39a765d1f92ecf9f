// What is known of every byte of shared memory: its last writer, and its readers since.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace emu {

enum CellFlags : uint32_t { kBarrier = 1, kAtomic = 2 };

struct Cell {
  uint32_t clock;  // of the last write; 0 where nothing was ever written
  uint16_t agent;
  uint16_t site;
  uint32_t readers;  // in `Readers`; 0 where there are none
  uint32_t flags;
};

struct Reader {
  uint32_t agent, clock, site;
};

// Sets of readers as chains, numbered, so that bytes that are read alike share one.
class Readers {
 public:
  Readers() { clear(); }
  void clear() {
    chains_.assign(1, {});
    additions_.clear();
    appended_.clear();
    tokens_.clear();
    readers_.clear();
  }
  uint32_t token(Reader r) {
    uint64_t key = uint64_t(r.agent) << 48 | uint64_t(r.site & 0xffff) << 32 | r.clock;
    auto [it, fresh] = tokens_.emplace(key, uint32_t(readers_.size()));
    if (fresh) readers_.push_back(r);
    return it->second;
  }
  // The set with a reader more; `known(reader)` says who can be forgotten.
  template <class F>
  uint32_t with(uint32_t set, uint32_t token, F known) {
    auto [it, fresh] = additions_.emplace(uint64_t(set) << 32 | token, 0);
    if (!fresh) return it->second;
    uint32_t base = 0;
    const Reader& mine = readers_[token];
    bool again = false, all = true;
    for (uint32_t s = set; s; s = chains_[s].rest) {
      const Reader& r = readers_[chains_[s].token];
      again |= r.agent == mine.agent;
      all &= r.agent == mine.agent || known(r);
    }
    if (!all && !again) {
      base = set;
    } else if (!all) {
      for (uint32_t s = set; s; s = chains_[s].rest)
        if (readers_[chains_[s].token].agent != mine.agent) base = append(base, chains_[s].token);
    }
    uint32_t result = append(base, token);
    additions_[uint64_t(set) << 32 | token] = result;
    return result;
  }
  // A reader that is not known, or null.
  template <class F>
  const Reader* unknown(uint32_t set, F known) const {
    for (; set; set = chains_[set].rest)
      if (const Reader& r = readers_[chains_[set].token]; !known(r)) return &r;
    return nullptr;
  }

 private:
  struct Chain {
    uint32_t token = 0, rest = 0;
  };
  uint32_t append(uint32_t set, uint32_t token) {
    auto [it, fresh] = appended_.emplace(uint64_t(set) << 32 | token, 0);
    if (fresh) {
      it->second = uint32_t(chains_.size());
      chains_.push_back({token, set});
    }
    return it->second;
  }
  std::vector<Chain> chains_;
  std::vector<Reader> readers_;
  std::unordered_map<uint64_t, uint32_t> additions_, tokens_, appended_;
};

}  // namespace emu
