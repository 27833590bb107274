// Budgets: how much memory and how many rows one piece of work on one capture may take. This file
// is the one place that states them. A capture is as large as a target makes it, so work whose
// memory grows with its rows needs a limit that does not.
//
//   budget                        unit    why this much
//   kSummaryHeapBytes             bytes   the checks for the grade, or one summary, when a capture
//                                         is sealed; profd-report makes one at a time
//   kReportHeapBytes              bytes   one report or export; training jobs of 10 M events need
//                                         less than half of it
//   kMaxTrackedBlocks             blocks  32 bytes each in a table that is full by half: 32 MiB
//   kMaxOperatorMemoryEvents      events  24 bytes each: 48 MiB
//   kMaxSteps                     steps   32 bytes each, and a row each in the capture file
//   kMaxRecoveryAttempts          starts  a file that ended the daemon this often is set aside
//
// They count rows and bytes, never seconds, so every machine gives the same answer. What exceeds a
// budget of storing and summarizing is left out and named in the capture's record (LeftOut()). A
// report beyond its budget is refused: RESOURCE_EXHAUSTED with the reason OVER_BUDGET. The capture
// stays readable.
//
// Budgets of the capture file (names, threads, chunks) are in daemon/store/file/schema.h,
// those of uploads in daemon/store/file/check.h, those of decoders with the wire format.
//
// Threads: any.
#ifndef PROFD_DAEMON_BASE_BUDGET_H_
#define PROFD_DAEMON_BASE_BUDGET_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace profd {

inline constexpr int64_t kSummaryHeapBytes = int64_t{128} << 20;
inline constexpr int64_t kReportHeapBytes = int64_t{256} << 20;
inline constexpr int64_t kMaxTrackedBlocks = int64_t{1} << 19;
inline constexpr int64_t kMaxOperatorMemoryEvents = int64_t{2} << 20;
inline constexpr int64_t kMaxSteps = int64_t{1} << 20;
inline constexpr int kMaxRecoveryAttempts = 3;

inline constexpr std::string_view kOverBudgetReason = "OVER_BUDGET";

// RESOURCE_EXHAUSTED: "operator memory needs 16900000 events, the budget is 2097152 events".
absl::Status OverBudget(std::string_view what, int64_t needed, int64_t budget,
                        std::string_view unit);
// The same where the count stopped at the budget: "needs more than 128 MiB of memory".
absl::Status OverHeapBudget(std::string_view what, int64_t budget_bytes);
bool IsOverBudget(const absl::Status& status);

// "left out: " and the status's message, for people.
std::string LeftOut(const absl::Status& status);
std::string LeftOut(std::string_view what);

// HeapLimit is a heap budget of one thread: what the thread has allocated with operator new, and
// not freed, since the limit was made. CaptureReader checks it between batches, so that every
// report, summary, and export keeps it without counting its own tables.
//
// Threads:  the one that made it. Memory allocated there and freed elsewhere counts too long.
// Accuracy: the count is exact. A table may double between two checks.
class HeapLimit {
 public:
  // `what` must outlive it.
  HeapLimit(std::string_view what, int64_t limit_bytes);
  // OK, or OverHeapBudget(). Cheap.
  absl::Status Check() const;

 private:
  std::string_view what_;
  int64_t limit_bytes_;
  int64_t begin_bytes_;
};

// Replaces the limit that readers on this thread check, until it goes. The innermost one counts.
class ScopedHeapLimit {
 public:
  ScopedHeapLimit(std::string_view what, int64_t limit_bytes);
  ~ScopedHeapLimit();
  ScopedHeapLimit(const ScopedHeapLimit&) = delete;
  ScopedHeapLimit& operator=(const ScopedHeapLimit&) = delete;

  // nullptr: there is none on this thread.
  static const HeapLimit* Current();

 private:
  const HeapLimit limit_;
  const HeapLimit* const outer_;
};

// False in sanitizer builds, which have an operator new of their own: no heap limit is ever
// exceeded.
bool HeapIsCounted();
// Allocated by this thread with operator new less what it freed.
int64_t ThreadHeapBytes();

namespace internal {
// heap_count.cc maintains both. It is linked into profd-report and tests: profd computes nothing
// that needs it, and in profctl memory is the caller's own, and an allocator that the user preloads
// must keep working.
extern constinit thread_local int64_t t_heap_bytes;
extern constinit bool g_counts_heap;
}  // namespace internal

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_BUDGET_H_
