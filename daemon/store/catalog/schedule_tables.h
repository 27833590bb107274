// ScheduleTables are the catalog's two tables of schedules: one row per schedule, with the spec in
// `record` (record_codec.cc), and one per window and process, with its outcome.
//
// Threads:    one at a time (CaptureStore holds a mutex).
// Durability: as Catalog; likewise the errors. The methods are those of ScheduleStore.
#ifndef PROFD_DAEMON_STORE_CATALOG_SCHEDULE_TABLES_H_
#define PROFD_DAEMON_STORE_CATALOG_SCHEDULE_TABLES_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/schedule/schedule_store.h"
#include "daemon/schedule/schedule_types.h"
#include "daemon/store/file/sqlite_db.h"

namespace profd::store {

class ScheduleTables {
 public:
  // `db` is a migrated catalog, and must outlive this.
  explicit ScheduleTables(Database& db) : db_(db) {}

  absl::StatusOr<ScheduleRecord> Insert(const ScheduleRecord& record);
  absl::StatusOr<ScheduleRecord> Replace(const ScheduleRecord& record);
  absl::StatusOr<ScheduleTombstone> GetTombstone(std::string_view id);
  absl::Status Update(const ScheduleRecord& record);
  absl::StatusOr<std::vector<ScheduleRecord>> List();
  absl::StatusOr<std::vector<ScheduleRecord>> ListDeleted(std::string_view id_prefix,
                                                          std::string_view after_id, int64_t limit);
  absl::Status TrimDeleted(absl::Time before);
  absl::StatusOr<bool> RemoveOldestDeleted(std::string_view principal);
  absl::StatusOr<ScheduleHolding> GetHolding(std::string_view principal);

  absl::Status AppendWindows(const ScheduleRecord& record, std::span<const ScheduleWindow> windows,
                             absl::Time age_time);
  absl::Status EndWindow(const ScheduleWindow& window);
  // Without step times, which are in the captures.
  absl::StatusOr<std::vector<ScheduleWindow>> ListWindows(std::string_view schedule_id,
                                                          int64_t limit, absl::Time time,
                                                          int64_t pid);
  absl::StatusOr<std::vector<ScheduleWindow>> ListRunning();
  absl::StatusOr<std::vector<ScheduleWindow>> ListLast(std::string_view schedule_id,
                                                       absl::Time since, absl::Time until);
  absl::StatusOr<ScheduleUse> GetUse(std::string_view schedule_id, absl::Time now);
  absl::StatusOr<ScheduleTotals> GetTotals(std::string_view schedule_id);

 private:
  absl::Status Put(const ScheduleRecord& record);
  // Leaves a tombstone.
  absl::Status Remove(std::string_view id);
  absl::Status PutWindow(const ScheduleWindow& window);
  absl::Status Trim(std::string_view schedule_id, absl::Time age_time);

  Database& db_;
  int64_t appends_ = 0;
};

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_CATALOG_SCHEDULE_TABLES_H_
