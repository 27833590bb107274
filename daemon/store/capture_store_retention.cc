// CaptureStore: records that are removed for good, because they are old, too many, or too large.
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/ulid.h"
#include "daemon/base/watchdog.h"
#include "daemon/store/capture_store.h"
#include "daemon/store/catalog/catalog.h"
#include "daemon/store/file/files.h"

namespace profd::store {
namespace {

// Records that are removed before others get the catalog's mutex.
constexpr int64_t kBatch = 100;
// What one round of retention removes at most, so that no capture waits long for it.
constexpr int64_t kRecordsPerRound = 1000;
// A little longer than a clock takes to settle, so that the first round after a start has one.
constexpr std::chrono::minutes kRetentionPeriod(65);
// How many stored captures pass between two rounds.
constexpr int64_t kCapturesPerRound = 16;
// Pages that are freed at once, while the catalog's mutex is held: 1 MiB.
constexpr int64_t kVacuumPages = 256;
// The catalog's part of the cap.
constexpr int64_t kCatalogShare = 4;
// The catalog may always take this much: an empty one has some 100 KiB, and a small cap must not
// remove the record of a capture that has just ended.
constexpr int64_t kSmallestCatalogPart = 512 << 10;

}  // namespace

absl::StatusOr<PurgeResult> CaptureStore::PurgeCaptures(
    absl::Time before, bool dry_run, absl::FunctionRef<bool(const CaptureRecord&)> is_meant) {
  PurgeResult result;
  CaptureFilter filter;
  filter.until = before;
  std::string before_id;
  for (;;) {
    ReportProgress();
    std::vector<CaptureRecord> records;
    std::set<std::string> pinned;
    {
      absl::MutexLock lock(&mu_);
      ASSIGN_OR_RETURN(records, catalog_->List(filter, kBatch, before_id));
      ASSIGN_OR_RETURN(pinned, catalog_->ListPinned());
    }
    std::vector<StoredRecord> batch;
    for (const CaptureRecord& record : records) {
      if (!IsTerminal(record.state) || pinned.contains(record.id) || !is_meant(record)) continue;
      batch.push_back({.id = record.id, .group_id = record.group_id, .bytes = record.file_bytes});
    }
    if (!dry_run) {
      ASSIGN_OR_RETURN(batch, RemoveRecords(std::move(batch)));
    }
    result.capture_count += std::ssize(batch);
    for (const StoredRecord& removed : batch) result.file_bytes += removed.bytes;
    if (std::ssize(records) < kBatch) return result;
    before_id = records.back().id;
  }
}

absl::StatusOr<std::vector<StoredRecord>> CaptureStore::RemoveRecords(
    std::vector<StoredRecord> records) {
  std::vector<StoredRecord> removed;
  for (StoredRecord& record : records) {
    ReportProgress();
    // The file goes before the row. In the other order, a crash in between would leave a file
    // without a row, which the next start adopts as a capture. A capture without a file cannot be
    // pinned.
    if (record.bytes > 0) {
      ASSIGN_OR_RETURN(const bool is_removed,
                       RemoveUnpinned(record.id, /*evicted_for=*/std::nullopt));
      if (!is_removed) continue;
    }
    removed.push_back(std::move(record));
  }
  if (removed.empty()) return removed;
  absl::MutexLock lock(&mu_);
  const LedgerUpdate update(*this);
  RETURN_IF_ERROR(WriteEssential(
      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return catalog_->Remove(removed); }));
  // 256 pages of 4 KiB bound the time under the mutex. What is left free is reused or given back by
  // a later batch.
  RETURN_IF_ERROR(catalog_->Vacuum(kVacuumPages));
  return removed;
}

absl::Status CaptureStore::RemoveSome(std::string_view why,
                                      absl::StatusOr<std::vector<StoredRecord>> found) {
  RETURN_IF_ERROR(found.status());
  int64_t removed_count = 0;
  for (size_t begin = 0; begin < found->size(); begin += kBatch) {
    const size_t end = std::min<size_t>(found->size(), begin + kBatch);
    ASSIGN_OR_RETURN(const auto removed,
                     RemoveRecords({found->begin() + static_cast<int64_t>(begin),
                                    found->begin() + static_cast<int64_t>(end)}));
    removed_count += std::ssize(removed);
  }
  if (removed_count > 0) LogInfo(StrCat("removed ", removed_count, " records: ", why));
  return absl::OkStatus();
}

void CaptureStore::ApplyRetention(bool at_once) {
  if (!retention_mu_.TryLock()) return;
  const bool is_round = at_once || rounds_++ % kCapturesPerRound == 0;
  if (is_round || IsCatalogOverShare()) {
    absl::Status status = RemoveExpired();
    if (status.ok()) status = ShrinkCatalog();
    if (!status.ok()) LogError(StrCat("retention: ", status.ToString()));
  }
  retention_mu_.Unlock();
}

void CaptureStore::KeepApplyingRetention(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "profd-retain");
  for (;;) {
    bool is_trim = false;
    {
      std::unique_lock lock(trim_mu_);
      is_trim = trim_wake_.wait_for(lock, stop, kRetentionPeriod, [&] { return trim_is_due_; });
      trim_is_due_ = false;
    }
    if (stop.stop_requested()) return;
    if (is_trim) {
      const absl::Status status = TrimAsOperator();
      if (!status.ok()) LogError(StrCat("eviction: ", status.ToString()));
    }
    ApplyRetention(/*at_once=*/true);
  }
}

void CaptureStore::TrimSoon() {
  {
    const std::lock_guard lock(trim_mu_);
    trim_is_due_ = true;
  }
  trim_wake_.notify_one();
}

absl::Status CaptureStore::RemoveExpired() {
  absl::StatusOr<std::vector<StoredRecord>> found;
  const std::optional<absl::Time> now = age_clock_.Now();
  if (options_.keep_records > absl::ZeroDuration() && now.has_value()) {
    {
      absl::MutexLock lock(&mu_);
      // An ID begins with its time, so the smallest ID of a moment bounds all older captures, and
      // the primary index finds them.
      found = catalog_->ListOldest(NewUlid(*now - options_.keep_records), kRecordsPerRound);
    }
    RETURN_IF_ERROR(RemoveSome("older than keep-records", std::move(found)));
  }
  std::vector<RecordHolder> holders;
  {
    absl::MutexLock lock(&mu_);
    ASSIGN_OR_RETURN(holders, catalog_->ListRecordHolders());
  }
  for (const RecordHolder& holder : holders) {
    const int64_t excess = holder.records - options_.max_records;
    if (options_.max_records <= 0 || excess <= 0) continue;
    {
      absl::MutexLock lock(&mu_);
      found = catalog_->ListOldestOf(holder.principal, std::min(excess, kRecordsPerRound));
    }
    RETURN_IF_ERROR(
        RemoveSome(StrCat(holder.principal, " has more than max-records"), std::move(found)));
  }
  return absl::OkStatus();
}

bool CaptureStore::IsCatalogOverShare() {
  absl::MutexLock lock(&mu_);
  const int64_t part = std::max(max_total_bytes_ / kCatalogShare, kSmallestCatalogPart);
  return catalog_->UsedBytes().value_or(0) > part;
}

// Takes from the principal with most, root last.
absl::Status CaptureStore::ShrinkCatalog() {
  int64_t left = kRecordsPerRound;
  while (left > 0 && IsCatalogOverShare()) {
    absl::StatusOr<std::vector<StoredRecord>> found;
    {
      absl::MutexLock lock(&mu_);
      ASSIGN_OR_RETURN(const std::vector<RecordHolder> holders, catalog_->ListRecordHolders());
      if (holders.empty()) return absl::OkStatus();
      const auto largest =
          std::ranges::max_element(holders, [](const RecordHolder& a, const RecordHolder& b) {
            const bool a_is_root = a.principal == "uid:0";
            const bool b_is_root = b.principal == "uid:0";
            if (a_is_root != b_is_root) return a_is_root;
            return a.bytes < b.bytes;
          });
      // A few at a time: the first ones may be enough.
      found =
          catalog_->ListOldestOf(largest->principal, std::max<int64_t>(1, largest->records / 8));
    }
    RETURN_IF_ERROR(found.status());
    if (found->empty()) return absl::OkStatus();
    left -= std::ssize(*found);
    RETURN_IF_ERROR(
        RemoveSome("the catalog takes more than its part of max-storage", std::move(found)));
  }
  return absl::OkStatus();
}

}  // namespace profd::store
