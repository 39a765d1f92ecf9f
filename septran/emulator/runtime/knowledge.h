// Who knows of whose work: vector clocks, shared between threads that know the same.
//
// An agent is whatever works on its own: a thread, a thread's cp.async copies, the copies
// that complete one mbarrier, a warp's wgmma, a thread's bulk stores.  Each has a clock.
// `seen[a]` is the clock up to which the work of agent a happens before what comes next,
// `fenced[a]` the same with a proxy fence in between.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace emu {

struct Knowledge {
  std::vector<uint32_t> seen, fenced;
  explicit Knowledge(size_t agents) : seen(agents), fenced(agents) {}
};
using Known = std::shared_ptr<Knowledge>;

inline bool covers(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  uint32_t lacking = 0;
  for (size_t i = 0; i < b.size(); ++i) lacking |= b[i] > a[i];
  return !lacking;
}
inline bool covers(const Knowledge& a, const Knowledge& b) {
  return covers(a.seen, b.seen) && covers(a.fenced, b.fenced);
}
inline void raise(std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  for (size_t i = 0; i < b.size(); ++i) a[i] = std::max(a[i], b[i]);
}

// Joins, remembered: threads of a warpgroup mostly join the same two.
class Joiner {
 public:
  Known operator()(const Known& a, const Known& b) {
    if (!b || a == b) return a;
    if (!a) return b;
    for (auto& m : memory_)
      if (m.a == a && m.b == b) return m.result;
    Known result;
    if (covers(*a, *b)) result = a;
    else if (covers(*b, *a)) result = b;
    else {
      result = std::make_shared<Knowledge>(*a);
      raise(result->seen, b->seen);
      raise(result->fenced, b->fenced);
    }
    memory_[next_++ % kSize] = {a, b, result};
    return result;
  }
  // All that is seen is fenced, too.
  Known fence(const Known& a) {
    if (fence_in_ == a) return fence_out_;
    Known result = a;
    if (!covers(a->fenced, a->seen)) {
      result = std::make_shared<Knowledge>(*a);
      raise(result->fenced, result->seen);
    }
    fence_in_ = a;
    return fence_out_ = result;
  }
  void clear() { *this = Joiner(); }

 private:
  struct Entry {
    Known a, b, result;
  };
  static constexpr size_t kSize = 8;
  Entry memory_[kSize];
  size_t next_ = 0;
  Known fence_in_, fence_out_;
};

// What is collected from those that arrive at a barrier.
class Gathering {
 public:
  void add(const Known& known, Joiner& join) {
    if (known == last_) return;
    last_ = known;
    if (!all_) {
      all_ = known;
      own_ = false;
    } else if (own_) {
      raise(all_->seen, known->seen);
      raise(all_->fenced, known->fenced);
    } else {
      all_ = join(all_, known);
    }
  }
  void set(uint32_t agent, uint32_t seen, uint32_t fenced) {
    mine();
    all_->seen[agent] = std::max(all_->seen[agent], seen);
    all_->fenced[agent] = std::max(all_->fenced[agent], fenced);
  }
  void set_empty(size_t agents) {
    if (!all_) {
      all_ = std::make_shared<Knowledge>(agents);
      own_ = true;
    }
  }
  Known take() {
    Known result = std::move(all_);
    all_ = nullptr;
    last_ = nullptr;
    own_ = false;
    return result;
  }

 private:
  void mine() {
    if (own_) return;
    all_ = std::make_shared<Knowledge>(*all_);
    own_ = true;
  }
  Known all_, last_;
  bool own_ = false;
};

}  // namespace emu
