// CaptureStore as the ScheduleStore.
#include "daemon/base/status_macros.h"
#include "daemon/store/capture_store.h"
#include "daemon/store/catalog/catalog.h"
#include "daemon/store/catalog/schedule_tables.h"

namespace profd::store {

absl::StatusOr<ScheduleRecord> CaptureStore::InsertSchedule(const ScheduleRecord& record) {
  absl::MutexLock lock(&mu_);
  const LedgerUpdate update(*this);
  return catalog_->schedules().Insert(record);
}

absl::StatusOr<ScheduleRecord> CaptureStore::ReplaceSchedule(const ScheduleRecord& record) {
  absl::MutexLock lock(&mu_);
  const LedgerUpdate update(*this);
  return catalog_->schedules().Replace(record);
}

absl::StatusOr<ScheduleTombstone> CaptureStore::GetTombstone(std::string_view id) {
  absl::MutexLock lock(&mu_);
  return catalog_->schedules().GetTombstone(id);
}

absl::Status CaptureStore::UpdateSchedule(const ScheduleRecord& record) {
  absl::MutexLock lock(&mu_);
  return catalog_->schedules().Update(record);
}

absl::StatusOr<std::vector<ScheduleRecord>> CaptureStore::ListSchedules() {
  absl::MutexLock lock(&mu_);
  return catalog_->schedules().List();
}

absl::StatusOr<std::vector<ScheduleRecord>> CaptureStore::ListDeletedSchedules(
    std::string_view id_prefix, std::string_view after_id, int64_t limit) {
  absl::MutexLock lock(&mu_);
  return catalog_->schedules().ListDeleted(id_prefix, after_id, limit);
}

absl::Status CaptureStore::TrimDeletedSchedules(absl::Time before) {
  absl::MutexLock lock(&mu_);
  const LedgerUpdate update(*this);
  return catalog_->schedules().TrimDeleted(before);
}

absl::StatusOr<bool> CaptureStore::RemoveOldestDeletedSchedule(std::string_view principal) {
  absl::MutexLock lock(&mu_);
  const LedgerUpdate update(*this);
  return catalog_->schedules().RemoveOldestDeleted(principal);
}

absl::StatusOr<ScheduleHolding> CaptureStore::GetHolding(std::string_view principal) {
  absl::MutexLock lock(&mu_);
  return catalog_->schedules().GetHolding(principal);
}

absl::Status CaptureStore::AppendWindows(const ScheduleRecord& record,
                                         std::span<const ScheduleWindow> windows,
                                         absl::Time age_time) {
  absl::MutexLock lock(&mu_);
  return catalog_->schedules().AppendWindows(record, windows, age_time);
}

absl::Status CaptureStore::EndWindow(const ScheduleWindow& window) {
  absl::MutexLock lock(&mu_);
  return catalog_->schedules().EndWindow(window);
}

absl::StatusOr<std::vector<ScheduleWindow>> CaptureStore::ListWindows(std::string_view schedule_id,
                                                                      int64_t limit,
                                                                      absl::Time time,
                                                                      int64_t pid) {
  absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(std::vector<ScheduleWindow> windows,
                   catalog_->schedules().ListWindows(schedule_id, limit, time, pid));
  for (ScheduleWindow& window : windows) {
    if (window.capture_id.empty()) continue;
    // The step times are not copied into the window: they are known only after the capture has
    // ended, and its record may be corrected later.
    const absl::StatusOr<CaptureRecord> record = catalog_->Get(window.capture_id);
    if (!record.ok()) continue;  // The window is history all the same.
    window.step_before_ns = record->step_before_ns;
    window.step_during_ns = record->step_during_ns;
    window.step_after_ns = record->step_after_ns;
    window.group_id = record->group_id;
    if (!record->windows.empty()) window.first_step = record->windows.front().first_step;
  }
  return windows;
}

absl::StatusOr<std::vector<ScheduleWindow>> CaptureStore::ListRunningWindows() {
  absl::MutexLock lock(&mu_);
  return catalog_->schedules().ListRunning();
}

absl::StatusOr<std::vector<ScheduleWindow>> CaptureStore::ListLastWindows(
    std::string_view schedule_id, absl::Time since, absl::Time until) {
  absl::MutexLock lock(&mu_);
  return catalog_->schedules().ListLast(schedule_id, since, until);
}

absl::StatusOr<ScheduleUse> CaptureStore::GetUse(std::string_view schedule_id, absl::Time now) {
  absl::MutexLock lock(&mu_);
  return catalog_->schedules().GetUse(schedule_id, now);
}

absl::StatusOr<ScheduleTotals> CaptureStore::GetTotals(std::string_view schedule_id) {
  absl::MutexLock lock(&mu_);
  return catalog_->schedules().GetTotals(schedule_id);
}

}  // namespace profd::store
