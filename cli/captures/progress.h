// What is going on, on one line of a terminal that is written over. Elsewhere: nothing.
//
// Threads: one; a WorkingLine shows its line from a thread of its own.
#ifndef PROFD_CLI_CAPTURES_PROGRESS_H_
#define PROFD_CLI_CAPTURES_PROGRESS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "cli/base/style.h"
#include "cli/client/capture_view.h"
#include "daemon/base/cond_var.h"

namespace profd::cli {

// On stderr. Erases the line when destroyed.
class ProgressLine {
 public:
  explicit ProgressLine(const Style& error_style) : style_(error_style) {}
  ~ProgressLine() { Clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Show(std::string_view text);
  void Clear();

 private:
  const Style& style_;
  std::string shown_;
};

// For work that does not say how far it is: "computing memory (248,000,000 events): 12s", each
// second once it has taken a while. `error_style` outlives it.
class WorkingLine {
 public:
  static constexpr absl::Duration kAWhile = absl::Seconds(2);

  WorkingLine(const Style& error_style, std::string what, absl::Duration a_while = kAWhile);
  // Erases the line.
  ~WorkingLine();
  WorkingLine(const WorkingLine&) = delete;
  WorkingLine& operator=(const WorkingLine&) = delete;

 private:
  void ShowUntilOver(const Style& error_style, const std::string& what, absl::Duration a_while);

  absl::Mutex mu_;
  CondVar changed_;
  bool is_over_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // None where nothing would be shown.
};

// Follows the life of the captures of one request and says where they are.
class CaptureProgress {
 public:
  explicit CaptureProgress(size_t count) : members_(count) {}

  void OnChange(size_t index, const CaptureView& view, absl::Time now);
  // "arming", "waiting for step 120", "warm-up, step 119", "recording step 2/5", "draining",
  // "storing"; of several captures how many are where.
  std::string Text(absl::Time now) const;

 private:
  struct Member {
    CaptureView view;
    absl::Time recording_since = absl::InfiniteFuture();
    int64_t window = -1;
    int64_t first_step = -1;  // Of this window, as far as we have seen.
  };
  static std::string Describe(const Member& member, absl::Time now);

  std::vector<Member> members_;
};

// "12.0 MiB of 34.0 MiB (35.29%)"
std::string TransferProgress(std::string_view what, int64_t done_bytes, int64_t total_bytes);

// For a user who leaves before `id`, a "capture" or a "group", has ended: nothing else has printed
// the ID. `profctl` as Invocation::NextProfctl(). A line.
std::string LastWordsOfTrace(std::string_view profctl, std::string_view what, std::string_view id);

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_PROGRESS_H_
