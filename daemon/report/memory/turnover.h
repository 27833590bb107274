// Turnover tells blocks that replace others from those that are added: a ring of tensors that is
// full frees its oldest block for each new one. Blocks are compared by size, because events of
// frees do not say who made the block.
//
// Threads: one. Memory: 24 bytes per block that one of the last steps allocated and none freed yet.
#ifndef PROFD_DAEMON_REPORT_MEMORY_TURNOVER_H_
#define PROFD_DAEMON_REPORT_MEMORY_TURNOVER_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "daemon/capture/capture_types.h"
#include "daemon/report/index/memory_order.h"
#include "daemon/report/index/step_lookup.h"

namespace profd::report {

class Turnover {
 public:
  // Steps are sorted by start. Only the last quarter of them is compared, at least three: a ring
  // may fill up in the others.
  explicit Turnover(std::span<const StepRecord> steps);

  // All events of a device, by time.
  void Add(const MemoryEvent& event);
  // Whether the last steps freed at least as many blocks of that size, made in earlier steps or
  // before the window, as they left to later ones.
  bool IsReplaced(int64_t bytes) const;

 private:
  struct Block {
    int64_t bytes = 0;
    size_t step = 0;
  };
  struct Sums {
    int64_t left = 0;      // Allocated in a step and not freed in it.
    int64_t replaced = 0;  // Freed in another step than they were allocated in.
  };

  StepLookup steps_;
  size_t first_step_ = 0;  // Position of the first one that is compared.
  absl::flat_hash_map<uint64_t, Block> live_;
  absl::flat_hash_set<uint64_t> freed_;  // Addresses of older blocks, each freed once.
  absl::flat_hash_map<int64_t, Sums> by_size_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_MEMORY_TURNOVER_H_
