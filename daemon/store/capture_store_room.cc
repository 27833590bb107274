// CaptureStore: what is evicted when room is needed, and for whom.
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/log.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/watchdog.h"
#include "daemon/store/capture_store.h"
#include "daemon/store/catalog/catalog.h"
#include "daemon/store/data_dir.h"
#include "daemon/store/file/files.h"
#include "daemon/store/file/writer.h"
#include "daemon/store/store_recovery.h"

namespace profd::store {
namespace {

constexpr std::string_view kOverCap = "the store is over its cap";
constexpr std::string_view kDiskIsFull = "the disk is nearly full";

}  // namespace

absl::Status CaptureStore::TrimAsOperator() {
  absl::MutexLock one_at_a_time(&eviction_mu_);
  ASSIGN_OR_RETURN(const Shortage shortage, MeasureShortage(/*with_disk=*/false));
  if (shortage.over_cap_bytes == 0) return absl::OkStatus();
  RETURN_IF_ERROR(
      Evict({.bytes = shortage.over_cap_bytes, .by_operator = true}, kOverCap).status());
  ASSIGN_OR_RETURN(const Shortage left, MeasureShortage(/*with_disk=*/false));
  if (left.over_cap_bytes > 0) {
    LogWarning(StrCat("the store stays ", left.over_cap_bytes,
                      " bytes over its cap: no other capture may be removed"));
  }
  return absl::OkStatus();
}

// The caps may have changed since the last daemon.
absl::Status CaptureStore::Settle() {
  RETURN_IF_ERROR(TrimAsOperator());
  absl::MutexLock lock(&mu_);
  // At a start, every holding counts as changed: this charges each principal for what it holds
  // already.
  const LedgerUpdate update(*this);
  ASSIGN_OR_RETURN(std::optional<std::string> forbidden, catalog_->GetSwitch(kCapturesForbidden));
  {
    const absl::MutexLock memory_lock(&memory_mu_);
    captures_forbidden_ = std::move(forbidden);
  }
  if (!reserve_.Fill()) LogWarning("the disk is full: the catalog has no reserve");
  audit_reserve_.Fill();
  return absl::OkStatus();
}

absl::StatusOr<CaptureStore::Shortage> CaptureStore::MeasureShortage(bool with_disk) {
  Shortage shortage;
  if (with_disk) {
    ASSIGN_OR_RETURN(const DiskSpace disk, options_.measure_disk(options_.data_dir));
    shortage.disk_short_bytes = std::max<int64_t>(0, KeptFree(disk) - disk.free_bytes);
  }
  // Before the mutex is taken, because it asks for the size of each file. One that is finished in
  // between is counted twice once, which at worst evicts early.
  const int64_t unfinished_bytes = unfinished_.Bytes();
  absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(const Catalog::Totals totals, catalog_->Count());
  ASSIGN_OR_RETURN(const int64_t catalog_bytes, catalog_->UsedBytes());
  shortage.over_cap_bytes =
      std::max<int64_t>(0, totals.file_bytes + unfinished_bytes + catalog_bytes - max_total_bytes_);
  return shortage;
}

int64_t CaptureStore::KeptFree(const DiskSpace& disk) const {
  // At least twice what a capture's file sets aside when it is created: below that, the next file
  // could not even be made, whatever the operator's percentage is.
  return std::max(disk.total_bytes / 100 * min_free_percent_, 2 * CaptureFileWriter::kReserveBytes);
}

absl::StatusOr<bool> CaptureStore::RemoveUnpinned(std::string_view id,
                                                  std::optional<std::string_view> evicted_for) {
  {
    absl::MutexLock lock(&mu_);
    ASSIGN_OR_RETURN(const bool is_pinned, catalog_->IsPinned(id));
    if (is_pinned) return false;
    const LedgerUpdate update(*this);
    RETURN_IF_ERROR(WriteEssential([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return evicted_for.has_value() ? catalog_->MarkEvicted(id, *evicted_for)
                                     : catalog_->MarkDeleted(id);
    }));
  }
  // Without the mutex: removing a large file can take the file system longer than a caller should
  // wait for the catalog. The order is that of DeleteCapture().
  RETURN_IF_ERROR(RemoveFile(PathsOf(id).sealed));
  return true;
}

absl::StatusOr<bool> CaptureStore::Evict(EvictionRequest request, std::string_view why) {
  for (bool is_done = false; !is_done;) {
    std::optional<std::vector<EvictableFile>> plan;
    {
      absl::MutexLock lock(&mu_);
      ASSIGN_OR_RETURN(std::vector<StorageHolder> holders, catalog_->ListHolders());
      plan = PlanEviction(request, std::move(holders));
    }
    if (!plan.has_value()) return false;
    is_done = true;
    for (const EvictableFile& file : *plan) {
      ReportProgress();
      ASSIGN_OR_RETURN(const bool is_removed, RemoveUnpinned(file.id, request.capture_id));
      if (is_removed) {
        request.bytes -= file.bytes;
        LogInfo(StrCat("capture=", file.id, " events removed to make room",
                       request.capture_id.empty() ? "" : " for ", request.capture_id, ": ", why));
      } else {
        is_done = false;  // Others are planned for what it does not give.
      }
    }
  }
  return true;
}

// After a capture of `principal` was stored: the store may be over its cap until then.
void CaptureStore::TrimToCap(std::string_view principal, std::string_view capture_id) {
  absl::MutexLock one_at_a_time(&eviction_mu_);
  const absl::StatusOr<Shortage> shortage = MeasureShortage(/*with_disk=*/false);
  absl::Status status = shortage.status();
  if (status.ok() && shortage->over_cap_bytes > 0) {
    status =
        Evict({.principal = principal, .capture_id = capture_id, .bytes = shortage->over_cap_bytes},
              kOverCap)
            .status();
  }
  if (!status.ok()) LogError(StrCat("eviction: ", status.ToString()));
}

absl::Status CaptureStore::NoRoomFor(std::string_view principal, const Shortage& shortage) {
  if (shortage.disk_short_bytes >= shortage.over_cap_bytes) {
    return WithReason(
        absl::ResourceExhaustedError(StrCat(
            "profd's disk needs ", shortage.disk_short_bytes,
            " more free bytes, and removing every ", "capture that ", principal,
            " may replace would not free them: free space on that disk, or ask the administrator "
            "for another --data-dir")),
        "DISK_FULL");
  }
  constexpr std::string_view kAdvice =
      "no capture can be removed automatically: delete or unpin captures (`profctl delete ID`, "
      "`profctl unpin ID`), or ask the administrator for a larger --max-storage";
  if (options_.ledger != nullptr) {
    const absl::Status refusal =
        options_.ledger->Refusal(quota::PrincipalFromName(principal, geteuid()),
                                 quota::Resource::kStoredBytes, shortage.over_cap_bytes);
    return WithReason(
        absl::ResourceExhaustedError(StrCat(FromAbsl(refusal.message()), "; ", kAdvice)),
        quota::kQuotaExceeded);
  }
  return WithReason(absl::ResourceExhaustedError(
                        StrCat("the store is ", shortage.over_cap_bytes, " bytes over its cap of ",
                               max_total_bytes_.load(), ", and ", kAdvice)),
                    "STORAGE_FULL");
}

absl::Status CaptureStore::CheckRoom(std::string_view principal, std::string_view capture_id) {
  absl::MutexLock one_at_a_time(&eviction_mu_);
  if (options_.ledger != nullptr) {  // It asks for storage, granted or not.
    options_.ledger->Available(quota::PrincipalFromName(principal, geteuid()),
                               quota::Resource::kStoredBytes);
  }
  ASSIGN_OR_RETURN(const Shortage shortage, MeasureShortage(/*with_disk=*/true));
  if (shortage.bytes() == 0) return absl::OkStatus();
  const EvictionRequest request{
      .principal = principal, .capture_id = capture_id, .bytes = shortage.bytes()};
  ASSIGN_OR_RETURN(const DiskSpace disk, options_.measure_disk(options_.data_dir));
  if (disk.free_bytes < 2 * CaptureFileWriter::kReserveBytes) {
    // Without it the capture's file could not even be made.
    ASSIGN_OR_RETURN(const bool made, Evict(request, kDiskIsFull));
    return made ? absl::OkStatus() : NoRoomFor(principal, shortage);
  }
  absl::MutexLock lock(&mu_);
  // There is room for the file itself, so this only predicts that the eviction will succeed.
  // MakeRoom() removes files later, when the capture is certain to run.
  ASSIGN_OR_RETURN(std::vector<StorageHolder> holders, catalog_->ListHolders());
  if (PlanEviction(request, std::move(holders)).has_value()) return absl::OkStatus();
  return NoRoomFor(principal, shortage);
}

void CaptureStore::MakeRoom(std::string_view principal, std::string_view capture_id) {
  absl::MutexLock one_at_a_time(&eviction_mu_);
  const absl::StatusOr<Shortage> shortage = MeasureShortage(/*with_disk=*/true);
  absl::Status status = shortage.status();
  if (status.ok() && shortage->bytes() > 0) {
    status = Evict({.principal = principal, .capture_id = capture_id, .bytes = shortage->bytes()},
                   shortage->disk_short_bytes > 0 ? kDiskIsFull : kOverCap)
                 .status();
  }
  if (!status.ok()) LogError(StrCat("eviction: ", status.ToString()));
  absl::MutexLock lock(&mu_);
  // Files may be gone now, so a reserve that was used on the full disk can be taken again.
  reserve_.Fill();
}

absl::StatusOr<EvictedCaptures> CaptureStore::ListEvictedFor(std::string_view id,
                                                             std::string_view principal) {
  absl::MutexLock lock(&mu_);
  return catalog_->ListEvictedFor(id, principal);
}

}  // namespace profd::store
