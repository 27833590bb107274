// UnpushedChunks holds the chunks that were copied and that the free list would not take: a target
// that keeps changing the list can cause that. They are not copied again before the list has them.
//
// Threads: one.
#ifndef PROFD_DAEMON_INGEST_UNPUSHED_CHUNKS_H_
#define PROFD_DAEMON_INGEST_UNPUSHED_CHUNKS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"

namespace profd {

class UnpushedChunks {
 public:
  // As CaptureMemory::PushFree().
  using Push = absl::FunctionRef<bool(uint32_t index)>;

  explicit UnpushedChunks(uint32_t chunk_count) : is_unpushed_(chunk_count, false) {}

  bool Has(uint32_t index) const { return is_unpushed_[index]; }

  // Pushes a chunk that it does not have, or keeps it for Retry().
  void GiveBack(uint32_t index, Push push) {
    // After one that failed, the others of this visit would only cost as many tries.
    if (unpushed_.empty() && push(index)) return;
    unpushed_.push_back(index);
    is_unpushed_[index] = true;
  }

  // Until one fails again.
  void Retry(Push push) {
    while (!unpushed_.empty() && push(unpushed_.back())) {
      is_unpushed_[unpushed_.back()] = false;
      unpushed_.pop_back();
    }
  }

 private:
  std::vector<uint32_t> unpushed_;
  std::vector<bool> is_unpushed_;  // By chunk.
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_UNPUSHED_CHUNKS_H_
