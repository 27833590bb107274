// SpareMemory keeps one capture memory of the default size ready, with the pages that a capture
// needs before it is armed: making them takes more than a millisecond, which a capture need not
// wait for.
//
// No process but the daemon has the spare's descriptor, and a memory is handed out once: what one
// target wrote never reaches another.
//
// Threads: any.
// Memory:  kSpareBytes at most, which count towards no principal and not towards the limit of
//          capture memory.
// Errors:  a spare that cannot be made is none. Take() then reports what it meets itself.
#ifndef PROFD_DAEMON_INGEST_SPARE_MEMORY_H_
#define PROFD_DAEMON_INGEST_SPARE_MEMORY_H_

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "daemon/ingest/capture_memory.h"

namespace profd {

class SpareMemory {
 public:
  // Pages of a spare: the control structures, 256 KiB of names, and the first chunks.
  static constexpr uint64_t kSpareBytes = 5 << 20;

  // Makes a spare if there is none. Takes 1 to 2 ms.
  void Prepare();

  // Returns the spare as the memory of capture `capture_number`, or a new one (CaptureMemory's
  // Create()) if there is none or `bytes` is another size. RESOURCE_EXHAUSTED.
  absl::StatusOr<std::unique_ptr<CaptureMemory>> Take(uint64_t capture_number, uint64_t bytes);

  bool has_spare() const;

 private:
  mutable absl::Mutex mu_;
  std::unique_ptr<CaptureMemory> spare_ ABSL_GUARDED_BY(mu_);
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_SPARE_MEMORY_H_
