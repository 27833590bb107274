// How many optimizers of each name there are, as one thread tells and another one reads.
//
// Threads: Tell() one; CountOf() and Clear() one, another. No lock.
#ifndef PROFD_CLIENT_LIB_TORCH_OPTIMIZER_COUNTS_H_
#define PROFD_CLIENT_LIB_TORCH_OPTIMIZER_COUNTS_H_

#include <atomic>
#include <cstdint>

namespace profd::client::torch {

class OptimizerCounts {
 public:
  // `name`: a hash; 0 is none. Names beyond kMostNames stay unknown.
  void Tell(uint64_t name, uint32_t count) {
    for (Entry& entry : entries_) {
      const uint64_t known = entry.name.load(std::memory_order_relaxed);
      if (known != 0 && known != name) continue;
      entry.count.store(count, std::memory_order_relaxed);
      entry.name.store(name, std::memory_order_release);
      return;
    }
  }

  // 0: not known.
  uint32_t CountOf(uint64_t name) const {
    for (const Entry& entry : entries_) {
      const uint64_t known = entry.name.load(std::memory_order_acquire);
      if (known == 0) return 0;
      if (known == name) return entry.count.load(std::memory_order_relaxed);
    }
    return 0;
  }

  // A name stays in its place.
  void Clear() {
    for (Entry& entry : entries_) entry.count.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr uint32_t kMostNames = 16;

  struct Entry {
    std::atomic<uint64_t> name{0};
    std::atomic<uint32_t> count{0};
  };
  Entry entries_[kMostNames];
};

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_OPTIMIZER_COUNTS_H_
