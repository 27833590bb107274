// SpareMemory keeps one capture memory of the default size ready, with the pages that a capture
// needs before it is armed (kSpareBytes): making them takes 1 to 2 ms, which a capture need not
// wait for. Its own thread ("profd-spare") makes it, so that callers wait for nothing.
//
// No process but the daemon has the spare's descriptor, and a memory is handed out once: what one
// target wrote never reaches another.
//
// Threads:   any. Start() and Stop() once each, from one thread.
// Ownership: `clock` must outlive it.
// Memory:    kSpareBytes at most, which are charged to no principal and are not part of the
//            limit of capture memory.
// Errors:    a spare that cannot be made is none, and is not tried again for kRetryInterval. Take()
//            then reports what it meets itself.
#ifndef PROFD_DAEMON_INGEST_SPARE_MEMORY_H_
#define PROFD_DAEMON_INGEST_SPARE_MEMORY_H_

#include <cstdint>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/ingest/capture_memory.h"
#include "proto/wire/capture_memory.h"

namespace profd {

class SpareMemory {
 public:
  // Size of a spare as a capture sees it; captures of another size never take one.
  static constexpr uint64_t kSizeBytes = wire::kDefaultCaptureMemoryBytes;
  // Pages of a spare: the control structures, 256 KiB of names, and the first chunks.
  static constexpr uint64_t kSpareBytes = 5 << 20;
  static constexpr absl::Duration kRetryInterval = absl::Seconds(5);

  explicit SpareMemory(Clock& clock) : clock_(clock) {}
  ~SpareMemory() { Stop(); }

  void Start();
  void Stop();  // Idempotent. Waits for a spare that is being made.

  // Asks the thread to call Prepare(). Returns at once.
  void PrepareSoon();
  // Makes a spare, unless there is one, or making it failed less than kRetryInterval ago. Takes 1
  // to 2 ms.
  void Prepare();

  // Returns the spare as the memory of capture `capture_number`, or a new one (CaptureMemory's
  // Create()) if there is none or `bytes` is another size. RESOURCE_EXHAUSTED.
  absl::StatusOr<std::unique_ptr<CaptureMemory>> Take(uint64_t capture_number, uint64_t bytes);

  bool has_spare() const;
  // How often Take() returned a spare.
  int64_t taken_count() const;

 private:
  void Run();

  Clock& clock_;

  mutable absl::Mutex mu_;
  absl::CondVar changed_;
  bool is_wanted_ ABSL_GUARDED_BY(mu_) = false;
  bool is_stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::unique_ptr<CaptureMemory> spare_ ABSL_GUARDED_BY(mu_);
  absl::Duration next_try_ ABSL_GUARDED_BY(mu_) = -absl::InfiniteDuration();
  int64_t taken_count_ ABSL_GUARDED_BY(mu_) = 0;

  std::jthread thread_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_SPARE_MEMORY_H_
