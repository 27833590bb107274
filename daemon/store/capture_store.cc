#include "daemon/store/capture_store.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "daemon/base/log.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/ulid.h"
#include "daemon/store/capture_file_writer.h"
#include "daemon/store/catalog.h"
#include "daemon/store/column_codec.h"
#include "daemon/store/data_dir.h"
#include "daemon/store/files.h"
#include "daemon/store/store_recovery.h"

namespace profd::store {
namespace {

constexpr int64_t kDefaultPageSize = 100;
constexpr int64_t kMostCandidates = 5;
constexpr std::string_view kCapturesForbidden = "captures_forbidden";

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

std::string PageToken(std::string_view last_id, const CaptureFilter& filter) {
  return StrCat(last_id, absl::StrFormat("%08x", FilterDigest(filter)));
}

absl::StatusOr<std::string> IdOfPageToken(std::string_view token, const CaptureFilter& filter) {
  if (token.empty()) return std::string();
  const std::string id(token.substr(0, kUlidLength));
  if (!IsUlid(id) || token != PageToken(id, filter)) {
    return absl::InvalidArgumentError(
        "page_token is not of a page with this filter; start again without it");
  }
  return id;
}

absl::Status NoEvents(const CaptureRecord& record) {
  if (!IsTerminal(record.state)) {
    return WithReason(
        absl::FailedPreconditionError(StrCat("capture ", record.id, " is ", ToString(record.state),
                                             "; its events can be read when it has ended")),
        "CAPTURE_RUNNING");
  }
  if (record.deleted) {
    return WithReason(absl::FailedPreconditionError(
                          StrCat("the events of capture ", record.id,
                                 " were deleted, by somebody or for room; its summary is kept")),
                      "CAPTURE_DELETED");
  }
  return WithReason(
      absl::FailedPreconditionError(StrCat("capture ", record.id, " is ", ToString(record.state),
                                           " (", ToString(record.ended_by), ") and has no events")),
      "NO_EVENTS");
}

}  // namespace

absl::StatusOr<std::unique_ptr<CaptureStore>> CaptureStore::Open(Options options, Clock& clock) {
  if (!options.measure_disk) options.measure_disk = MeasureDisk;
  ASSIGN_OR_RETURN(UniqueFd lock, ClaimDataDir(options.data_dir, options.owner));
  ASSIGN_OR_RETURN(auto catalog, Catalog::Open(options.data_dir / "catalog.db"));
  RETURN_IF_ERROR(
      RecoverStore(*catalog, CaptureFolder(options.data_dir), clock.Now(), options.summarize_ops));
  std::unique_ptr<CaptureStore> store(
      new CaptureStore(std::move(options), clock, std::move(lock), std::move(catalog)));
  RETURN_IF_ERROR(store->Evict());
  return store;
}

CaptureStore::CaptureStore(Options options, Clock& clock, UniqueFd lock,
                           std::unique_ptr<Catalog> catalog)
    : options_(std::move(options)),
      max_total_bytes_(options_.max_total_bytes),
      min_free_percent_(options_.min_free_percent),
      clock_(clock),
      lock_(std::move(lock)),
      catalog_(std::move(catalog)) {}
CaptureStore::~CaptureStore() = default;

void CaptureStore::SetLimits(int64_t max_total_bytes, int64_t min_free_percent) {
  max_total_bytes_ = max_total_bytes;
  min_free_percent_ = min_free_percent;
}

CapturePaths CaptureStore::PathsOf(std::string_view id) const {
  return CapturePaths(CaptureFolder(options_.data_dir), id);
}

absl::Status CaptureStore::InsertCapture(const CaptureRecord& record) {
  absl::MutexLock lock(&mu_);
  return catalog_->Insert(record);
}

absl::Status CaptureStore::UpdateCapture(const CaptureRecord& record) {
  absl::MutexLock lock(&mu_);
  return catalog_->Update(record);
}

absl::StatusOr<std::unique_ptr<CaptureFileSink>> CaptureStore::CreateFile(
    const CaptureRecord& record) {
  if (!IsUlid(record.id)) {
    return absl::InternalError(StrCat("'", ForDisplay(record.id, 64), "' is no capture id"));
  }
  return CaptureFileWriter::Create(
      record, clock_,
      {.directory = CaptureFolder(options_.data_dir),
       .summarize_ops = options_.summarize_ops,
       .on_sealed = [this](const SealedCapture& sealed) { KeepSummaries(sealed); }});
}

// The file is whole already: what fails here is told, and made good at the next start.
void CaptureStore::KeepSummaries(const SealedCapture& sealed) {
  const std::vector<DeviceSummaryRow> devices = SummarizeDevices(sealed);
  {
    absl::MutexLock lock(&mu_);
    absl::Status status = KeepSealed(*catalog_, sealed);
    if (status.ok()) status = catalog_->PutDeviceSummaries(sealed.record.id, devices);
    if (!status.ok()) {
      LogError(StrCat("capture=", sealed.record.id, " catalog: ", status.ToString()));
    }
  }
  if (absl::Status status = Evict(); !status.ok()) LogError(status.ToString());
}

std::vector<DeviceSummaryRow> CaptureStore::SummarizeDevices(const SealedCapture& sealed) const {
  if (!options_.summarize_devices || sealed.record.gpu.record_count == 0) return {};
  auto reader = CaptureReader::Open(PathsOf(sealed.record.id).sealed);
  absl::StatusOr<std::vector<DeviceSummaryRow>> devices;
  if (reader.ok()) {
    devices = options_.summarize_devices(**reader);
  } else {
    devices = reader.status();
  }
  if (devices.ok()) return *std::move(devices);
  LogWarning(StrCat("capture=", sealed.record.id,
                    " has no summary of its GPUs: ", devices.status().ToString()));
  return {};
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
    ASSIGN_OR_RETURN(const CaptureRecord record, catalog_->Get(id));
    if (!IsTerminal(record.state)) {
      return WithReason(absl::FailedPreconditionError(StrCat(
                            "capture ", id, " is ", ToString(record.state), "; cancel it first")),
                        "CAPTURE_RUNNING");
    }
    RETURN_IF_ERROR(catalog_->MarkDeleted(id, /*evicted=*/false));
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

absl::Status CaptureStore::Evict() {
  absl::MutexLock one_at_a_time(&eviction_mu_);
  for (;;) {
    ASSIGN_OR_RETURN(const DiskSpace disk, options_.measure_disk(options_.data_dir));
    const bool disk_is_low = disk.free_bytes < disk.total_bytes / 100 * min_free_percent_;
    std::string id;
    {
      absl::MutexLock lock(&mu_);
      ASSIGN_OR_RETURN(const Catalog::Totals totals, catalog_->Count());
      if (!disk_is_low && totals.file_bytes <= max_total_bytes_) return absl::OkStatus();
      ASSIGN_OR_RETURN(const std::optional<std::string> oldest, catalog_->OldestWithFile());
      if (!oldest.has_value()) return absl::OkStatus();
      id = *oldest;
      RETURN_IF_ERROR(catalog_->MarkDeleted(id, /*evicted=*/true));
    }
    RETURN_IF_ERROR(RemoveFile(PathsOf(id).sealed));
    LogInfo(StrCat("capture=", id, " events removed to make room: ",
                   disk_is_low ? "the disk is nearly full" : "captures take more than the cap"));
  }
}

absl::Status CaptureStore::CheckRoom() {
  RETURN_IF_ERROR(Evict());
  ASSIGN_OR_RETURN(const DiskSpace disk, options_.measure_disk(options_.data_dir));
  const int64_t needed_bytes =
      std::max(disk.total_bytes / 100 * min_free_percent_, 2 * CaptureFileWriter::kReserveBytes);
  if (disk.free_bytes >= needed_bytes) return absl::OkStatus();
  return WithReason(
      absl::ResourceExhaustedError(StrCat(
          options_.data_dir.string(), " has ", disk.free_bytes, " bytes free and profd keeps ",
          needed_bytes, " free: make room on this disk, or use another --data-dir")),
      "DISK_FULL");
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
    std::vector<CaptureRecord> rows;
    {
      absl::MutexLock lock(&mu_);
      ASSIGN_OR_RETURN(rows, catalog_->List(filter, kDefaultPageSize, before));
    }
    before = std::ssize(rows) == kDefaultPageSize ? rows.back().id : std::string();
    for (CaptureRecord& row : rows) {
      if (is_meant(row)) found.push_back(std::move(row));
    }
  } while (!before.empty() && std::ssize(found) <= kMostCandidates);
  if (found.size() == 1) return std::move(found[0]);
  if (found.empty()) {
    return absl::NotFoundError(StrCat("no capture's id starts with ", filter.id_prefix));
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
  if (!IsTerminal(record.state) || record.file_bytes == 0) return NoEvents(record);
  return PathsOf(id).sealed;
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
  if (!absl::IsNotFound(reader.status())) return reader;
  record.deleted = true;  // Between the two looks.
  return NoEvents(record);
}

absl::StatusOr<CaptureDownload> CaptureStore::OpenForDownload(std::string_view id) {
  CaptureRecord record;
  ASSIGN_OR_RETURN(const std::filesystem::path path, FindFile(id, record));
  absl::StatusOr<UniqueFd> file = OpenForReading(path);
  if (absl::IsNotFound(file.status())) {
    record.deleted = true;
    return NoEvents(record);
  }
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
  StoreUsage usage = {.max_total_bytes = max_total_bytes_, .min_free_percent = min_free_percent_};
  ASSIGN_OR_RETURN(usage.disk, options_.measure_disk(options_.data_dir));
  const std::filesystem::path folder = CaptureFolder(options_.data_dir);
  ASSIGN_OR_RETURN(const std::vector<std::string> unfinished, ListIds(folder, ".part"));
  for (const std::string& id : unfinished) {
    // Gone by now, if it was finished meanwhile.
    usage.capture_bytes += FileBytes(PathsOf(id).part).value_or(0);
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> uploads, ListIds(folder, kUploadSuffix));
  for (const std::string& id : uploads) {
    usage.capture_bytes += FileBytes(folder / StrCat(id, kUploadSuffix)).value_or(0);
  }
  absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(const Catalog::Totals totals, catalog_->Count());
  usage.capture_count = totals.captures_with_file;
  usage.capture_bytes += totals.file_bytes;
  usage.evicted_capture_count = totals.evicted;
  usage.catalog_bytes = catalog_->SizeOnDisk();
  return usage;
}

absl::Status CaptureStore::AppendAudit(const AuditEntry& entry) {
  absl::MutexLock lock(&mu_);
  return catalog_->AppendAudit(entry);
}

absl::StatusOr<AuditPage> CaptureStore::ListAudit(const AuditFilter& filter, int64_t limit,
                                                  int64_t before) {
  absl::MutexLock lock(&mu_);
  return catalog_->ListAudit(filter, limit, before);
}

absl::StatusOr<std::optional<std::string>> CaptureStore::CapturesForbidden() {
  absl::MutexLock lock(&mu_);
  return catalog_->GetSwitch(kCapturesForbidden);
}

absl::Status CaptureStore::ForbidCaptures(const std::optional<std::string>& reason) {
  absl::MutexLock lock(&mu_);
  if (!reason.has_value()) return catalog_->RemoveSwitch(kCapturesForbidden);
  return catalog_->PutSwitch(kCapturesForbidden, *reason);
}

}  // namespace profd::store
