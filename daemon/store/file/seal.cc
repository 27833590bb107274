#include "daemon/store/file/seal.h"

#include <algorithm>
#include <span>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/store/file/files.h"
#include "daemon/store/file/reader.h"
#include "daemon/store/file/record_codec.h"
#include "daemon/store/file/schema.h"

namespace profd::store {
namespace {

absl::Status PutProcess(Database& db, const TargetInfo& target) {
  StatementLease put = db.Use(
      "INSERT OR REPLACE INTO processes(pid, namespace_pid, uid, command) "
      "VALUES(?1, ?2, ?3, ?4)");
  put->Bind(1, target.pid).Bind(2, target.namespace_pid).Bind(3, target.uid);
  RETURN_IF_ERROR(put->BindText(4, target.command).Run());
  return db.Exec(StrCat("UPDATE threads SET pid=", target.pid));
}

absl::Status PutWindows(Database& db, std::span<const WindowRecord> windows) {
  RETURN_IF_ERROR(db.Exec("DELETE FROM windows"));
  int64_t id = 0;
  for (const WindowRecord& window : windows) {
    StatementLease put = db.Use(
        "INSERT INTO windows(id, start_ns, end_ns, first_step, end_step) "
        "VALUES(?1, ?2, ?3, ?4, ?5)");
    put->Bind(1, id++).Bind(2, window.start_ns).Bind(3, window.end_ns);
    RETURN_IF_ERROR(put->Bind(4, window.first_step).Bind(5, window.end_step).Run());
  }
  return absl::OkStatus();
}

absl::Status PutDrops(Database& db, const DropCounts& drops) {
  for (size_t i = 0; i < drops.size(); ++i) {
    StatementLease put = db.Use("INSERT OR REPLACE INTO drops(reason, count) VALUES(?1, ?2)");
    put->BindText(1, ToString(static_cast<DropReason>(i))).Bind(2, drops[i]);
    RETURN_IF_ERROR(put->Run());
  }
  return absl::OkStatus();
}

absl::Status PutSteps(Database& db, std::span<const StepRecord> steps,
                      std::span<const StepSummaryRow> summary) {
  RETURN_IF_ERROR(db.Exec("DELETE FROM steps; DELETE FROM step_summary"));
  for (const StepRecord& step : steps) {
    StatementLease put = db.Use(
        "INSERT OR REPLACE INTO steps(window, step, start_ns, duration_ns) "
        "VALUES(?1, ?2, ?3, ?4)");
    put->Bind(1, step.window).Bind(2, step.index).Bind(3, step.start_ns);
    RETURN_IF_ERROR(put->Bind(4, step.duration_ns).Run());
  }
  for (const StepSummaryRow& row : summary) {
    StatementLease put = db.Use(
        "INSERT INTO step_summary(window, steps, min_ns, median_ns, mean_ns, max_ns) "
        "VALUES(?1, ?2, ?3, ?4, ?5, ?6)");
    put->Bind(1, row.window).Bind(2, row.steps).Bind(3, row.min_ns).Bind(4, row.median_ns);
    RETURN_IF_ERROR(put->Bind(5, row.mean_ns).Bind(6, row.max_ns).Run());
  }
  return absl::OkStatus();
}

// RESOURCE_EXHAUSTED: more than kMaxSteps of them.
absl::StatusOr<std::vector<StepRow>> LoadMarks(const std::filesystem::path& part) {
  ASSIGN_OR_RETURN(const auto reader,
                   CaptureFileReader::Open(part, CaptureFileReader::Accept::kUnfinished));
  const int64_t count = reader->contents().RowsOf(RowKind::kStepMark);
  if (count > kMaxSteps) return OverBudget("the list of steps", count, kMaxSteps, "step marks");
  std::vector<StepRow> marks;
  marks.reserve(static_cast<size_t>(count));
  RETURN_IF_ERROR(reader->ForEach<StepRow>([&marks](const StepBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      marks.push_back({batch.time_ns[i], batch.step[i]});
    }
    return absl::OkStatus();
  }));
  return SortMarks(std::move(marks));
}

// Notes in `record` why there are none.
absl::StatusOr<std::vector<StepRecord>> StepsOf(const CapturePaths& paths, int64_t start_ns,
                                                CaptureRecord& record) {
  const absl::StatusOr<std::vector<StepRow>> marks = LoadMarks(paths.part);
  if (IsOverBudget(marks.status())) {
    NoteLeftOut(LeftOut(marks.status()), record);
    return std::vector<StepRecord>();
  }
  RETURN_IF_ERROR(marks.status());
  return DeriveSteps(*marks, record.windows, start_ns);
}

// Everything but what is computed from the events.
absl::Status WriteRecord(Database& db, const CaptureRecord& record, int64_t start_ns,
                         std::span<const StepRecord> steps,
                         std::span<const StepSummaryRow> step_summary) {
  Transaction transaction(db);
  RETURN_IF_ERROR(transaction.status());
  RETURN_IF_ERROR(PutProcess(db, record.target));
  RETURN_IF_ERROR(PutWindows(db, record.windows));
  RETURN_IF_ERROR(PutDrops(db, record.drops));
  RETURN_IF_ERROR(PutSteps(db, steps, step_summary));
  RETURN_IF_ERROR(SetMeta(db, kMetaEpochOffset, start_ns));
  RETURN_IF_ERROR(SetMetaText(db, kMetaRecord, EncodeRecord(record)));
  return transaction.Commit();
}

// Grades the capture whose events and record `part` has.
void Grade(const std::filesystem::path& part, const EventChecker& check_events,
           CaptureRecord& record) {
  std::optional<EventChecks> events;
  if (check_events) {
    absl::StatusOr<EventChecks> checked = check_events(part);
    if (checked.ok()) {
      events = *std::move(checked);
    } else {
      NoteLeftOut("the quality checks of its events", checked.status(), record);
    }
  }
  Quality quality = ComputeQuality(record, events.has_value() ? &*events : nullptr);
  if (quality.grade == "-") return;  // Nothing was recorded.
  record.graded = {.grade = std::move(quality.grade), .checks = std::move(quality.checks)};
}

// The table of operators stays empty: they are summarized once the file cannot change any more.
absl::Status WriteSeal(Database& db, const CaptureRecord& record) {
  Transaction transaction(db);
  RETURN_IF_ERROR(transaction.status());
  RETURN_IF_ERROR(SetMetaText(db, kMetaRecord, EncodeRecord(record)));
  RETURN_IF_ERROR(db.Exec("DELETE FROM op_summary"));
  // The checksum is of what the tables give back, not of what was meant to be written.
  ASSIGN_OR_RETURN(const CaptureContents contents, CaptureContents::Load(db));
  RETURN_IF_ERROR(SetMeta(db, kMetaCrc, contents.crc));
  RETURN_IF_ERROR(SetMeta(db, kMetaSealed, 1));
  return transaction.Commit();
}

}  // namespace

CapturePaths::CapturePaths(const std::filesystem::path& directory, std::string_view id)
    : part(directory / StrCat(id, ".part")),
      sealed(directory / StrCat(id, ".profd")),
      attempts(directory / StrCat(id, ".attempts")),
      reserve(directory / StrCat(id, ".reserve")) {}

EventSummarizer SummarizerOf(
    std::function<EventSummaries(CaptureReader&, const SummaryRequest&)> summarize) {
  return [summarize = std::move(summarize)](
             const std::filesystem::path& file,
             const SummaryRequest& request) -> absl::StatusOr<EventSummaries> {
    ASSIGN_OR_RETURN(const auto reader, CaptureReader::Open(file));
    return summarize(*reader, request);
  };
}

EventChecker CheckerOf(std::function<absl::StatusOr<EventChecks>(CaptureReader&)> check) {
  return
      [check = std::move(check)](const std::filesystem::path& file) -> absl::StatusOr<EventChecks> {
        ASSIGN_OR_RETURN(const auto reader,
                         CaptureFileReader::Open(file, CaptureFileReader::Accept::kUnfinished));
        return check(*reader);
      };
}

std::vector<OpSummaryRow> LargestOps(std::vector<OpSummaryRow> ops) {
  std::stable_sort(ops.begin(), ops.end(), [](const OpSummaryRow& a, const OpSummaryRow& b) {
    return std::max(a.self_cpu_ns, a.self_device_ns) > std::max(b.self_cpu_ns, b.self_device_ns);
  });
  if (ops.size() > kMaxCatalogOps) ops.resize(kMaxCatalogOps);
  size_t name_bytes = 0;
  const auto too_many = std::ranges::find_if(ops, [&](const OpSummaryRow& op) {
    name_bytes += op.name.size();
    return name_bytes > kMaxCatalogNameBytes;
  });
  // The operators are sorted, so the names that are over the limit are those of the smallest ones.
  ops.erase(too_many, ops.end());
  return ops;
}

void NoteLeftOut(std::string_view what, const absl::Status& status, CaptureRecord& record) {
  if (IsOverBudget(status)) return NoteLeftOut(LeftOut(status), record);
  const std::string reason = ReasonOf(status);
  if (!reason.empty()) {
    return NoteLeftOut(LeftOut(StrCat(what, ": ", FromAbsl(status.message()))), record, reason);
  }
  LogWarning(StrCat("capture=", record.id, " ", what, ": ", status.ToString()));
  NoteLeftOut(LeftOut(StrCat(what, "; the log of profd says why")), record, kNotAnalyzedReason);
}

void NoteLeftOut(std::string note, CaptureRecord& record, std::string_view reason) {
  LogWarning(StrCat("capture=", record.id, " ", note));
  // Why the capture ended as it did says more.
  if (record.error_reason.empty()) record.error_reason = std::string(reason);
  record.error_message =
      record.error_message.empty() ? std::move(note) : StrCat(record.error_message, "; ", note);
}

absl::StatusOr<SealedCapture> PublishSealedFile(const CapturePaths& paths,
                                                absl::FunctionRef<absl::Status()> still_wanted) {
  SealedCapture sealed;
  {
    ASSIGN_OR_RETURN(const auto reader,
                     CaptureFileReader::Open(paths.part, CaptureFileReader::Accept::kSealed));
    ASSIGN_OR_RETURN(const std::vector<int64_t> damaged, reader->FindDamagedChunks(still_wanted));
    if (!damaged.empty()) {
      return absl::DataLossError(StrCat(paths.part.string(), ": ", damaged.size(),
                                        " chunks do not read back as they were written; is the "
                                        "disk or the memory of this machine failing?"));
    }
    sealed.record = reader->record();
    sealed.steps = SummarizeStepTimes(reader->steps());
  }
  // After the chunks were read back: the hash of a file that is already damaged would vouch for the
  // damage.
  ASSIGN_OR_RETURN(sealed.record.file_sha256, Sha256OfFile(paths.part));
  RETURN_IF_ERROR(Publish(paths.part, paths.sealed));
  return sealed;
}

absl::StatusOr<std::unique_ptr<Database>> OpenForRewriting(const std::filesystem::path& file) {
  ASSIGN_OR_RETURN(auto db, Database::Open(file, Database::Mode::kUntrusted));
  // What the disk does not have yet is synced when the file is published.
  RETURN_IF_ERROR(
      db->Exec("PRAGMA locking_mode=EXCLUSIVE; PRAGMA synchronous=OFF; PRAGMA secure_delete=OFF"));
  RETURN_IF_ERROR(CheckCaptureSchema(*db));
  // All else that is not an event is replaced row by row.
  RETURN_IF_ERROR(db->Exec("DELETE FROM processes; DELETE FROM drops"));
  RETURN_IF_ERROR(SetMeta(*db, kMetaSealed, 0));
  return db;
}

absl::StatusOr<SealedCapture> SealCaptureFile(std::unique_ptr<Database> db,
                                              const CapturePaths& paths, CaptureRecord record,
                                              int64_t start_ns,
                                              std::optional<std::vector<StepRecord>> given_steps,
                                              const EventChecker& check_events) {
  // The file cannot hold its own hash.
  record.file_bytes = 0;
  record.file_sha256.clear();
  std::vector<StepRecord> steps;
  if (given_steps.has_value()) {
    steps = *std::move(given_steps);
  } else {
    ASSIGN_OR_RETURN(steps, StepsOf(paths, start_ns, record));
  }
  // Until here, of the steps that the target's page showed when it was read, or a mean.
  if (record.step_during_ns > 0 && !steps.empty()) record.step_during_ns = MedianStepTime(steps);
  RETURN_IF_ERROR(WriteRecord(*db, record, start_ns, steps, SummarizeStepTimes(steps)));
  // The grading reads the file by a connection of its own, so the steps and the record are
  // committed before it.
  if (record.graded.grade.empty()) Grade(paths.part, check_events, record);
  RETURN_IF_ERROR(WriteSeal(*db, record));
  // Closing the last connection removes the journal. Without that, its name would stay in the
  // folder after the rename.
  RETURN_IF_ERROR(db->Close());
  return PublishSealedFile(paths);
}

}  // namespace profd::store
