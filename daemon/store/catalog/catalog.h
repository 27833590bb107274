// Catalog is catalog.db: one row per capture, and the summaries that outlive its events. The
// columns `file_bytes`, `file_sha256`, and `deleted` belong to the catalog: a record that is
// written back late does not revive a deleted file.
//
// Threads:    one at a time (CaptureStore holds a mutex).
// Durability: OK means the change survives the daemon; a power failure may lose the newest.
// Errors:     as Database; NOT_FOUND for an unknown ID.
#ifndef PROFD_DAEMON_STORE_CATALOG_CATALOG_H_
#define PROFD_DAEMON_STORE_CATALOG_CATALOG_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/capture/capture_types.h"
#include "daemon/capture/group_types.h"
#include "daemon/store/catalog/eviction.h"
#include "daemon/store/catalog/holdings.h"
#include "daemon/store/catalog/schedule_tables.h"
#include "daemon/store/catalog/types.h"
#include "daemon/store/file/sqlite_db.h"

namespace profd::store {

// Returns the principal whose share of the store the capture counts against: its requester.
std::string HolderOf(const CaptureRecord& record);

// A capture's row, for its removal.
struct StoredRecord {
  std::string id;
  std::string group_id;
  int64_t bytes = 0;  // Of its file; 0: the events were removed.
};

// One principal's part of the catalog.
struct RecordHolder {
  std::string principal;
  int64_t records = 0;
  int64_t bytes = 0;  // Of records and summaries, approximately.
};

class Catalog {
 public:
  static absl::StatusOr<std::unique_ptr<Catalog>> Open(const std::filesystem::path& path);

  // FAILED_PRECONDITION if the id exists.
  absl::Status Insert(const CaptureRecord& record);
  absl::Status Update(const CaptureRecord& record);
  absl::Status InsertOrUpdate(const CaptureRecord& record);
  absl::StatusOr<CaptureRecord> Get(std::string_view id);
  absl::StatusOr<std::vector<CaptureRecord>> FindRequest(std::string_view request_id,
                                                         int64_t requested_by_uid);

  absl::Status PutGroup(const GroupRecord& group);
  absl::StatusOr<GroupRecord> GetGroup(std::string_view id);

  // At most `limit`, newest first, with ids below `before_id` (empty: from the newest).
  absl::StatusOr<std::vector<CaptureRecord>> List(const CaptureFilter& filter, int64_t limit,
                                                  std::string_view before_id);
  absl::StatusOr<std::vector<CaptureRecord>> ListUnfinished();
  absl::StatusOr<std::vector<std::string>> ListIdsWithFile();

  // Returns OK also for an unknown ID: a file may be sealed before its row exists.
  absl::Status SetFile(std::string_view id, int64_t bytes, std::string_view sha256);
  // Marks the file as removed by request.
  absl::Status MarkDeleted(std::string_view id);
  // Marks the file as removed to make room for the capture `for_id`; empty: for no single one.
  // A file that was removed before stays as it was marked then.
  absl::Status MarkEvicted(std::string_view id, std::string_view for_id);
  // Returns the captures that were evicted for `id`, with the IDs of those of `principal`.
  absl::StatusOr<EvictedCaptures> ListEvictedFor(std::string_view id, std::string_view principal);
  // Removes the records with their labels, summaries, and groups that become empty. Their files
  // must be removed already. All or none.
  absl::Status Remove(const std::vector<StoredRecord>& records);
  // Returns at most this many unused pages to the disk.
  absl::Status Vacuum(int64_t pages);
  // Whether the write-ahead log has a MiB or more. At 4 MiB a commit copies it into the file, which
  // takes milliseconds, unless another connection's Checkpoint() does before.
  bool HasLongLog() const;
  // Returns the oldest ended, unpinned records below `before_id`, at most `limit`.
  absl::StatusOr<std::vector<StoredRecord>> ListOldest(std::string_view before_id, int64_t limit);
  // The same of one principal, at any age.
  absl::StatusOr<std::vector<StoredRecord>> ListOldestOf(std::string_view principal, int64_t limit);
  absl::StatusOr<std::vector<RecordHolder>> ListRecordHolders();

  // Returns OK also for an unknown ID, or one without events, which is never pinned.
  absl::Status SetPinned(std::string_view id, bool pinned);
  absl::StatusOr<std::set<std::string>> ListPinned();
  absl::StatusOr<bool> IsPinned(std::string_view id);
  // Returns the bytes of pinned captures; of all principals if empty.
  absl::StatusOr<int64_t> PinnedBytes(std::string_view principal);
  // Returns the holders of files, with the files that may be evicted.
  absl::StatusOr<std::vector<StorageHolder>> ListHolders();

  struct Totals {
    int64_t captures_with_file = 0;
    int64_t file_bytes = 0;
    int64_t evicted = 0;
  };
  absl::StatusOr<Totals> Count();
  int64_t SizeOnDisk() const;  // Including the write-ahead log.
  // Returns the size of the tables, without the write-ahead log (a few MiB) and unused pages.
  absl::StatusOr<int64_t> UsedBytes();

  absl::Status PutSummaries(std::string_view id, const std::vector<OpSummaryRow>& ops,
                            const std::vector<StepSummaryRow>& steps);
  absl::Status PutDeviceSummaries(std::string_view id,
                                  const std::vector<DeviceSummaryRow>& devices);
  // After PutSummaries(), which counts the bytes of both.
  absl::Status PutRankSummary(std::string_view id, std::string_view summary);
  absl::StatusOr<CaptureSummaries> GetSummaries(std::string_view id);
  // The same of an id that exists.
  absl::StatusOr<CaptureSummaries> ReadSummaries(std::string_view id, const SummaryParts& parts);

  // Keeps the last MaxAuditRowsOf(kind) of each principal and kind, and kMaxAuditRows in all:
  // beyond that the largest ring loses its oldest. Returns false if it was counted as a repetition.
  absl::StatusOr<bool> AppendAudit(const AuditEntry& entry);
  absl::StatusOr<AuditPage> ListAudit(const AuditFilter& filter, int64_t limit, int64_t before) {
    return ListAudit(*db_, filter, limit, before);
  }
  // The same by another connection to the catalog.
  static absl::StatusOr<AuditPage> ListAudit(Database& db, const AuditFilter& filter, int64_t limit,
                                             int64_t before);
  static constexpr int64_t kMaxAuditRows = 200'000;
  static constexpr int64_t MaxAuditRowsOf(AuditKind kind) {
    return kind == AuditKind::kRefusal ? 5'000 : 20'000;
  }
  // A row counts repetitions until this long after the last one.
  static constexpr absl::Duration kRepeatWindow = absl::Minutes(10);

  // Switches of an operator, by name ("captures_forbidden"), kept until they are switched back.
  absl::Status PutSwitch(std::string_view name, std::string_view value);
  absl::Status RemoveSwitch(std::string_view name);  // OK if it is not there.
  absl::StatusOr<std::optional<std::string>> GetSwitch(std::string_view name);

  ScheduleTables& schedules() { return schedules_; }
  Holdings& holdings() { return holdings_; }

 private:
  explicit Catalog(std::unique_ptr<Database> db)
      : db_(std::move(db)), schedules_(*db_), holdings_(*db_) {}

  absl::Status Put(const char* sql, const CaptureRecord& record);
  absl::Status PutLabels(const CaptureRecord& record);
  absl::StatusOr<bool> Contains(std::string_view id);
  absl::Status ReadOps(std::string_view id, const SummaryParts& parts, CaptureSummaries& out);
  absl::Status ReadSteps(std::string_view id, CaptureSummaries& out);
  absl::Status ReadDevices(std::string_view id, CaptureSummaries& out);
  absl::Status ReadRanks(std::string_view id, CaptureSummaries& out);

  // The rows of one kind and principal.
  struct AuditRing {
    int64_t rows = 0;
    int64_t last_id = 0;    // Of the newest row of this daemon; 0: none yet.
    std::string last_call;  // Its contents except times, peer, and bytes.
    absl::Time last_time;
  };
  using AuditRings = std::map<std::pair<AuditKind, std::string>, AuditRing>;
  absl::Status LoadAuditRings();
  absl::Status RemoveOldestAudit(AuditRings::iterator ring, int64_t rows);

  const std::unique_ptr<Database> db_;
  std::optional<AuditRings> audit_rings_;  // nullopt: not counted yet.
  int64_t audit_rows_ = 0;
  ScheduleTables schedules_;
  Holdings holdings_;
};

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_CATALOG_CATALOG_H_
