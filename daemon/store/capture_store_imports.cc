// CaptureStore: captures that were made elsewhere.
#include <algorithm>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/ulid.h"
#include "daemon/store/capture_store.h"
#include "daemon/store/catalog/catalog.h"
#include "daemon/store/data_dir.h"
#include "daemon/store/file/check.h"
#include "daemon/store/file/files.h"
#include "daemon/store/file/reader.h"
#include "daemon/store/file/writer.h"
#include "daemon/store/store_recovery.h"

namespace profd::store {
namespace {

// How far from now an id may have been made that is kept.
constexpr absl::Duration kMaxIdAge = absl::Minutes(10);

absl::Status NoRoom(int64_t bytes) {
  return WithReason(absl::ResourceExhaustedError(
                        StrCat("no room for ", bytes,
                               " bytes on the disk of profd's captures: make "
                               "room there (`profctl node` shows it), and import again")),
                    "DISK_FULL");
}

// The file is closed again: it is opened for writing next.
absl::StatusOr<CaptureContents> LoadContents(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const auto reader,
                   CaptureFileReader::Open(path, CaptureFileReader::Accept::kSealed));
  return reader->contents();
}

}  // namespace

absl::StatusOr<std::unique_ptr<IncomingCapture>> CaptureStore::BeginImport(int64_t total_bytes) {
  if (total_bytes <= 0) {
    return absl::InvalidArgumentError(StrCat("a capture file of ", total_bytes, " bytes"));
  }
  const int64_t most = std::min<int64_t>(kMaxImportBytes, max_total_bytes_);
  if (total_bytes > most) {
    return WithReason(absl::ResourceExhaustedError(
                          StrCat("the capture file has ", total_bytes,
                                 " bytes, and this profd takes at "
                                 "most ",
                                 most, ": use the file itself, it works in every command")),
                      "TOO_LARGE");
  }
  // Held until Create() counts the promise, or two imports could be promised the same space.
  absl::MutexLock lock(&import_mu_);
  ASSIGN_OR_RETURN(const DiskSpace disk, options_.measure_disk(options_.data_dir));
  // Nothing is evicted for what may turn out to be no capture.
  // Uploads that are under way have been promised space that the disk still shows as free. Without
  // them, two large uploads would both be accepted and one would fail near its end.
  const int64_t taken_bytes = KeptFree(disk) + promised_import_bytes_;
  if (disk.free_bytes < taken_bytes || disk.free_bytes - taken_bytes < total_bytes) {
    return NoRoom(total_bytes);
  }
  const std::filesystem::path folder = CaptureFolder(options_.data_dir);
  // The name is an ID of our own: the one in the file is not known yet, and may be that of a
  // capture that is here.
  const std::filesystem::path path = folder / StrCat(NewUlid(clock_.Now()), kUploadSuffix);
  ASSIGN_OR_RETURN(std::unique_ptr<IncomingCapture> incoming,
                   IncomingCapture::Create(path, total_bytes, promised_import_bytes_));
  unfinished_.Add(path);
  return incoming;
}

absl::StatusOr<CaptureRecord> CaptureStore::FinishImport(
    std::unique_ptr<IncomingCapture> incoming, const Importer& importer,
    absl::FunctionRef<absl::Status()> still_wanted) {
  RETURN_IF_ERROR(incoming->CheckComplete());
  ASSIGN_OR_RETURN(const UniqueFd file, incoming->OpenReadOnly());
  ASSIGN_OR_RETURN(const int64_t events, CheckWholeCapture(file.get(), still_wanted));
  return FinishCheckedImport(std::move(incoming), importer, events);
}

absl::StatusOr<CaptureRecord> CaptureStore::FinishCheckedImport(
    std::unique_ptr<IncomingCapture> incoming, const Importer& importer, int64_t event_count) {
  RETURN_IF_ERROR(incoming->CheckComplete());
  ASSIGN_OR_RETURN(const CaptureContents contents, LoadContents(incoming->path()));
  ASSIGN_OR_RETURN(CaptureRecord record,
                   TakeImportedRecord(contents.record, importer, clock_.Now()));
  // The record is the sender's claim; `event_count` was counted row by row.
  record.event_count = std::min(record.event_count, event_count);
  record.covered_steps = std::ssize(contents.steps);
  // So that no two take the same id, and no request is kept twice.
  absl::MutexLock one_at_a_time(&import_mu_);
  if (!importer.request_id.empty()) {
    ASSIGN_OR_RETURN(std::vector<CaptureRecord> earlier,
                     FindRequest(importer.request_id, importer.uid));
    for (CaptureRecord& kept : earlier) {
      const bool is_it = kept.requested_by == importer.principal && !kept.imported.source.empty();
      if (is_it) return std::move(kept);
    }
  }
  RETURN_IF_ERROR(NameImport(importer, record));
  return KeepImport(*incoming, std::move(record), contents);
}

// Ids sort by time: one of the future would never be evicted, one of long ago at once.
absl::Status CaptureStore::NameImport(const Importer& importer, CaptureRecord& record) {
  absl::MutexLock lock(&mu_);
  const bool may_stay = IsUlid(record.id) && record.id > NewUlid(clock_.Now() - kMaxIdAge) &&
                        record.id < NewUlid(clock_.Now() + kMaxIdAge);
  const bool is_taken = may_stay && !absl::IsNotFound(catalog_->Get(record.id).status());
  if (!may_stay || is_taken) record.id = NewUlid(clock_.Now());
  if (record.group_id.empty()) return absl::OkStatus();

  // No caller joins a group that others made.
  bool is_others = !absl::IsNotFound(catalog_->GetGroup(record.group_id).status());
  CaptureFilter members;
  members.group_id = record.group_id;
  ASSIGN_OR_RETURN(const std::vector<CaptureRecord> captures,
                   catalog_->List(members, kMaxPageSize, ""));
  for (const CaptureRecord& member : captures) {
    is_others =
        is_others || member.requested_by != importer.principal || member.imported.source.empty();
  }
  if (is_others) record.group_id.clear();
  return absl::OkStatus();
}

absl::StatusOr<CaptureRecord> CaptureStore::KeepImport(const IncomingCapture& incoming,
                                                       CaptureRecord record,
                                                       const CaptureContents& contents) {
  CapturePaths paths = PathsOf(record.id);
  paths.part = incoming.path();
  ASSIGN_OR_RETURN(auto db, OpenForRewriting(paths.part));
  absl::StatusOr<SealedCapture> sealed = SealCaptureFile(std::move(db), paths, std::move(record),
                                                         contents.epoch_offset_ns, contents.steps);
  if (absl::IsResourceExhausted(sealed.status())) return NoRoom(incoming.total_bytes());
  RETURN_IF_ERROR(sealed.status());
  // Should profd die here, the next one makes the row from the file.
  absl::Status status;
  {
    absl::MutexLock lock(&mu_);
    const LedgerUpdate update(*this);
    status = catalog_->Insert(sealed->record);
  }
  if (!status.ok()) {
    RemoveFile(paths.sealed).IgnoreError();
    return status;
  }
  // Nothing waits for the summaries of an import, so captures that have just ended go first.
  KeepFile(*sealed, /*is_urgent=*/false);
  // KeepFile() wrote the row before it made the summaries. Only a summary that was left out adds a
  // message.
  if (!sealed->record.error_message.empty()) {
    absl::MutexLock lock(&mu_);
    const LedgerUpdate update(*this);
    RETURN_IF_ERROR(catalog_->Update(sealed->record));
  }
  LogInfo(StrCat("capture=", sealed->record.id, " imported by ", sealed->record.requested_by,
                 " from ", sealed->record.imported.source));
  return GetCapture(sealed->record.id);
}

}  // namespace profd::store
