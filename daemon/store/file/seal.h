// The last steps of a capture file's making, the same after a recording and after a crash:
// steps and the record are written, the capture is graded, everything is read back and checked,
// hashed, synced, and the file gets its final name. It never changes after that: what is summarized
// later is in the catalog.
//
// Threads: one at a time per file.
#ifndef PROFD_DAEMON_STORE_FILE_SEAL_H_
#define PROFD_DAEMON_STORE_FILE_SEAL_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/budget.h"
#include "daemon/capture/capture_types.h"
#include "daemon/capture/quality.h"
#include "daemon/store/file/capture_reader.h"
#include "daemon/store/file/sqlite_db.h"
#include "daemon/store/file/steps.h"

namespace profd::store {

// One operator of the summary that outlives a capture's events.
struct OpSummaryRow {
  std::string name;  // As recorded (any bytes).
  int64_t calls = 0;
  int64_t self_cpu_ns = 0;
  int64_t cpu_total_ns = 0;
  int64_t min_ns = 0;
  int64_t max_ns = 0;
  int64_t self_device_ns = 0;  // In the catalog only.
};
// The rows that the catalog keeps: the largest by time on CPU or GPU, within both limits.
inline constexpr size_t kMaxCatalogOps = 200;
inline constexpr size_t kMaxCatalogNameBytes = 32 << 10;  // Of all names together.
std::vector<OpSummaryRow> LargestOps(std::vector<OpSummaryRow> ops);

// What a GPU did over all windows of a capture; which one it is, CaptureRecord::gpu says.
struct DeviceSummaryRow {
  int64_t device = 0;       // GpuDevice::number
  int64_t duration_ns = 0;  // Of the windows.
  int64_t busy_ns = 0;      // Union over its streams.
  int64_t communication_ns = 0;
  int64_t exposed_communication_ns = 0;  // While nothing was computed.
};

// The summaries that are made from a capture's events. Each may fail alone.
struct EventSummaries {
  absl::StatusOr<std::vector<OpSummaryRow>> ops = std::vector<OpSummaryRow>();
  absl::StatusOr<std::vector<DeviceSummaryRow>> devices = std::vector<DeviceSummaryRow>();
  // What comparing the ranks of a group needs of one capture, encoded
  // (daemon/report/ranks/rank_summary.h); empty: nothing.
  absl::StatusOr<std::string> ranks = std::string();
};
struct SummaryRequest {
  bool devices = false;  // Captures with GPU records.
  bool ranks = false;    // Captures of a group.
  // A recording has just ended, and its caller waits. Imports and recovered files go after it.
  bool is_urgent = false;

  friend bool operator==(const SummaryRequest&, const SummaryRequest&) = default;
};

// daemon/report computes these, which the store must not know: the program that opens a store
// passes both functions in. profd has profd-report run them, profctl calls them.
//
// The summaries of a finished file. After an error the catalog has none, and the capture's record
// says so.
using EventSummarizer = std::function<absl::StatusOr<EventSummaries>(
    const std::filesystem::path& file, const SummaryRequest& request)>;
// What the grade needs of the events. The file has all of its events, but may not be sealed. After
// an error the grade is made without them, and the record says so.
using EventChecker = std::function<absl::StatusOr<EventChecks>(const std::filesystem::path& file)>;

// The same with functions of a reader, which run in this process.
EventSummarizer SummarizerOf(
    std::function<EventSummaries(CaptureReader& reader, const SummaryRequest& request)> summarize);
EventChecker CheckerOf(std::function<absl::StatusOr<EventChecks>(CaptureReader& reader)> check);

// Where the files of capture `id` stand while and after they are made.
struct CapturePaths {
  CapturePaths(const std::filesystem::path& directory, std::string_view id);
  std::filesystem::path part;      // ID.part
  std::filesystem::path sealed;    // ID.profd
  std::filesystem::path attempts;  // ID.attempts; see recovery_attempts.h.
  std::filesystem::path reserve;   // ID.reserve
};

struct SealedCapture {
  CaptureRecord record;  // With file_bytes and file_sha256.
  std::vector<StepSummaryRow> steps;
};

// Notes in the record what was not made while the capture was stored or summarized, whatever state
// the capture is in: a sentence, and a reason unless the record has one. Logs it, too.
void NoteLeftOut(std::string note, CaptureRecord& record,
                 std::string_view reason = kOverBudgetReason);
// The same with the reason of `status`: OVER_BUDGET (daemon/base/budget.h), what ended profd-report
// (daemon/worker/report_process.h), or NOT_ANALYZED, whose message is only logged, because it is
// for the operator. `what`: "the quality checks of its events".
inline constexpr std::string_view kNotAnalyzedReason = "NOT_ANALYZED";
void NoteLeftOut(std::string_view what, const absl::Status& status, CaptureRecord& record);

// Opens a finished file from an untrusted source, to give it another record with
// SealCaptureFile(): it says that it is unfinished from then on. DATA_LOSS.
absl::StatusOr<std::unique_ptr<Database>> OpenForRewriting(const std::filesystem::path& file);

// Makes `paths.sealed` out of `paths.part`, whose chunks, names and threads `db` has
// committed. `record` is what the file will say of itself, in a terminal state; its start
// lies `start_ns` after the epoch. After any error `paths.part` stays and can be tried again.
// `steps` are those of the capture; nullopt: what the marks give. RESOURCE_EXHAUSTED, DATA_LOSS
// (what was written does not read back), INTERNAL. Steps over budget (kMaxSteps) are left out and
// named in the record. Grades the capture, unless `record` has a grade; without `check_events` by
// its record alone.
absl::StatusOr<SealedCapture> SealCaptureFile(
    std::unique_ptr<Database> db, const CapturePaths& paths, CaptureRecord record, int64_t start_ns,
    std::optional<std::vector<StepRecord>> steps = std::nullopt,
    const EventChecker& check_events = nullptr);

// The part of SealCaptureFile() after the last write: for a file that was sealed but not yet
// renamed. No process may have it open. `still_wanted` is asked between chunks; its error returned.
absl::StatusOr<SealedCapture> PublishSealedFile(
    const CapturePaths& paths,
    absl::FunctionRef<absl::Status()> still_wanted = [] { return absl::OkStatus(); });

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_SEAL_H_
