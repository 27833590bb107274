// SealPool is what profd does with the events of a capture when it is sealed: it passes the file to
// profd-report, so that nothing in profd computes anything from events.
//
//   profd-store    ID.part  ─► CheckEvents() ─┐   lane thread      profd-report
//                  ID.profd ─► Summarize() ───┼─► profd-seal ──►  grade's checks, or
//   profd-recover  ID.profd ─► Summarize() ───┤   (ReportPool)     summaries for the catalog
//   profd-report   ID.profd ─► Summarize() ───┘        ◄── seal_answers.h
//   (an import)    each of them waits
//
// * It has programs of its own: reports and seals never wait for each other. One of them is kept
//   running, so that the end of a capture does not wait for its start.
// * Seals of recordings (is_urgent) always find a free lane. Imports and recovered files share the
//   other one, and time is shared equally between the two kinds.
// * A program that is killed is started again once for the same seal; one that cannot be started is
//   tried again for about a second. What else goes wrong is returned; the capture is then stored
//   without its checks or summaries, and its record says so.
// * Programs run with the priority of profd: a caller waits for each seal of a recording.
//
// Threads:  any. Calls wait for the answer, at most `max_duration` of run time, and report progress
//           to the watchdog meanwhile. Own threads: two "profd-seal".
// Errors:   of opening the file (NOT_FOUND); OVER_BUDGET; those of report_process.h; without a
//           reason: the program cannot be started, answers wrongly (seal_answers.h), or found the
//           file damaged. CANCELLED: after CancelAfter().
#ifndef PROFD_DAEMON_WORKER_SEAL_POOL_H_
#define PROFD_DAEMON_WORKER_SEAL_POOL_H_

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/watchdog.h"
#include "daemon/capture/quality.h"
#include "daemon/store/file/seal.h"
#include "daemon/worker/report_pool.h"

namespace profd::worker {

class SealPool {
 public:
  struct Options {
    // Run time of one seal. Seals of recordings wait for each other, and their callers with them.
    absl::Duration max_duration = absl::Minutes(1);
    Watchdog* watchdog = nullptr;  // Must outlive the pool.
  };

  // Of SpawnOptions: four times the heap that the checks or a summary may have, for tables that
  // double, and for SQLite.
  static constexpr int64_t kMaxMemoryBytes = int64_t{512} << 20;

  // The programs should not yield to training (SpawnOptions).
  SealPool(const Options& options, Clock& clock, ReportPool::MakeProcess make_process);

  // store::EventChecker
  absl::StatusOr<EventChecks> CheckEvents(const std::filesystem::path& file);
  // store::EventSummarizer
  absl::StatusOr<store::EventSummaries> Summarize(const std::filesystem::path& file,
                                                  const store::SummaryRequest& request);

  // profd ends: seals that are not made `grace` from now end with CANCELLED, also later ones.
  void CancelAfter(absl::Duration grace);

 private:
  absl::StatusOr<std::string> Ask(std::string_view table, std::string options,
                                  const std::filesystem::path& file, bool is_urgent);
  absl::Status StillWanted() const;

  Clock& clock_;
  std::atomic<int64_t> cancel_at_monotonic_ns_;
  ReportPool pool_;
};

}  // namespace profd::worker

#endif  // PROFD_DAEMON_WORKER_SEAL_POOL_H_
