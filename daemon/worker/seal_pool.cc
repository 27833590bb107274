#include "daemon/worker/seal_pool.h"

#include <array>
#include <limits>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "daemon/base/budget.h"
#include "daemon/base/cond_var.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/unique_fd.h"
#include "daemon/store/file/files.h"
#include "daemon/worker/seal_answers.h"

namespace profd::worker {
namespace {

// The last free lane is theirs (fair_turns.h).
constexpr std::string_view kOfRecordings = "recordings";
constexpr std::string_view kOfOthers = "imports and recovery";
constexpr absl::Duration kProgressInterval = absl::Seconds(1);
// Of a program that cannot be started: a machine that is out of memory may soon have some again.
constexpr int kStartAttempts = 5;
constexpr absl::Duration kStartPause = absl::Milliseconds(250);

// As absl::Notification, but by the monotonic clock.
class WorkEnd {
 public:
  void Notify() {
    const absl::MutexLock lock(&mu_);
    is_over_ = true;
    over_.Signal();
  }
  bool Await(absl::Duration timeout) {
    const absl::MutexLock lock(&mu_);
    return over_.AwaitWithTimeout(&mu_, timeout,
                                  [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return is_over_; });
  }

 private:
  absl::Mutex mu_;
  bool is_over_ ABSL_GUARDED_BY(mu_) = false;
  CondVar over_;
};

class SealAnswer final : public ReportSink {
 public:
  bool AwaitReady(absl::Duration /*timeout*/) override { return true; }
  absl::Status Append(std::string_view bytes) override {
    if (text_.size() + bytes.size() > kMaxSealAnswerBytes) {
      return absl::InternalError("the report process answered with too many bytes");
    }
    text_.append(bytes);
    return absl::OkStatus();
  }
  std::string& text() { return text_; }

 private:
  std::string text_;
};

ReportPool::Options PoolOptions(const SealPool::Options& options) {
  ReportPool::Options pool;
  pool.turns.lanes = 2;
  pool.turns.root_principal = std::string(kOfRecordings);
  // Each waits for a thread of the store, of the recovery, or of an import: there are few.
  pool.turns.max_waiting_per_principal = pool.turns.max_waiting;
  // Nothing is ended for others: a seal is not asked for again.
  pool.turns.crowded_hold = absl::InfiniteDuration();
  // Short, because the seal of a recording may wait for it.
  pool.slice = absl::Milliseconds(50);
  pool.max_duration = options.max_duration;
  pool.watchdog = options.watchdog;
  pool.thread_name = "profd-seal";
  pool.yields_to_training = false;
  return pool;
}

bool CannotStart(const absl::Status& status) {
  return absl::IsUnavailable(status) && ReasonOf(status).empty();
}

// Only what a caller can act on keeps its reason. Everything else is for the operator.
absl::Status SealStatus(const absl::Status& status) {
  constexpr std::array kShown = {kOverBudgetReason, kTooLarge, kTooLong,
                                 kKilled,           kCrashed,  store::kNotAnalyzedReason};
  const std::string reason = ReasonOf(status);
  for (const std::string_view shown : kShown) {
    if (reason == shown) return status;
  }
  return absl::Status(status.code(), status.message());
}

}  // namespace

SealPool::SealPool(const Options& options, Clock& clock, ReportPool::MakeProcess make_process)
    : clock_(clock),
      cancel_at_monotonic_ns_(std::numeric_limits<int64_t>::max()),
      pool_(PoolOptions(options), clock, std::move(make_process)) {}

void SealPool::CancelAfter(absl::Duration grace) {
  cancel_at_monotonic_ns_ = absl::ToInt64Nanoseconds(clock_.Monotonic() + grace);
}

absl::Status SealPool::StillWanted() const {
  if (absl::ToInt64Nanoseconds(clock_.Monotonic()) < cancel_at_monotonic_ns_) {
    return absl::OkStatus();
  }
  return WithReason(absl::CancelledError("profd ended before they were made"),
                    store::kNotAnalyzedReason);
}

absl::StatusOr<std::string> SealPool::Ask(std::string_view table, std::string options,
                                          const std::filesystem::path& file, bool is_urgent) {
  RETURN_IF_ERROR(StillWanted());
  // Closing it drops the locks that SQLite has on ID.part in this process. No other process opens
  // files in the data directory.
  ASSIGN_OR_RETURN(const UniqueFd capture, store::OpenForReading(file));
  const ReportRequest request = {
      .table = std::string(table), .options = std::move(options), .capture = capture.get()};
  const auto still_wanted = [this] { return StillWanted(); };
  SealAnswer answer;
  absl::Status status;
  WorkEnd end;
  const auto work = [&](ReportTurn& turn) {
    status = turn.Run(request, still_wanted, answer);
    if (ReasonOf(status) == kKilled) {
      // When memory is short, the kernel kills this program first (sandbox.cc), and the file is
      // usually not the cause: it gets a second try.
      answer.text().clear();
      status = turn.Run(request, still_wanted, answer);
    }
    for (int i = 0; i < kStartAttempts && CannotStart(status) && StillWanted().ok(); ++i) {
      absl::SleepFor(kStartPause);
      status = turn.Run(request, still_wanted, answer);
    }
    end.Notify();
  };
  if (!pool_.TryPost(is_urgent ? kOfRecordings : kOfOthers, work)) {
    return absl::UnavailableError("too many captures are sealed at once, or profd ends");
  }
  while (!end.Await(kProgressInterval)) ReportProgress();
  if (!status.ok()) return SealStatus(status);
  return std::move(answer.text());
}

absl::StatusOr<EventChecks> SealPool::CheckEvents(const std::filesystem::path& file) {
  ASSIGN_OR_RETURN(const std::string answer, Ask(kCheckEvents, "", file, /*is_urgent=*/true));
  return DecodeEventChecks(answer);
}

absl::StatusOr<store::EventSummaries> SealPool::Summarize(const std::filesystem::path& file,
                                                          const store::SummaryRequest& request) {
  ASSIGN_OR_RETURN(const std::string answer,
                   Ask(kSummarizeEvents, EncodeSummaryRequest(request), file, request.is_urgent));
  return DecodeEventSummaries(answer);
}

}  // namespace profd::worker
