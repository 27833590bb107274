// What schedules need of storage; the catalog implements it (daemon/store), and tests have a fake.
//
// Threads:    any. Calls wait for the disk.
// Durability: OK means the change survives a crash of the daemon.
// Errors:     as StorePort's, unless said.
#ifndef PROFD_DAEMON_SCHEDULE_SCHEDULE_STORE_H_
#define PROFD_DAEMON_SCHEDULE_SCHEDULE_STORE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/schedule/schedule_types.h"

namespace profd {

inline constexpr absl::Duration kScheduleHistory = absl::Hours(24 * 90);
// Of one schedule; beyond that the oldest go, before their time.
inline constexpr int64_t kMaxWindowRows = 100'000;

// What a schedule has used of its budget, with what running captures may yet use.
struct ScheduleUse {
  int64_t captures_last_hour = 0;
  int64_t bytes_last_day = 0;
};

// What one principal's schedules take of the catalog.
struct ScheduleHolding {
  int64_t schedules = 0;  // Without deleted ones.
  int64_t bytes = 0;      // Of all records, also deleted ones.
};

// Deleted schedules are kept for their history, of each principal at most the newest of these.
inline constexpr int64_t kMaxDeletedSchedules = 50;
inline constexpr int64_t kMaxDeletedScheduleBytes = int64_t{512} << 10;

struct ScheduleTotals {
  int64_t windows = 0;  // In the history.
  int64_t captures = 0;
  int64_t bytes = 0;
};

// What is left of a deleted schedule once its record and its history are removed, so that an old
// declaration does not bring it back. Of each principal the newest kMaxTombstones are kept.
struct ScheduleTombstone {
  int64_t version = 0;
  std::string principal;  // As PrincipalName() gives it.
};
inline constexpr int64_t kMaxTombstones = 4096;

class ScheduleStore {
 public:
  virtual ~ScheduleStore() = default;

  // With its spec_hash. FAILED_PRECONDITION if the id exists.
  virtual absl::StatusOr<ScheduleRecord> InsertSchedule(const ScheduleRecord& record) = 0;
  // As it is declared now; its history stays. Returns it with its spec_hash. NOT_FOUND.
  virtual absl::StatusOr<ScheduleRecord> ReplaceSchedule(const ScheduleRecord& record) = 0;
  // Of a schedule that was deleted and whose record is no longer kept. NOT_FOUND.
  virtual absl::StatusOr<ScheduleTombstone> GetTombstone(std::string_view id) = 0;
  // `paused`, `delete_time` and `last_window`. NOT_FOUND.
  virtual absl::Status UpdateSchedule(const ScheduleRecord& record) = 0;
  // By id, without deleted ones.
  virtual absl::StatusOr<std::vector<ScheduleRecord>> ListSchedules() = 0;
  // By id, deleted ones whose id starts so and is above `after_id`, at most `limit`.
  virtual absl::StatusOr<std::vector<ScheduleRecord>> ListDeletedSchedules(
      std::string_view id_prefix, std::string_view after_id, int64_t limit) = 0;
  // Removes deleted schedules with their history: those deleted before then, and of each principal
  // those beyond kMaxDeletedSchedules and kMaxDeletedScheduleBytes. Their tombstones stay.
  virtual absl::Status TrimDeletedSchedules(absl::Time before) = 0;
  // Removes the one of `principal` that was deleted first, with its history. False: there is none.
  virtual absl::StatusOr<bool> RemoveOldestDeletedSchedule(std::string_view principal) = 0;
  // Its events are never removed to make room. RESOURCE_EXHAUSTED: too much is pinned.
  virtual absl::Status PinCapture(std::string_view id) = 0;
  // `principal` as PrincipalName() gives it.
  virtual absl::StatusOr<ScheduleHolding> GetHolding(std::string_view principal) = 0;

  // Rows of one schedule, and its `last_window`, all or none. A row of the same window and
  // process is replaced. Rows that are older than kScheduleHistory at `age_time` go; InfinitePast:
  // none do.
  virtual absl::Status AppendWindows(const ScheduleRecord& record,
                                     std::span<const ScheduleWindow> windows,
                                     absl::Time age_time) = 0;
  // What is known once the capture ended: outcome, detail, bytes, busy_ns. OK if the row is gone.
  virtual absl::Status EndWindow(const ScheduleWindow& window) = 0;
  // Newest first, at most `limit`, all before (`time`, `pid`); with the step times.
  virtual absl::StatusOr<std::vector<ScheduleWindow>> ListWindows(std::string_view schedule_id,
                                                                  int64_t limit, absl::Time time,
                                                                  int64_t pid) = 0;
  // Rows whose capture was running when they were written last.
  virtual absl::StatusOr<std::vector<ScheduleWindow>> ListRunningWindows() = 0;
  // Of every target that had one from `since` to `until`: its last row, and its last row with a
  // capture; by time.
  virtual absl::StatusOr<std::vector<ScheduleWindow>> ListLastWindows(std::string_view schedule_id,
                                                                      absl::Time since,
                                                                      absl::Time until) = 0;
  virtual absl::StatusOr<ScheduleUse> GetUse(std::string_view schedule_id, absl::Time now) = 0;
  virtual absl::StatusOr<ScheduleTotals> GetTotals(std::string_view schedule_id) = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SCHEDULE_SCHEDULE_STORE_H_
