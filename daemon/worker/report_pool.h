// ReportPool runs reports over capture files in profd-report, a separate program without rights, so
// that a file that crashes it, or makes it take too much memory or time, costs one request.
//
//      profd                                          profd-report (posix_spawn, one per lane)
//   rpc: TryPost ─► FairTurns ─► lane thread          nice 19, idle I/O, no network, no files,
//                                    │                 memory limit, dies with profd
//        ReportRequest + 1 read-only ├──kRequest+fd──►  store reader ─► report ─► protobuf bytes
//        descriptor of the capture   │                  export ─► file bytes
//   gRPC ◄── ReportSink::Append() ◄──┤◄─kData ... kEnd
//
// * Who parses what: profd checks who asks and looks up the capture in its catalog. Only
//   profd-report reads the capture file and the options of the request. profd forwards the answer
//   as bytes. Data that needs no capture file (the catalog) stays in profd.
// * One report runs at any time. A report that has used its slice is paused (SIGSTOP) while others
//   go first; fair_turns.h says who. At most `lanes` reports have begun and not ended.
// * Back-pressure: while a sink takes nothing, its program is paused and others run. An answer
//   waits in the socket, never in profd's memory beyond one frame.
// * A program that crashes or is killed ends its request with an error and is started again for
//   the next one. Its principal is charged for it, so that others go first.
// * A report that takes longer than `max_duration` with the turn is ended and refused as a whole.
//
// Threads:    TryPost() any. Own threads: `lanes` times "profd-report" (nice 19, idle I/O), which
//             run the posted work. They sleep while there is none. Seals have a pool of their own
//             with other settings (seal_pool.h).
// Ownership:  what posted work refers to must live until it has run.
// Shutdown:   Stop() runs what was posted before, then ends threads and programs. Work ends early
//             if its `still_wanted` returns an error.
#ifndef PROFD_DAEMON_WORKER_REPORT_POOL_H_
#define PROFD_DAEMON_WORKER_REPORT_POOL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/cond_var.h"
#include "daemon/base/watchdog.h"
#include "daemon/worker/fair_turns.h"
#include "daemon/worker/report_process.h"

namespace profd::worker {

// Where the answer of a report goes.
class ReportSink {
 public:
  virtual ~ReportSink() = default;
  // Waits until Append() does not block, at most `timeout`; false: not yet.
  virtual bool AwaitReady(absl::Duration timeout) = 0;
  // An error ends the report.
  virtual absl::Status Append(std::string_view bytes) = 0;
};

class ReportPool;

// What posted work may use while it runs.
class ReportTurn {
 public:
  // Runs a report. `still_wanted` is asked some 20 times per second. Returns its error, the sink's,
  // profd-report's answer, or why that ended (report_process.h); also RESOURCE_EXHAUSTED
  // (REPORT_TOO_LONG, REPORTS_CROWDED).
  absl::Status Run(const ReportRequest& request, absl::FunctionRef<absl::Status()> still_wanted,
                   ReportSink& sink);
  // Lets others run while the rest of the work goes on without profd-report.
  void GiveUp();
  // How long reports of this work have had the turn.
  absl::Duration used() const { return used_ + SliceUsed(); }

 private:
  friend class ReportPool;
  ReportTurn(ReportPool& pool, int lane, ReportProcess& process);

  absl::Status Relay(absl::FunctionRef<absl::Status()> still_wanted, ReportSink& sink);
  // Pauses the program until the sink is ready and the turn is ours again.
  absl::Status StepAside(absl::FunctionRef<absl::Status()> still_wanted, ReportSink& sink,
                         FairTurns::Then then);
  absl::Status TakeTurn(absl::FunctionRef<absl::Status()> still_wanted);
  // Why the report has to end now.
  absl::Status MayGoOn(absl::FunctionRef<absl::Status()> still_wanted);
  // Ends the program's work on a request whose answer is not wanted.
  absl::Status Abandon(absl::Status why);
  absl::Duration SliceUsed() const;

  ReportPool& pool_;
  const int lane_;
  ReportProcess& process_;
  bool has_turn_ = true;
  absl::Duration turn_since_;
  absl::Duration used_;  // In earlier turns, and for crashes.
  absl::Duration charge_;
};

class ReportPool {
 public:
  using Work = std::function<void(ReportTurn& turn)>;
  using MakeProcess = std::function<std::unique_ptr<ReportProcess>()>;

  struct Options {
    FairTurns::Options turns;
    absl::Duration slice = absl::Milliseconds(250);
    absl::Duration max_duration = absl::Minutes(5);
    // How long a program may take to stop when its answer is not wanted; then it is killed.
    absl::Duration cancel_grace = absl::Milliseconds(500);
    // A program without work ends after this, except for that of the first lane.
    absl::Duration spare_idle = absl::Minutes(1);
    Watchdog* watchdog = nullptr;  // Must outlive the pool; nullptr: not watched.
    const char* thread_name = "profd-report";
    bool yields_to_training = true;  // The threads, and with them the programs that they start.
  };

  ReportPool(Options options, Clock& clock, MakeProcess make_process);
  ~ReportPool();  // Stop().

  // Returns false if too many reports wait, in all or of `principal`, or after Stop().
  [[nodiscard]] bool TryPost(std::string_view principal, Work work);
  void Stop();

 private:
  friend class ReportTurn;

  struct Job {
    std::string principal;
    Work work;
  };
  struct Lane {
    bool granted = false;    // Has the turn, or is about to notice.
    std::optional<Job> job;  // To begin.
    bool over = false;       // Stopped, and nothing is left to do.
    CondVar changed;         // Any of these, or the watchdog asks.
  };

  void LaneLoop(int lane);
  // Waits for work; nullopt: the pool was stopped, or nothing came within `timeout`.
  std::optional<Job> AwaitJob(int lane, absl::Duration timeout, WatchedThread& watched);
  void EndJob(int lane, const ReportTurn& turn);
  void Dispatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // For ReportTurn.
  void Leave(int lane, absl::Duration used, FairTurns::Then then);
  void Want(int lane);
  bool AwaitTurn(int lane, absl::Duration timeout);
  bool OthersWant(int lane);
  bool MustEnd(int lane);

  const Options options_;
  Clock& clock_;
  const MakeProcess make_process_;

  absl::Mutex mu_;
  FairTurns turns_ ABSL_GUARDED_BY(mu_);
  std::map<FairTurns::JobId, Job> jobs_ ABSL_GUARDED_BY(mu_);
  FairTurns::JobId last_job_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<Lane> lanes_ ABSL_GUARDED_BY(mu_);
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace profd::worker

#endif  // PROFD_DAEMON_WORKER_REPORT_POOL_H_
