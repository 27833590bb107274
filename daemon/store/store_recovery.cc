#include "daemon/store/store_recovery.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "daemon/base/budget.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/store/capture_recovery.h"
#include "daemon/store/capture_store.h"
#include "daemon/store/data_dir.h"
#include "daemon/store/file/files.h"
#include "daemon/store/file/record_codec.h"
#include "daemon/store/recovery_attempts.h"

namespace profd::store {
namespace {

void Remove(const std::filesystem::path& path) {
  if (absl::Status status = RemoveFile(path); !status.ok()) LogWarning(status.ToString());
}

// The record of a finished file, without reading anything else of it.
absl::StatusOr<CaptureRecord> ReadSealedRecord(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const auto db, Database::Open(path, Database::Mode::kImmutableUntrusted));
  StatementLease query = db->Use("SELECT value FROM meta WHERE key = 'record'");
  ASSIGN_OR_RETURN(const bool row, query->Step());
  if (!row) return absl::DataLossError("it has no record");
  return DecodeRecord(query->Bytes(0));
}

// False: for certain it is not there. A disk that fails is no reason to give a capture up.
bool MayExist(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) || error;
}

// What EndRows() gave a capture that ran.
bool WasEndedHere(const CaptureRecord& record) {
  return record.ended_by == EndedBy::kDaemonStop && record.file_bytes == 0 && !record.deleted;
}

}  // namespace

StoreRecovery::StoreRecovery(Catalog& catalog, absl::Mutex& catalog_mu,
                             std::filesystem::path folder, absl::Time now, Summarize summarize)
    : catalog_(catalog),
      catalog_mu_(catalog_mu),
      folder_(std::move(folder)),
      now_(now),
      summarize_(std::move(summarize)) {}

bool StoreRecovery::IsRecovering(std::string_view id) const {
  absl::MutexLock lock(&mu_);
  return std::find(waiting_.begin(), waiting_.end(), id) != waiting_.end();
}

size_t StoreRecovery::waiting_count() const {
  absl::MutexLock lock(&mu_);
  return waiting_.size();
}

void StoreRecovery::Await(const std::string& id) {
  absl::MutexLock lock(&mu_);
  waiting_.push_back(id);
}

absl::StatusOr<std::optional<CaptureRecord>> StoreRecovery::Find(const std::string& id) {
  absl::MutexLock lock(&catalog_mu_);
  std::optional<CaptureRecord> found;
  absl::StatusOr<CaptureRecord> record = catalog_.Get(id);
  if (absl::IsNotFound(record.status())) return found;
  RETURN_IF_ERROR(record.status());
  found = *std::move(record);
  return found;
}

// ---- the rows ----

absl::Status StoreRecovery::EndRows() {
  {
    absl::MutexLock lock(&mu_);
    waiting_.clear();  // Of a call that the full disk ended.
  }
  RETURN_IF_ERROR(RemoveLeftovers());
  ASSIGN_OR_RETURN(const std::vector<std::string> parts, ListIds(folder_, ".part"));
  for (const std::string& id : parts) RETURN_IF_ERROR(EndRowOfPart(id));
  // After the parts: a finished file wins over what its unfinished name said about the row.
  ASSIGN_OR_RETURN(const std::vector<std::string> listed, ListIds(folder_, ".profd"));
  const std::set<std::string> files(listed.begin(), listed.end());
  for (const std::string& id : files) RETURN_IF_ERROR(EndRowOfSealed(id));
  // Rows last, when every file has a row: what still has none was lost, and what is still
  // unfinished kept nothing.
  RETURN_IF_ERROR(NoteMissingFiles(files));
  return EndUnfinished();
}

absl::Status StoreRecovery::RemoveLeftovers() {
  // Reserves; uploads, whose senders were not told that they are kept; attempts half counted.
  for (const std::string& suffix :
       {std::string(".reserve"), std::string(kUploadSuffix), StrCat(kUploadSuffix, "-journal"),
        StrCat(kAttemptsSuffix, "-new")}) {
    ASSIGN_OR_RETURN(const std::vector<std::string> ids, ListIds(folder_, suffix));
    for (const std::string& id : ids) Remove(folder_ / StrCat(id, suffix));
  }
  // Journals whose file is gone; the others are used up by opening it.
  ASSIGN_OR_RETURN(const std::vector<std::string> journals, ListIds(folder_, ".part-journal"));
  for (const std::string& id : journals) {
    const std::filesystem::path part = CapturePaths(folder_, id).part;
    const std::filesystem::path journal = part.string() + "-journal";
    // SQLite makes ordinary files only, and would wait for a FIFO's writer.
    if (!MayExist(part) || absl::IsDataLoss(CheckIsOrdinary(journal))) Remove(journal);
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> counted, ListIds(folder_, kAttemptsSuffix));
  for (const std::string& id : counted) {
    const CapturePaths paths(folder_, id);
    const bool has_file = MayExist(paths.part) || MayExist(paths.sealed);
    if (!has_file) EndAttempt(paths);
  }
  return absl::OkStatus();
}

absl::Status StoreRecovery::EndRowOfPart(const std::string& id) {
  const CapturePaths paths(folder_, id);
  ASSIGN_OR_RETURN(std::optional<CaptureRecord> known, Find(id));
  if (known.has_value() && known->deleted) {
    Remove(paths.part);
    return absl::OkStatus();
  }
  Await(id);
  if (!known.has_value() || IsTerminal(known->state)) return absl::OkStatus();
  MarkStoppedByDaemon(*known, now_);
  if (MayHoldEvents(paths.part)) {
    known->state = CaptureState::kPartial;
    known->error_reason.clear();
    known->error_message.clear();
  }
  absl::MutexLock lock(&catalog_mu_);
  return catalog_.Update(*known);
}

absl::Status StoreRecovery::EndRowOfSealed(const std::string& id) {
  const CapturePaths paths(folder_, id);
  ASSIGN_OR_RETURN(std::optional<CaptureRecord> known, Find(id));
  if (known.has_value() && known->deleted) {
    Remove(paths.sealed);
    return absl::OkStatus();
  }
  const bool is_kept = known.has_value() && IsTerminal(known->state) && known->file_bytes > 0;
  // A count of attempts next to a kept file means that a daemon ended while it made the summaries.
  // They are made again.
  if (is_kept && !MayExist(paths.attempts)) return absl::OkStatus();
  Await(id);
  if (is_kept) return absl::OkStatus();
  absl::StatusOr<CaptureRecord> record = ReadSealedRecord(paths.sealed);
  if (record.ok() && record->id == id && IsTerminal(record->state)) {
    record->file_bytes = 0;  // Until it is known to be whole.
    record->file_sha256.clear();
    absl::MutexLock lock(&catalog_mu_);
    return catalog_.InsertOrUpdate(*record);
  }
  if (!known.has_value() || IsTerminal(known->state)) return absl::OkStatus();
  MarkStoppedByDaemon(*known, now_);
  absl::MutexLock lock(&catalog_mu_);
  return catalog_.Update(*known);
}

absl::Status StoreRecovery::NoteMissingFiles(const std::set<std::string>& files) {
  absl::MutexLock lock(&catalog_mu_);
  ASSIGN_OR_RETURN(const std::vector<std::string> expected, catalog_.ListIdsWithFile());
  for (const std::string& id : expected) {
    const CapturePaths paths(folder_, id);
    if (files.contains(id) || MayExist(paths.part)) continue;
    LogWarning(StrCat("capture=", id, " has lost its file ", paths.sealed.string()));
    // Not marked as deleted: that would remove the file when it comes back, as with a file system
    // that is mounted late.
    ASSIGN_OR_RETURN(CaptureRecord record, catalog_.Get(id));
    record.file_bytes = 0;
    record.file_sha256.clear();
    record.error_reason = kFileMissingReason;
    record.error_message =
        "its file was missing when profd started: another program removed or moved it, or its file "
        "system was not mounted; profd takes it back if a start finds it";
    RETURN_IF_ERROR(catalog_.SetFile(id, 0, ""));
    RETURN_IF_ERROR(catalog_.Update(record));
  }
  return absl::OkStatus();
}

absl::Status StoreRecovery::EndUnfinished() {
  absl::MutexLock lock(&catalog_mu_);
  ASSIGN_OR_RETURN(std::vector<CaptureRecord> unfinished, catalog_.ListUnfinished());
  for (CaptureRecord& record : unfinished) {
    LogWarning(StrCat("capture=", record.id, " was ", ToString(record.state),
                      " when profd ended: FAILED, nothing was kept"));
    MarkStoppedByDaemon(record, now_);
    RETURN_IF_ERROR(catalog_.Update(record));
  }
  return absl::OkStatus();
}

// ---- the files ----

absl::Status StoreRecovery::RecoverFiles(absl::FunctionRef<absl::Status()> still_wanted) {
  for (;;) {
    RETURN_IF_ERROR(still_wanted());
    std::string id;
    {
      absl::MutexLock lock(&mu_);
      if (waiting_.empty()) return absl::OkStatus();
      // It stays in the list while it is worked on, so that IsRecovering() is true of it until its
      // row is final.
      id = waiting_.front();
    }
    const absl::Status status = RecoverFile(id, still_wanted);
    RETURN_IF_ERROR(still_wanted());
    absl::MutexLock lock(&mu_);
    waiting_.pop_front();
    RETURN_IF_ERROR(status);
  }
}

absl::Status StoreRecovery::RecoverFile(const std::string& id,
                                        absl::FunctionRef<absl::Status()> still_wanted) {
  const CapturePaths paths(folder_, id);
  // Counted on disk before the file is touched. A file that crashes the reader or exhausts memory
  // would otherwise stop every start of the daemon; after kMaxRecoveryAttempts it is set aside.
  const absl::StatusOr<int> attempt = BeginAttempt(paths);
  ASSIGN_OR_RETURN(const std::optional<CaptureRecord> known, Find(id));
  if (!attempt.ok()) {
    LogError(StrCat("capture=", id, " is left as it is: ", attempt.status().ToString()));
    if (!known.has_value() || !WasEndedHere(*known)) return absl::OkStatus();
    return Fail(*known, StrCat("its events wait in ", paths.part.string(),
                               " until profd is started with more room: ",
                               FromAbsl(attempt.status().message())));
  }
  absl::Status status;
  if (MayExist(paths.part)) {
    status = RecoverPart(paths, known, *attempt, still_wanted);
  } else if (MayExist(paths.sealed)) {
    status = RecoverSealed(paths, id, known, *attempt);
  }
  // A file that ended the daemon too often and stays where it is keeps its count: the next start
  // would read it again.
  const bool is_dangerous = *attempt > kMaxRecoveryAttempts;
  if (!std::exchange(stays_in_place_, false) || !is_dangerous) EndAttempt(paths);
  // The file did nothing to this daemon: the next one counts from the start.
  if (std::exchange(summary_cut_short_, false)) BeginAttempt(paths).IgnoreError();
  return status;
}

absl::Status StoreRecovery::RecoverPart(const CapturePaths& paths,
                                        const std::optional<CaptureRecord>& known, int attempt,
                                        absl::FunctionRef<absl::Status()> still_wanted) {
  if (known.has_value() && known->deleted) {
    Remove(paths.part);
    return absl::OkStatus();
  }
  if (attempt > kMaxRecoveryAttempts) {
    return SetAside(paths.part, known,
                    absl::ResourceExhaustedError(StrCat("profd ended ", kMaxRecoveryAttempts,
                                                        " times while it recovered this file")));
  }
  absl::StatusOr<SealedCapture> sealed = RecoverCaptureFile(paths, known, now_, still_wanted);
  if (sealed.ok()) {
    LogWarning(StrCat("capture=", sealed->record.id, " was left unfinished: kept as ",
                      ToString(sealed->record.state), " with ", sealed->record.event_count,
                      " events"));
    return Keep(*std::move(sealed), paths, attempt);
  }
  // A stop in the middle leaves the ID in the list and its count of attempts on disk: the next
  // start takes it up again.
  RETURN_IF_ERROR(still_wanted());
  if (absl::IsNotFound(sealed.status())) {
    LogInfo(StrCat(paths.part.string(), " was left unfinished and without events: removed"));
    Remove(paths.part);
    Remove(paths.part.string() + "-journal");
    if (!known.has_value() || !WasEndedHere(*known)) return absl::OkStatus();
    CaptureRecord record = *known;
    MarkStoppedByDaemon(record, known->end_time);
    absl::MutexLock lock(&catalog_mu_);
    return catalog_.Update(record);
  }
  if (absl::IsDataLoss(sealed.status())) return SetAside(paths.part, known, sealed.status());
  LogError(StrCat("a capture is left unfinished in ", paths.part.string(), ": ",
                  sealed.status().ToString()));
  if (!known.has_value() || !WasEndedHere(*known)) return absl::OkStatus();
  return Fail(*known, StrCat("its events wait in ", paths.part.string(),
                             " until profd is started with more room: ",
                             FromAbsl(sealed.status().message())));
}

absl::Status StoreRecovery::RecoverSealed(const CapturePaths& paths, const std::string& id,
                                          const std::optional<CaptureRecord>& known, int attempt) {
  const bool is_kept = known.has_value() && IsTerminal(known->state) && known->file_bytes > 0;
  if (attempt > kMaxRecoveryAttempts && !is_kept) {
    return SetAside(paths.sealed, known,
                    absl::ResourceExhaustedError(StrCat("profd ended ", kMaxRecoveryAttempts,
                                                        " times while it read this file")));
  }
  absl::StatusOr<SealedCapture> sealed = Adopt(paths, id);
  if (!sealed.ok()) return SetAside(paths.sealed, known, sealed.status());
  if (is_kept) {  // Only its summaries are missing; the row may know more than the file.
    sealed->record = *known;
    return Keep(*std::move(sealed), paths, attempt);
  }
  LogInfo(StrCat("capture=", id, " taken over from its file as ", ToString(sealed->record.state)));
  return Keep(*std::move(sealed), paths, attempt);
}

absl::StatusOr<SealedCapture> StoreRecovery::Adopt(const CapturePaths& paths,
                                                   const std::string& id) {
  ASSIGN_OR_RETURN(const auto reader, CaptureReader::Open(paths.sealed));
  SealedCapture sealed;
  sealed.record = reader->record();
  if (sealed.record.id != id || !IsTerminal(sealed.record.state)) {
    return absl::DataLossError("its record is of another capture, or of one that runs");
  }
  ASSIGN_OR_RETURN(sealed.record.file_sha256, Sha256OfFile(paths.sealed));
  ASSIGN_OR_RETURN(sealed.record.file_bytes, FileBytes(paths.sealed));
  sealed.steps = SummarizeStepTimes(reader->steps());
  return sealed;
}

absl::Status StoreRecovery::Keep(SealedCapture sealed, const CapturePaths& paths, int attempt) {
  {
    absl::MutexLock lock(&catalog_mu_);
    // The mutex is not held between Find() and here, so a caller may have deleted the capture.
    // Update() never clears that mark, and the file follows it below.
    RETURN_IF_ERROR(catalog_.InsertOrUpdate(sealed.record));
    RETURN_IF_ERROR(KeepSealed(catalog_, sealed));
    ASSIGN_OR_RETURN(const CaptureRecord kept, catalog_.Get(sealed.record.id));
    if (kept.deleted) {  // While it was recovered.
      Remove(paths.sealed);
      return absl::OkStatus();
    }
  }
  // The last attempt leaves the summaries out: they read every row, so they are what most likely
  // ended the daemon, and the events are worth keeping without them.
  if (attempt < kMaxRecoveryAttempts) {
    summary_cut_short_ = !summarize_(sealed);
  } else {
    NoteLeftOut(LeftOut("the summaries, because profd ended twice while it recovered this capture"),
                sealed.record);
  }
  if (sealed.record.error_message.empty()) return absl::OkStatus();
  absl::MutexLock lock(&catalog_mu_);
  return catalog_.Update(sealed.record);
}

absl::Status StoreRecovery::SetAside(const std::filesystem::path& file,
                                     const std::optional<CaptureRecord>& known,
                                     const absl::Status& why) {
  std::filesystem::path place = file;
  place.replace_extension(".damaged");
  std::error_code error;
  std::filesystem::rename(file, place, error);
  if (error) {
    LogWarning(FileStatus(place, error.value()).ToString());
    place = file;
    stays_in_place_ = true;
  }
  LogError(StrCat(file.string(), " cannot be read and is kept as ", place.string(),
                  " for you to remove: ", why.ToString()));
  if (!known.has_value()) return absl::OkStatus();
  return Fail(*known, StrCat("its file was damaged and is kept as ", place.string(), ": ",
                             FromAbsl(why.message())));
}

absl::Status StoreRecovery::Fail(CaptureRecord record, std::string message) {
  MarkStoppedByDaemon(record, now_);
  record.error_message = std::move(message);
  absl::MutexLock lock(&catalog_mu_);
  return catalog_.Update(record);
}

absl::Status KeepSealed(Catalog& catalog, const SealedCapture& sealed) {
  const CaptureRecord& record = sealed.record;
  RETURN_IF_ERROR(catalog.SetFile(record.id, record.file_bytes, record.file_sha256));
  return catalog.PutSummaries(record.id, {}, sealed.steps);
}

}  // namespace profd::store
