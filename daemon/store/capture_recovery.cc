#include "daemon/store/capture_recovery.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "daemon/base/budget.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/store/file/files.h"
#include "daemon/store/file/reader.h"
#include "daemon/store/file/schema.h"
#include "daemon/store/file/sqlite_db.h"
#include "daemon/store/file/steps.h"

namespace profd::store {
namespace {

// Opens the file for writing, which also undoes what was not committed.
absl::StatusOr<std::unique_ptr<Database>> OpenPart(const std::filesystem::path& part) {
  ASSIGN_OR_RETURN(auto db, Database::Open(part, Database::Mode::kReadWrite));
  // The empty transaction makes SQLite look for a hot journal now. Examine() reads the file through
  // an immutable connection, which never rolls back, and would see half a transaction. The disk is
  // synced once, when the sealed file is published.
  RETURN_IF_ERROR(
      db->Exec("PRAGMA locking_mode=EXCLUSIVE; PRAGMA synchronous=OFF;"
               "PRAGMA secure_delete=OFF; PRAGMA trusted_schema=OFF; BEGIN IMMEDIATE; COMMIT"));
  RETURN_IF_ERROR(CheckCaptureSchema(*db));
  return db;
}

// Whether the daemon died before it committed the capture's record, and so before any event.
absl::StatusOr<bool> LacksRecord(Database& db) {
  ASSIGN_OR_RETURN(const int64_t has_data,
                   db.QueryInt(StrCat("SELECT EXISTS(SELECT 1 FROM meta WHERE key = '", kMetaRecord,
                                      "') OR EXISTS(SELECT 1 FROM chunks)")));
  return has_data == 0;
}

// What the chunks of a file amount to.
struct Remains {
  CaptureContents contents;
  std::vector<StepRow> marks;
  TimeSpan host_span;
  TimeSpan gpu_span;  // Work that was launched in time may have run long after it.
  int64_t rows = 0;
  int64_t damaged_rows = 0;
  std::vector<int64_t> damaged_chunks;
};

// Whether rows of the kind have times, which the spans of their chunks show.
bool HasTimes(RowKind kind) {
  bool has_times = false;
  EventTypes::Visit(kind, [&has_times]<typename Row>() {
    has_times = requires(Row row) { row.start_ns; }
    || requires(Row row) { row.time_ns; };
  });
  return has_times;
}

absl::StatusOr<Remains> Examine(const std::filesystem::path& part,
                                absl::FunctionRef<absl::Status()> still_wanted) {
  ASSIGN_OR_RETURN(const auto reader,
                   CaptureFileReader::Open(part, CaptureFileReader::Accept::kUnfinished));
  Remains remains;
  remains.contents = reader->contents();
  ASSIGN_OR_RETURN(remains.damaged_chunks, reader->FindDamagedChunks(still_wanted));
  const std::set<int64_t> known_damaged(remains.damaged_chunks.begin(),
                                        remains.damaged_chunks.end());
  for (const ChunkEntry& chunk : remains.contents.chunks) {
    const bool damaged = known_damaged.contains(chunk.id);
    if (damaged) {
      remains.damaged_rows += chunk.summary.rows;
      continue;
    }
    // What only adds to events shows no time that they do not.
    if (!AreEvents(chunk.summary.kind)) continue;
    remains.rows += chunk.summary.rows;
    if (!HasTimes(chunk.summary.kind)) continue;
    TimeSpan& span = chunk.summary.kind == RowKind::kGpu ? remains.gpu_span : remains.host_span;
    span.Add(chunk.summary.span.begin_ns);
    span.Add(chunk.summary.span.end_ns);
  }
  // The caller removes the damaged chunks and examines the file again. Reading the step marks
  // before that would fail on a damaged chunk of marks.
  if (!remains.damaged_chunks.empty()) return remains;
  // Without its steps, the capture is one window of time; sealing names what is left out.
  if (remains.contents.RowsOf(RowKind::kStepMark) > kMaxSteps) return remains;
  RETURN_IF_ERROR(reader->ForEach<StepRow>([&remains](const StepBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      remains.marks.push_back({batch.time_ns[i], batch.step[i]});
    }
    return absl::OkStatus();
  }));
  remains.marks = SortMarks(std::move(remains.marks));
  return remains;
}

absl::Status RemoveChunks(Database& db, const std::vector<int64_t>& ids) {
  for (const int64_t id : ids) {
    StatementLease remove = db.Use("DELETE FROM chunks WHERE id = ?1");
    RETURN_IF_ERROR(remove->Bind(1, id).Run());
  }
  return absl::OkStatus();
}

// Sets what follows from the events alone; the result is the start, since the epoch.
int64_t Reconstruct(const Remains& remains, CaptureRecord& record) {
  // GPU work may run long after its launch, so its times would stretch the window. They count only
  // if nothing else has any.
  const TimeSpan& span = remains.host_span.empty() ? remains.gpu_span : remains.host_span;
  const RecoveredWindows recovered = RecoverWindows(remains.marks, span);
  record.windows = recovered.windows;
  record.covered_ns = 0;
  record.covered_steps = 0;
  for (const WindowRecord& window : recovered.windows) {
    record.covered_ns += window.end_ns - window.start_ns;
    if (window.first_step >= 0) record.covered_steps += window.end_step - window.first_step;
  }
  if (record.covered_steps > 0) record.step_during_ns = record.covered_ns / record.covered_steps;
  record.start_unix_ns = remains.contents.created_unix_ns + recovered.start_ns;
  record.event_count = remains.rows;
  return recovered.start_ns;
}

void MarkPartial(absl::Time now, CaptureRecord& record) {
  if (!IsTerminal(record.state)) record.ended_by = EndedBy::kDaemonStop;
  // FAILED was said when the file could not be finished; now it can.
  if (!IsTerminal(record.state) || record.state == CaptureState::kFailed) {
    record.state = CaptureState::kPartial;
  }
  record.error_reason.clear();
  record.error_message.clear();
  if (record.end_time == absl::InfiniteFuture()) record.end_time = now;
}

}  // namespace

void MarkStoppedByDaemon(CaptureRecord& record, absl::Time now) {
  record.state = CaptureState::kFailed;
  record.ended_by = EndedBy::kDaemonStop;
  record.error_reason = "DAEMON_STOPPED";
  record.error_message = "profd was stopped before any event was kept; capture again";
  record.end_time = now;
}

bool MayHoldEvents(const std::filesystem::path& part) {
  if (HasEmptyTablesAtMost(part)) return false;
  // This runs at the start for every unfinished file, so it asks one question and checks nothing. A
  // file that cannot be read counts as one with events: recovery decides later.
  const auto db = Database::Open(part, Database::Mode::kImmutableUntrusted);
  if (!db.ok()) return true;
  const absl::StatusOr<int64_t> chunks =
      (*db)->QueryInt("SELECT EXISTS(SELECT 1 FROM chunks LIMIT 1)");
  return !chunks.ok() || *chunks != 0;
}

absl::StatusOr<SealedCapture> RecoverCaptureFile(const CapturePaths& paths,
                                                 const std::optional<CaptureRecord>& known,
                                                 absl::Time now,
                                                 absl::FunctionRef<absl::Status()> still_wanted) {
  const auto no_event = [&paths] {
    return absl::NotFoundError(StrCat(paths.part.string(), " holds no event"));
  };
  if (HasEmptyTablesAtMost(paths.part)) return no_event();
  ASSIGN_OR_RETURN(auto db, OpenPart(paths.part));
  ASSIGN_OR_RETURN(const bool lacks_record, LacksRecord(*db));  // Its commit was rolled back.
  if (lacks_record) return no_event();
  ASSIGN_OR_RETURN(Remains remains, Examine(paths.part, still_wanted));
  if (remains.contents.sealed && remains.damaged_chunks.empty()) {
    RETURN_IF_ERROR(db->Close());
    return PublishSealedFile(paths, still_wanted);
  }
  if (!remains.damaged_chunks.empty()) {
    // Sealing refuses a file with damaged chunks (PublishSealedFile), so they go first, and their
    // rows are counted as drops below. The times are taken again from the chunks that are left.
    RETURN_IF_ERROR(RemoveChunks(*db, remains.damaged_chunks));
    const int64_t damaged_rows = remains.damaged_rows;
    ASSIGN_OR_RETURN(remains, Examine(paths.part, still_wanted));
    remains.damaged_rows = damaged_rows;
  }
  if (remains.rows == 0) return no_event();

  // The file's own record is the newer one if its daemon got as far as writing it.
  const bool was_ending = IsTerminal(remains.contents.record.state);
  CaptureRecord record = was_ending || !known.has_value() ? remains.contents.record : *known;
  int64_t start_ns = remains.contents.epoch_offset_ns;
  if (!was_ending || record.start_unix_ns == 0) start_ns = Reconstruct(remains, record);
  MarkPartial(now, record);
  record.drops[static_cast<size_t>(DropReason::kDisk)] += remains.damaged_rows;
  // The record was written when all chunks were there. Some may have been removed since.
  if (was_ending) record.event_count = std::min(record.event_count, remains.rows);
  return SealCaptureFile(std::move(db), paths, std::move(record), start_ns);
}

}  // namespace profd::store
