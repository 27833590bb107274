#include "daemon/store/capture_store.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <type_traits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/ulid.h"
#include "daemon/base/watchdog.h"
#include "daemon/store/catalog/catalog.h"
#include "daemon/store/data_dir.h"
#include "daemon/store/file/column_codec.h"
#include "daemon/store/file/files.h"
#include "daemon/store/file/writer.h"
#include "daemon/store/recovery_attempts.h"
#include "daemon/store/store_recovery.h"

namespace profd::store {
namespace {

constexpr int64_t kDefaultPageSize = 100;
constexpr int64_t kMostCandidates = 5;
constexpr std::string_view kRoot = "uid:0";
constexpr int64_t kSmallestCap = 1 << 20;  // That an operator can set.

std::string UpperCase(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return upper;
}

absl::StatusOr<std::string> CheckedPrefix(std::string_view prefix) {
  if (IsUlidPrefix(prefix)) return UpperCase(prefix);
  return absl::InvalidArgumentError(
      StrCat("'", ForDisplay(prefix, 64), "' is not the start of a capture's id"));
}

// A page token is the last id given and a checksum of what was asked.
uint32_t FilterDigest(const CaptureFilter& filter) {
  std::string text;
  for (const CaptureState state : filter.states) StrAppend(&text, static_cast<int>(state), ",");
  for (const auto& [key, value] : filter.labels) StrAppend(&text, "\n", key, "=", value);
  StrAppend(&text, "\n", filter.pid.value_or(-1), "\n", filter.owner_uid.value_or(-1), "\n",
            filter.name, "\n", filter.group_id, "\n", filter.id_prefix, "\n",
            filter.since.has_value() ? absl::ToUnixNanos(*filter.since) : -1, "\n",
            filter.until.has_value() ? absl::ToUnixNanos(*filter.until) : -1, "\n",
            filter.include_deleted ? 1 : 0);
  return Crc32(0, text);
}

// The last ID and not an offset: captures that come or go between two pages are neither repeated
// nor skipped.
std::string PageToken(std::string_view last_id, const CaptureFilter& filter) {
  // The checksum is not a secret. It catches a client that changes the filter between pages, which
  // would otherwise skip rows in silence.
  return StrCat(last_id, absl::StrFormat("%08x", FilterDigest(filter)));
}

absl::StatusOr<std::string> IdOfPageToken(std::string_view token, const CaptureFilter& filter) {
  if (token.empty()) return std::string();
  const std::string id(token.substr(0, kUlidLength));
  if (!IsUlid(id) || token != PageToken(id, filter)) {
    return absl::InvalidArgumentError(
        "page_token belongs to a list with another filter; start again without it");
  }
  return id;
}

absl::Status IsBeingRecovered(std::string_view id) {
  return WithReason(
      absl::FailedPreconditionError(
          StrCat("capture ", id, " is being recovered after profd was restarted; retry later")),
      "RECOVERING");
}

quota::Resource LedgerResource(HeldResource resource) {
  switch (resource) {
    case HeldResource::kStoredBytes:
      break;
    case HeldResource::kSchedules:
      return quota::Resource::kSchedules;
    case HeldResource::kAuditRows:
      return quota::Resource::kAuditRows;
  }
  return quota::Resource::kStoredBytes;
}

CatalogReserve ReserveOf(const std::filesystem::path& data_dir) {
  return CatalogReserve(data_dir / "catalog.reserve", CatalogReserve::kCatalogBytes);
}

constexpr char kCatalogName[] = "catalog.db";

CatalogReserve AuditReserveOf(const std::filesystem::path& data_dir) {
  return CatalogReserve(data_dir / "audit.reserve", CatalogReserve::kAuditBytes);
}

absl::Status NoEvents(const CaptureRecord& record) {
  if (!IsTerminal(record.state)) {
    return WithReason(
        absl::FailedPreconditionError(StrCat("capture ", record.id, " is ", ToString(record.state),
                                             "; its events can be read when it has ended")),
        "CAPTURE_RUNNING");
  }
  if (record.deleted) {
    return WithReason(
        absl::FailedPreconditionError(
            StrCat("capture ", record.id, ": ", WhyEventsAreGone(record), "; its summary is kept")),
        "CAPTURE_DELETED");
  }
  if (record.error_reason == kFileMissingReason) {
    return WithReason(
        absl::DataLossError(StrCat("capture ", record.id, ": ", record.error_message)),
        kFileMissingReason);
  }
  return WithReason(
      absl::FailedPreconditionError(StrCat("capture ", record.id, " is ", ToString(record.state),
                                           " (", ToString(record.ended_by), ") and has no events")),
      "NO_EVENTS");
}

// There is no catalog yet, or no more.
void WarnOfLostCatalog(const std::filesystem::path& data_dir) {
  std::error_code none;
  const std::filesystem::directory_iterator files(CaptureFolder(data_dir), none);
  if (none || files == std::filesystem::directory_iterator()) return;
  LogWarning(
      StrCat(kCatalogName, " is not in ", data_dir.string(),
             ", but captures are: they are added to a new one. What only the old one knew is "
             "lost: pins, schedules, the audit log, and whether captures were forbidden"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CaptureStore>> CaptureStore::Open(Options options, Clock& clock) {
  if (!options.measure_disk) options.measure_disk = MeasureDisk;
  ASSIGN_OR_RETURN(UniqueFd lock, ClaimDataDir(options.data_dir));
  const std::filesystem::path path = options.data_dir / kCatalogName;
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown) && !unknown) WarnOfLostCatalog(options.data_dir);
  absl::StatusOr<std::unique_ptr<Catalog>> catalog = Catalog::Open(path);
  // Migrating and opening in WAL mode write pages. On a full disk the reserve is what lets the
  // daemon start, so that captures can be deleted.
  if (absl::IsResourceExhausted(catalog.status()) && ReserveOf(options.data_dir).Release()) {
    LogWarning("the disk is full: the catalog is opened with its reserve");
    catalog = Catalog::Open(path);
  }
  RETURN_IF_ERROR(catalog.status());
  std::unique_ptr<CaptureStore> store(
      new CaptureStore(std::move(options), clock, std::move(lock), *std::move(catalog)));
  RETURN_IF_ERROR(store->unfinished_.AddLeftovers(CaptureFolder(store->options_.data_dir)));
  absl::Status recovered = store->Recover();
  if (absl::IsResourceExhausted(recovered) && ReserveOf(store->options_.data_dir).Release()) {
    LogWarning("the disk is full: captures are recovered with the catalog's reserve");
    recovered = store->Recover();
  }
  RETURN_IF_ERROR(recovered);
  store->ApplyRetention(/*at_once=*/true);
  RETURN_IF_ERROR(store->Settle());
  store->retention_ = std::jthread(
      [store = store.get()](const std::stop_token& stop) { store->KeepApplyingRetention(stop); });
  return store;
}

absl::Status CaptureStore::Recover() {
  RETURN_IF_ERROR(recovery_->EndRows());
  const size_t count = recovery_->waiting_count();
  if (count == 0) return absl::OkStatus();
  if (!options_.recover_in_background) {
    return recovery_->RecoverFiles([] { return absl::OkStatus(); });
  }
  LogInfo(StrCat("recovering ", count, " captures that are unfinished or not in the catalog"));
  recoverer_ = std::jthread([this](const std::stop_token& stop) {
    pthread_setname_np(pthread_self(), "profd-recover");
    const absl::Status status = recovery_->RecoverFiles([&stop]() -> absl::Status {
      return stop.stop_requested() ? absl::CancelledError("profd ends") : absl::OkStatus();
    });
    if (!status.ok() && !stop.stop_requested()) LogError(status.ToString());
    if (status.ok()) LogInfo("recovery is complete");
    TrimToCap("", "");  // For all of them.
    absl::MutexLock lock(&mu_);
    UpdateLedger();
  });
  return absl::OkStatus();
}

CaptureStore::CaptureStore(Options options, Clock& clock, UniqueFd lock,
                           std::unique_ptr<Catalog> catalog)
    : options_(std::move(options)),
      max_total_bytes_(options_.max_total_bytes),
      min_free_percent_(options_.min_free_percent),
      clock_(clock),
      lock_(std::move(lock)),
      catalog_(std::move(catalog)),
      reserve_(ReserveOf(options_.data_dir)),
      audit_reserve_(AuditReserveOf(options_.data_dir)),
      recovery_(std::make_unique<StoreRecovery>(
          *catalog_, mu_, CaptureFolder(options_.data_dir), clock_.Now(),
          [this](SealedCapture& sealed) { return Summarize(sealed, /*is_urgent=*/false); })) {}
CaptureStore::~CaptureStore() = default;

void CaptureStore::UpdateLedger() {
  if (options_.ledger == nullptr) return;
  // The ledger follows the catalog and is never a second source of truth: temporary triggers note
  // each change of a row, and this passes on the new totals.
  const absl::StatusOr<std::vector<HeldAmount>> changes = catalog_->holdings().TakeChanges();
  if (!changes.ok()) return LogError(StrCat("holdings: ", changes.status().ToString()));
  for (const HeldAmount& held : *changes) {
    options_.ledger->SetUse(quota::PrincipalFromName(held.principal, geteuid()),
                            LedgerResource(held.resource), held.amount);
  }
}

void CaptureStore::SetLimits(int64_t max_total_bytes, int64_t min_free_percent) {
  max_total_bytes_ = max_total_bytes;
  min_free_percent_ = min_free_percent;
}

CapturePaths CaptureStore::PathsOf(std::string_view id) const {
  return CapturePaths(CaptureFolder(options_.data_dir), id);
}

absl::Status CaptureStore::InsertCapture(const CaptureRecord& record) {
  absl::MutexLock lock(&mu_);
  const LedgerUpdate update(*this);
  return catalog_->Insert(record);
}

absl::Status CaptureStore::UpdateCapture(const CaptureRecord& record) {
  absl::MutexLock lock(&mu_);
  const LedgerUpdate update(*this);
  // Only an end may use the reserve. A capture in progress can fail on a full disk; one whose end
  // is lost would be shown as running until the next start.
  if (!IsTerminal(record.state)) return catalog_->Update(record);
  return WriteEssential(
      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return catalog_->Update(record); });
}

absl::StatusOr<std::unique_ptr<CaptureFileSink>> CaptureStore::CreateFile(
    const CaptureRecord& record) {
  if (!IsUlid(record.id)) {
    return absl::InternalError(StrCat("'", ForDisplay(record.id, 64), "' is not a capture ID"));
  }
  ASSIGN_OR_RETURN(
      std::unique_ptr<CaptureFileSink> file,
      CaptureFileWriter::Create(
          record, clock_,
          {.directory = CaptureFolder(options_.data_dir),
           .max_bytes = std::max(max_total_bytes_.load(), kSmallestCap),
           .check_events = options_.check_events,
           .on_sealed = [this](SealedCapture& sealed) { KeepFile(sealed, /*is_urgent=*/true); }}));
  unfinished_.Add(PathsOf(record.id).part);
  return file;
}

// The file is whole already: what fails here is logged, and made good at the next start.
void CaptureStore::KeepFile(SealedCapture& sealed, bool is_urgent) {
  {
    absl::MutexLock lock(&mu_);
    const LedgerUpdate update(*this);
    if (absl::Status status = KeepSealed(*catalog_, sealed); !status.ok()) {
      LogError(StrCat("capture=", sealed.record.id, " catalog: ", status.ToString()));
    }
    UnpinBeyondLimit(sealed.record);
  }
  // Expired captures go first. What they free need not be taken from others.
  ApplyRetention(/*at_once=*/false);
  TrimToCap(HolderOf(sealed.record), sealed.record.id);
  {
    // Final from here on, whatever the summaries do. An eviction before it spares the newest file.
    absl::MutexLock lock(&mu_);
    const LedgerUpdate update(*this);
    const absl::Status status = catalog_->Update(sealed.record);
    if (!status.ok() && !absl::IsNotFound(status)) LogError(status.ToString());
  }
  CopyCatalogLog();
  const CapturePaths paths = PathsOf(sealed.record.id);
  // Should the daemon end meanwhile, the next one knows. Without room for that, it is tried anyway.
  BeginAttempt(paths).IgnoreError();
  if (Summarize(sealed, is_urgent)) EndAttempt(paths);
}

// Or else a commit would copy it, such as that of a capture to be armed. Over a connection of its
// own: it syncs the disk, which nothing else is to wait for.
void CaptureStore::CopyCatalogLog() {
  {
    absl::MutexLock lock(&mu_);
    if (!catalog_->HasLongLog()) return;
  }
  const auto db = Database::Open(options_.data_dir / kCatalogName, Database::Mode::kReadWrite);
  // If that fails, nothing is lost: a later one copies the log.
  if (db.ok()) (*db)->Checkpoint().IgnoreError();
}

// What was pinned while it ran had no size yet.
void CaptureStore::UnpinBeyondLimit(const CaptureRecord& record) {
  if (!catalog_->IsPinned(record.id).value_or(false)) return;
  if (HasPinRoom(HolderOf(record), 0)) return;
  absl::Status status = catalog_->SetPinned(record.id, false);
  LogWarning(StrCat("capture=", record.id, " is not pinned: ", HolderOf(record),
                    " is at its limit of pinned bytes"));
  if (!status.ok()) LogError(StrCat("capture=", record.id, " catalog: ", status.ToString()));
}

bool CaptureStore::Summarize(SealedCapture& sealed, bool is_urgent) {
  if (!options_.summarize) return true;
  const std::string& id = sealed.record.id;
  // History is of what ran here.
  const bool is_of_group = !sealed.record.group_id.empty() && sealed.record.imported.source.empty();
  absl::StatusOr<EventSummaries> made =
      options_.summarize(PathsOf(id).sealed, {.devices = sealed.record.gpu.record_count > 0,
                                              .ranks = is_of_group,
                                              .is_urgent = is_urgent});
  if (absl::IsCancelled(made.status())) return false;
  if (!made.ok()) {
    // If the file is gone, it was deleted, or evicted at once.
    if (!absl::IsNotFound(made.status())) {
      NoteLeftOut("the summaries of its events", made.status(), sealed.record);
    }
    return true;
  }
  const auto take = [&sealed](std::string_view what, auto& part) {
    if (part.ok()) return *std::move(part);
    NoteLeftOut(what, part.status(), sealed.record);
    return std::remove_cvref_t<decltype(*part)>();
  };
  const std::vector<OpSummaryRow> ops = LargestOps(take("the summary of its operators", made->ops));
  const std::vector<DeviceSummaryRow> devices = take("the summary of its GPUs", made->devices);
  const std::string ranks = take("the summary of its collectives", made->ranks);
  absl::MutexLock lock(&mu_);
  const LedgerUpdate update(*this);
  absl::Status status = catalog_->PutSummaries(id, ops, sealed.steps);
  if (status.ok()) status = catalog_->PutDeviceSummaries(id, devices);
  if (status.ok() && !ranks.empty()) status = catalog_->PutRankSummary(id, ranks);
  if (!status.ok()) LogError(StrCat("capture=", id, " catalog: ", status.ToString()));
  return true;
}

absl::StatusOr<CaptureRecord> CaptureStore::GetCapture(std::string_view id) {
  absl::MutexLock lock(&mu_);
  return catalog_->Get(id);
}

absl::StatusOr<std::vector<CaptureRecord>> CaptureStore::FindRequest(std::string_view request_id,
                                                                     int64_t requested_by_uid) {
  absl::MutexLock lock(&mu_);
  return catalog_->FindRequest(request_id, requested_by_uid);
}

absl::Status CaptureStore::DeleteCapture(std::string_view id) {
  {
    absl::MutexLock lock(&mu_);
    const LedgerUpdate update(*this);
    ASSIGN_OR_RETURN(const CaptureRecord record, catalog_->Get(id));
    if (!IsTerminal(record.state)) {
      return WithReason(absl::FailedPreconditionError(StrCat(
                            "capture ", id, " is ", ToString(record.state), "; cancel it first")),
                        "CAPTURE_RUNNING");
    }
    RETURN_IF_ERROR(WriteEssential(
        [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return catalog_->MarkDeleted(id); }));
  }
  // In this order: a file without a mark would be adopted again, a mark without the unlink
  // is made good at the next start.
  return RemoveFile(PathsOf(id).sealed);
}

absl::Status CaptureStore::PutGroup(const GroupRecord& group) {
  absl::MutexLock lock(&mu_);
  return catalog_->PutGroup(group);
}

absl::StatusOr<GroupRecord> CaptureStore::GetGroup(std::string_view id) {
  absl::MutexLock lock(&mu_);
  return catalog_->GetGroup(id);
}

absl::Status CaptureStore::WriteEssential(absl::FunctionRef<absl::Status()> write) {
  absl::Status status = write();
  if (!absl::IsResourceExhausted(status) || !reserve_.Release()) return status;
  LogWarning("the disk is full: the catalog writes from its reserve");
  return write();
}

// ---- pins ----

absl::StatusOr<std::set<std::string>> CaptureStore::ListPinned() {
  absl::MutexLock lock(&mu_);
  return catalog_->ListPinned();
}

absl::StatusOr<bool> CaptureStore::IsPinned(std::string_view id) {
  absl::MutexLock lock(&mu_);
  return catalog_->IsPinned(id);
}

int64_t CaptureStore::MaxPinnedBytes(std::string_view principal) const {
  return principal.empty() || principal == kRoot ? max_total_bytes_ / 2 : max_total_bytes_ / 4;
}

bool CaptureStore::HasPinRoom(std::string_view principal, int64_t more_bytes) {
  // An error counts as no room: a pin that cannot be accounted for would keep files that nothing
  // may evict.
  const absl::StatusOr<int64_t> own = catalog_->PinnedBytes(principal);
  const absl::StatusOr<int64_t> all = catalog_->PinnedBytes("");
  return own.ok() && all.ok() && *own + more_bytes <= MaxPinnedBytes(principal) &&
         *all + more_bytes <= MaxPinnedBytes("");
}

absl::Status CaptureStore::SetPinned(std::string_view id, bool pinned) {
  absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(const CaptureRecord record, catalog_->Get(id));
  ASSIGN_OR_RETURN(const bool is_pinned, catalog_->IsPinned(id));
  if (is_pinned == pinned) return absl::OkStatus();
  if (!pinned) {  // What makes room works on a full disk.
    return WriteEssential(
        [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return catalog_->SetPinned(id, false); });
  }
  if (IsTerminal(record.state) && record.file_bytes == 0) return NoEvents(record);
  const std::string principal = HolderOf(record);
  if (HasPinRoom(principal, record.file_bytes)) return catalog_->SetPinned(id, true);
  return WithReason(
      absl::ResourceExhaustedError(
          StrCat("pinning capture ", id, " (", record.file_bytes,
                 " bytes) exceeds what pinned captures "
                 "may take: ",
                 MaxPinnedBytes(principal), " bytes for ", principal, ", ", MaxPinnedBytes(""),
                 " bytes for all; unpin others first (`profctl unpin ID`)")),
      "PIN_LIMIT");
}

absl::StatusOr<CapturePage> CaptureStore::ListCaptures(const CaptureFilter& filter,
                                                       int64_t page_size,
                                                       std::string_view page_token) {
  if (page_size < 0 || page_size > kMaxPageSize) {
    return absl::InvalidArgumentError(
        StrCat("page_size is ", page_size, "; it must be in 0..", kMaxPageSize));
  }
  if (page_size == 0) page_size = kDefaultPageSize;
  ASSIGN_OR_RETURN(const std::string before_id, IdOfPageToken(page_token, filter));
  CaptureFilter checked = filter;
  if (!filter.id_prefix.empty()) {
    ASSIGN_OR_RETURN(checked.id_prefix, CheckedPrefix(filter.id_prefix));
  }
  CapturePage page;
  {
    absl::MutexLock lock(&mu_);
    // The one row more shows whether another page follows, without a count of all matches.
    ASSIGN_OR_RETURN(page.captures, catalog_->List(checked, page_size + 1, before_id));
  }
  if (static_cast<int64_t>(page.captures.size()) > page_size) {
    page.captures.pop_back();
    page.next_page_token = PageToken(page.captures.back().id, filter);
  }
  return page;
}

absl::StatusOr<CaptureRecord> CaptureStore::ResolvePrefix(
    std::string_view id_prefix, absl::FunctionRef<bool(const CaptureRecord&)> is_meant) {
  CaptureFilter filter;
  ASSIGN_OR_RETURN(filter.id_prefix, CheckedPrefix(id_prefix));
  std::vector<CaptureRecord> found;
  std::string before;
  do {
    // Pages bound the memory, because `is_meant` may refuse most rows. The lock is not held while
    // it is called.
    std::vector<CaptureRecord> rows;
    {
      absl::MutexLock lock(&mu_);
      ASSIGN_OR_RETURN(rows, catalog_->List(filter, kDefaultPageSize, before));
    }
    before = std::ssize(rows) == kDefaultPageSize ? rows.back().id : std::string();
    for (CaptureRecord& row : rows) {
      if (is_meant(row)) found.push_back(std::move(row));
    }
    // One more than is named is enough to know that the list is longer.
  } while (!before.empty() && std::ssize(found) <= kMostCandidates);
  if (found.size() == 1) return std::move(found[0]);
  if (found.empty()) {
    return absl::NotFoundError(
        StrCat(IsUlid(filter.id_prefix) ? "no capture " : "no capture's id starts with ",
               filter.id_prefix));
  }
  std::string candidates;
  for (size_t i = 0; i < found.size(); ++i) {
    if (static_cast<int64_t>(i) == kMostCandidates) {
      StrAppend(&candidates, ", ...");
      break;
    }
    StrAppend(&candidates, i == 0 ? "" : ", ", found[i].id);
  }
  return WithReason(absl::InvalidArgumentError(
                        StrCat("several captures start with ", filter.id_prefix, ": ", candidates)),
                    "AMBIGUOUS_ID");
}

absl::StatusOr<std::filesystem::path> CaptureStore::FindFile(std::string_view id,
                                                             CaptureRecord& record) {
  {
    absl::MutexLock lock(&mu_);
    ASSIGN_OR_RETURN(record, catalog_->Get(id));
  }
  if (!IsTerminal(record.state) || record.file_bytes == 0) {
    if (!record.deleted && recovery_->IsRecovering(id)) return IsBeingRecovered(id);
    return NoEvents(record);
  }
  return PathsOf(id).sealed;
}

absl::Status CaptureStore::WhyFileIsGone(std::string_view id) {
  absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(const CaptureRecord record, catalog_->Get(id));
  if (record.deleted || record.file_bytes == 0) return NoEvents(record);  // Since it was looked up.
  return WithReason(
      absl::DataLossError(StrCat(
          "the file of capture ", id, " is missing: another program removed or moved ",
          PathsOf(id).sealed.string(), ", or its file system is not mounted; its summary is kept")),
      kFileMissingReason);
}

absl::StatusOr<std::unique_ptr<CaptureReader>> CaptureStore::OpenReader(std::string_view id) {
  CaptureRecord record;
  ASSIGN_OR_RETURN(const std::filesystem::path path, FindFile(id, record));
  auto reader = CaptureReader::Open(path);
  // We wrote it: whatever keeps it from being read is damage.
  if (absl::IsInvalidArgument(reader.status())) {
    return absl::DataLossError(
        StrCat("the file of capture ", id, " is damaged: ", FromAbsl(reader.status().message())));
  }
  // The mutex is not held while a file is opened, so an eviction may remove the file after its row
  // was read.
  if (!absl::IsNotFound(reader.status())) return reader;
  return WhyFileIsGone(id);
}

absl::StatusOr<CaptureDownload> CaptureStore::OpenForDownload(std::string_view id) {
  CaptureRecord record;
  ASSIGN_OR_RETURN(const std::filesystem::path path, FindFile(id, record));
  absl::StatusOr<UniqueFd> file = OpenForReading(path);
  if (absl::IsNotFound(file.status())) return WhyFileIsGone(id);
  RETURN_IF_ERROR(file.status());
  return CaptureDownload{
      .file = *std::move(file), .size_bytes = record.file_bytes, .sha256 = record.file_sha256};
}

absl::StatusOr<CaptureSummaries> CaptureStore::GetSummaries(std::string_view id) {
  absl::MutexLock lock(&mu_);
  return catalog_->GetSummaries(id);
}

absl::StatusOr<std::vector<SummarizedCapture>> CaptureStore::ListSummaries(
    const CaptureFilter& filter, const SummaryParts& parts, int64_t limit,
    std::string_view before_id) {
  absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(std::vector<CaptureRecord> records, catalog_->List(filter, limit, before_id));
  std::vector<SummarizedCapture> captures;
  captures.reserve(records.size());
  for (CaptureRecord& record : records) {
    ASSIGN_OR_RETURN(CaptureSummaries summaries, catalog_->ReadSummaries(record.id, parts));
    captures.push_back({.record = std::move(record), .summaries = std::move(summaries)});
  }
  return captures;
}

absl::StatusOr<StoreUsage> CaptureStore::Usage() {
  Clock& clock = Clock::Real();  // Those of tests stand still.
  const absl::Duration end = clock.Monotonic() + kUsagePatience;
  while (!mu_.TryLock()) {
    if (clock.Monotonic() >= end) {
      const absl::MutexLock lock(&memory_mu_);
      StoreUsage usage = last_usage_;
      usage.is_outdated = true;
      return usage;
    }
    absl::SleepFor(absl::Milliseconds(5));
  }
  absl::StatusOr<StoreUsage> usage = ReadUsage();
  mu_.Unlock();
  if (!usage.ok()) return usage;
  ASSIGN_OR_RETURN(usage->disk, options_.measure_disk(options_.data_dir));
  usage->capture_bytes += unfinished_.Bytes();
  const absl::MutexLock lock(&memory_mu_);
  last_usage_ = *usage;
  return usage;
}

absl::StatusOr<StoreUsage> CaptureStore::ReadUsage() {
  StoreUsage usage = {.max_total_bytes = max_total_bytes_, .min_free_percent = min_free_percent_};
  ASSIGN_OR_RETURN(const Catalog::Totals totals, catalog_->Count());
  usage.capture_count = totals.captures_with_file;
  usage.capture_bytes = totals.file_bytes;
  usage.evicted_capture_count = totals.evicted;
  ASSIGN_OR_RETURN(usage.pinned_bytes, catalog_->PinnedBytes(""));
  usage.catalog_bytes = catalog_->SizeOnDisk();
  return usage;
}

absl::Status CaptureStore::AppendAudit(const AuditEntry& entry) {
  absl::StatusOr<bool> appended;
  {
    absl::MutexLock lock(&mu_);
    const LedgerUpdate update(*this);
    appended = catalog_->AppendAudit(entry);
    if (absl::IsResourceExhausted(appended.status()) && audit_reserve_.Release()) {
      appended = catalog_->AppendAudit(entry);
    }
    // CheckAudit() writes it before it lets other calls proceed.
    if (!appended.ok()) unwritten_audit_ = entry;
  }
  if (options_.on_audit) {
    options_.on_audit(entry, /*written=*/appended.ok(), /*repeated=*/appended.ok() && !*appended);
  }
  return appended.status();
}

absl::Status CaptureStore::CheckAudit() {
  absl::MutexLock lock(&mu_);
  const LedgerUpdate update(*this);
  absl::Status status;
  if (unwritten_audit_.has_value()) status = catalog_->AppendAudit(*unwritten_audit_).status();
  if (status.ok()) unwritten_audit_.reset();
  if (status.ok() && audit_reserve_.Fill()) return absl::OkStatus();
  return WithReason(
      absl::ResourceExhaustedError(
          "the audit log cannot be written, so no caller may act on what belongs to others: free "
          "space on the disk of profd's captures (`profctl node` shows it), and retry"),
      "AUDIT_UNAVAILABLE");
}

absl::StatusOr<AuditPage> CaptureStore::ListAudit(const AuditFilter& filter, int64_t limit,
                                                  int64_t before,
                                                  absl::FunctionRef<absl::Status()> still_wanted) {
  ASSIGN_OR_RETURN(const auto db,
                   Database::Open(options_.data_dir / kCatalogName, Database::Mode::kReadOnly));
  absl::Status why_not;
  // A filter that matches nothing reads the whole table. A second connection in WAL mode does this
  // without the mutex; a caller that has gone ends it.
  db->StopWhen([&] {
    ReportProgress();
    why_not = still_wanted();
    return !why_not.ok();
  });
  absl::StatusOr<AuditPage> page = Catalog::ListAudit(*db, filter, limit, before);
  RETURN_IF_ERROR(why_not);
  return page;
}

absl::StatusOr<std::optional<std::string>> CaptureStore::CapturesForbidden() {
  absl::MutexLock lock(&memory_mu_);
  return captures_forbidden_;
}

absl::Status CaptureStore::ForbidCaptures(const std::optional<std::string>& reason) {
  {
    // The switch holds in memory before it is written: an operator who stops captures on a full
    // disk gets that, and the error says that a restart would undo it.
    absl::MutexLock lock(&memory_mu_);
    captures_forbidden_ = reason;
  }
  absl::MutexLock lock(&mu_);
  // What is said now: of two at once, the later one may have been written already.
  std::optional<std::string> latest;
  {
    absl::MutexLock memory_lock(&memory_mu_);
    latest = captures_forbidden_;
  }
  return WriteEssential([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!latest.has_value()) return catalog_->RemoveSwitch(kCapturesForbidden);
    return catalog_->PutSwitch(kCapturesForbidden, *latest);
  });
}

}  // namespace profd::store
