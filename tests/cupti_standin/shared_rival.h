// Another tool with a subscription by the interface for several subscribers. It records API calls
// of the runtime and kernels, and counts its records.
#ifndef PROFD_TESTS_CUPTI_STANDIN_SHARED_RIVAL_H_
#define PROFD_TESTS_CUPTI_STANDIN_SHARED_RIVAL_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "tests/cupti_standin/sgpu.h"

namespace sgpu {

// Threads: any.
class SharedRival {
 public:
  // Begins, and ends, to record. Subscriber decides whether it may.
  void Join() { is_joined_ = true; }
  void Leave() { is_joined_ = false; }
  bool IsJoined() const { return is_joined_.load(std::memory_order_relaxed); }

  // Bit k: kind k is on.
  uint64_t kinds() const;

  // An API call of `domain` returned, or work of `kind` was submitted that ends at `end_ns`.
  void NoteCall(uint32_t domain);
  void NoteWork(uint32_t kind, uint64_t end_ns);

  // A flush is every subscriber's. A forced one ends the records of work that still runs.
  void Flush(bool is_forced, uint64_t now_ns);

  // Nobody ever joined.
  void Reset();
  void AddTo(sgpu_stats_rec& stats);

 private:
  std::atomic<bool> is_joined_{false};
  std::mutex mu_;
  // All below guarded by mu_.
  std::vector<uint64_t> running_;  // When each submitted kernel ends.
  uint64_t records_ = 0;
  uint64_t unfinished_ = 0;
};

SharedRival& shared_rival();

}  // namespace sgpu

#endif  // PROFD_TESTS_CUPTI_STANDIN_SHARED_RIVAL_H_
