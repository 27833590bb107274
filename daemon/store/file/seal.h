// The last steps of a capture file's making, the same after a recording and after a crash:
// steps and the record are written, the capture is graded, everything is read back and checked,
// hashed, synced, and the file gets its final name. It never changes after that: what is summarized
// later is in the catalog.
//
// Threads: one at a time per file.
#ifndef PROFD_DAEMON_STORE_FILE_SEAL_H_
#define PROFD_DAEMON_STORE_FILE_SEAL_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

// How operators are summarized is for daemon/report to say, which the store must not know:
// main passes it in. Called with finished files. An error leaves the catalog without that summary,
// and the capture's record says so.
using OpSummarizer = std::function<absl::StatusOr<std::vector<OpSummaryRow>>(CaptureReader&)>;

// What a GPU did over all windows of a capture; which one it is, CaptureRecord::gpu says.
struct DeviceSummaryRow {
  int64_t device = 0;       // GpuDevice::number
  int64_t duration_ns = 0;  // Of the windows.
  int64_t busy_ns = 0;      // Union over its streams.
  int64_t communication_ns = 0;
  int64_t exposed_communication_ns = 0;  // While nothing was computed.
};
using DeviceSummarizer =
    std::function<absl::StatusOr<std::vector<DeviceSummaryRow>>(CaptureReader&)>;

// What comparing the ranks of a group needs of one capture, encoded
// (daemon/report/ranks/rank_summary.h). Called for captures that belong to a group.
using RankSummarizer = std::function<absl::StatusOr<std::string>(CaptureReader&)>;

// What the grade needs of the events (daemon/report/findings/quality.h), for the seal. Called with
// a file that is not sealed yet but has all of its events. After an error the grade is made without
// them, and says so.
using EventChecker = std::function<absl::StatusOr<EventChecks>(CaptureReader&)>;

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

// Notes in the record what exceeded a budget (daemon/base/budget.h) while the capture was stored or
// summarized: OVER_BUDGET and a sentence, whatever state the capture is in. Logs it, too.
void NoteLeftOut(std::string note, CaptureRecord& record);

// Opens a finished file, that a stranger may have made, to give it another record with
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
// renamed. Nobody may have it open. `still_wanted` is asked between chunks; its error is returned.
absl::StatusOr<SealedCapture> PublishSealedFile(
    const CapturePaths& paths,
    absl::FunctionRef<absl::Status()> still_wanted = [] { return absl::OkStatus(); });

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_SEAL_H_
