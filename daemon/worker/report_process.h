// ReportProcess is profd's end of one profd-report: it starts the program, passes it a request with
// one read-only descriptor, and takes the answer. SpawnedProcess is the real one; tests have a
// fake.
//
// Threads: one at a time.
// Errors:  of Receive() when the program has ended:
//          RESOURCE_EXHAUSTED (REPORT_TOO_LARGE): it ran out of the memory it may use.
//          UNAVAILABLE (REPORT_KILLED): it was killed, by the kernel for lack of memory or by hand.
//          INTERNAL (REPORT_CRASHED): it crashed, or broke the protocol.
#ifndef PROFD_DAEMON_WORKER_REPORT_PROCESS_H_
#define PROFD_DAEMON_WORKER_REPORT_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/unique_fd.h"
#include "daemon/worker/frames.h"

namespace profd::worker {

inline constexpr std::string_view kTooLarge = "REPORT_TOO_LARGE";
inline constexpr std::string_view kTooLong = "REPORT_TOO_LONG";
inline constexpr std::string_view kKilled = "REPORT_KILLED";
inline constexpr std::string_view kCrashed = "REPORT_CRASHED";
inline constexpr std::string_view kCrowded = "REPORTS_CROWDED";

// A longer answer is refused: profd holds it until gRPC has sent it.
inline constexpr size_t kMaxAnswerBytes = 128 << 20;

// How profd-report ends when an allocation fails.
inline constexpr int kExitOutOfMemory = 97;

// Which report of which capture, and how. `table` and `options` are the name of the RPC and its
// serialized request today; profd passes both on unread.
struct ReportRequest {
  std::string table;    // "GetReport"
  std::string options;  // At most 1 MiB.
  int capture = -1;     // Read-only descriptor of the file; borrowed.
};

class ReportProcess {
 public:
  virtual ~ReportProcess() = default;

  // Starts the program if it does not run, and waits until it is ready, as long as `still_wanted`
  // is OK; else returns that, and the program is gone. UNAVAILABLE: it cannot be started; after
  // failures, later calls return the same error for a while.
  virtual absl::Status EnsureStarted(absl::FunctionRef<absl::Status()> still_wanted) = 0;
  virtual absl::Status Send(const ReportRequest& request) = 0;
  // The next piece of the answer; nullopt: none came within `timeout`.
  virtual absl::StatusOr<std::optional<Frame>> Receive(absl::Duration timeout) = 0;
  // Asks the program to end the request soon.
  virtual void RequestCancel() = 0;
  // A paused program uses no CPU and keeps its memory.
  virtual void Pause() = 0;
  virtual void Resume() = 0;
  // Ends the program, paused or not, and waits for its end.
  virtual void Kill() = 0;
};

struct SpawnOptions {
  std::filesystem::path program;
  int64_t max_memory_bytes = int64_t{1} << 30;       // Beyond what the program itself takes.
  std::string memory_setting = "max-report-memory";  // Sets it; empty: none does.
  bool yields_to_training = true;                    // nice 19 and the idle I/O class.
};

class SpawnedProcess final : public ReportProcess {
 public:
  SpawnedProcess(SpawnOptions options, Clock& clock)
      : options_(std::move(options)), clock_(clock) {}
  // Ends the program, and waits for its end for 50 ms at most: on a busy machine a program that
  // yields to all others takes seconds to die, and profd is to stop at once.
  ~SpawnedProcess() override;

  absl::Status EnsureStarted(absl::FunctionRef<absl::Status()> still_wanted) override;
  absl::Status Send(const ReportRequest& request) override;
  absl::StatusOr<std::optional<Frame>> Receive(absl::Duration timeout) override;
  void RequestCancel() override;
  void Pause() override;
  void Resume() override;
  void Kill() override;

  pid_t pid() const { return pid_; }  // -1: it does not run.

 private:
  absl::Status Start(absl::FunctionRef<absl::Status()> still_wanted);
  absl::Status Spawn(int socket);
  absl::Status AwaitHello(absl::FunctionRef<absl::Status()> still_wanted);
  // Why the program has ended, or what is wrong with it: `error`. It is gone afterwards.
  absl::Status Explain(const absl::Status& error);
  // Its wait status; nullopt: it did not end within `timeout`.
  std::optional<int> Reap(absl::Duration timeout);

  const SpawnOptions options_;
  Clock& clock_;
  pid_t pid_ = -1;  // -1: it does not run.
  UniqueFd socket_;
  std::unique_ptr<FrameReader> reader_;
  // Of starts in a row; then the next start is not tried before `not_before_`.
  int failures_ = 0;
  absl::Duration not_before_ = -absl::InfiniteDuration();
  absl::Status failure_;
};

// Where profd-report is installed: next to the running profd, or in ../libexec/profd.
std::filesystem::path FindReportProgram();

}  // namespace profd::worker

#endif  // PROFD_DAEMON_WORKER_REPORT_PROCESS_H_
