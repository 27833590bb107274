// FakeScheduleStore: a ScheduleStore in memory, with errors on command.
//
// Threads: one at a time.
#ifndef PROFD_TESTS_FAKES_FAKE_SCHEDULE_STORE_H_
#define PROFD_TESTS_FAKES_FAKE_SCHEDULE_STORE_H_

#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "daemon/quota/ledger.h"
#include "daemon/schedule/schedule_store.h"

namespace profd {

class FakeScheduleStore final : public ScheduleStore {
 public:
  absl::Status error;               // What every call answers until set again.
  std::vector<std::string> pinned;  // Ids of captures.
  int64_t record_bytes = 1000;      // What each record takes.
  quota::Ledger* ledger = nullptr;  // Is charged with schedules; nullptr: none is.

  std::vector<ScheduleWindow> windows() const {  // By time.
    std::vector<ScheduleWindow> all;
    for (const auto& [key, window] : windows_) all.push_back(window);
    return all;
  }

  absl::StatusOr<ScheduleRecord> InsertSchedule(const ScheduleRecord& record) override {
    if (!error.ok()) return error;
    ScheduleRecord kept = record;
    kept.spec_hash = "hash";
    if (!schedules_.emplace(record.id, kept).second) return absl::FailedPreconditionError("exists");
    UpdateLedger(PrincipalName(record.creator));
    return kept;
  }
  absl::StatusOr<ScheduleRecord> ReplaceSchedule(const ScheduleRecord& record) override {
    if (!error.ok()) return error;
    const auto found = schedules_.find(record.id);
    if (found == schedules_.end()) return absl::NotFoundError(record.id);
    const std::string before = PrincipalName(found->second.creator);
    found->second = record;
    UpdateLedger(before);
    UpdateLedger(PrincipalName(record.creator));
    return record;
  }
  absl::StatusOr<ScheduleTombstone> GetTombstone(std::string_view id) override {
    const auto found = tombstones_.find(id);
    if (found == tombstones_.end()) return absl::NotFoundError(std::string(id));
    return found->second;
  }
  absl::Status UpdateSchedule(const ScheduleRecord& record) override {
    if (!error.ok()) return error;
    const auto found = schedules_.find(record.id);
    if (found == schedules_.end()) return absl::NotFoundError(record.id);
    found->second = record;
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<ScheduleRecord>> ListSchedules() override {
    std::vector<ScheduleRecord> records;
    for (const auto& [id, record] : schedules_) {
      if (record.delete_time == absl::InfiniteFuture()) records.push_back(record);
    }
    return records;
  }
  absl::StatusOr<std::vector<ScheduleRecord>> ListDeletedSchedules(std::string_view id_prefix,
                                                                   std::string_view after_id,
                                                                   int64_t limit) override {
    std::vector<ScheduleRecord> records;
    for (const auto& [id, record] : schedules_) {
      if (record.delete_time == absl::InfiniteFuture()) continue;
      if (!id.starts_with(id_prefix) || id <= after_id) continue;
      if (static_cast<int64_t>(records.size()) < limit) records.push_back(record);
    }
    return records;
  }
  absl::Status TrimDeletedSchedules(absl::Time before) override {
    std::erase_if(schedules_, [&](const auto& entry) {
      if (entry.second.delete_time >= before) return false;
      Bury(entry.second);
      return true;
    });
    return absl::OkStatus();
  }
  absl::StatusOr<bool> RemoveOldestDeletedSchedule(std::string_view principal) override {
    auto oldest = schedules_.end();
    for (auto at = schedules_.begin(); at != schedules_.end(); ++at) {
      const ScheduleRecord& record = at->second;
      if (record.delete_time == absl::InfiniteFuture()) continue;
      if (PrincipalName(record.creator) != principal) continue;
      if (oldest == schedules_.end() || record.delete_time < oldest->second.delete_time) {
        oldest = at;
      }
    }
    if (oldest == schedules_.end()) return false;
    Bury(oldest->second);
    schedules_.erase(oldest);
    UpdateLedger(std::string(principal));
    return true;
  }
  absl::Status PinCapture(std::string_view id) override {
    pinned.emplace_back(id);
    return error;
  }
  absl::StatusOr<ScheduleHolding> GetHolding(std::string_view principal) override {
    ScheduleHolding holding;
    for (const auto& [id, record] : schedules_) {
      if (PrincipalName(record.creator) != principal) continue;
      if (record.delete_time == absl::InfiniteFuture()) ++holding.schedules;
      holding.bytes += record_bytes;
    }
    return holding;
  }

  absl::Status AppendWindows(const ScheduleRecord& record, std::span<const ScheduleWindow> windows,
                             absl::Time /*age_time*/) override {
    if (!error.ok()) return error;
    for (const ScheduleWindow& window : windows) windows_.insert_or_assign(KeyOf(window), window);
    if (const auto found = schedules_.find(record.id); found != schedules_.end()) {
      found->second.last_window = record.last_window;
    }
    return absl::OkStatus();
  }
  absl::Status EndWindow(const ScheduleWindow& window) override {
    const auto found = windows_.find(KeyOf(window));
    if (found != windows_.end()) found->second = window;
    return error;
  }
  absl::StatusOr<std::vector<ScheduleWindow>> ListWindows(std::string_view schedule_id,
                                                          int64_t limit, absl::Time time,
                                                          int64_t pid) override {
    std::vector<ScheduleWindow> page;
    for (auto at = windows_.rbegin(); at != windows_.rend(); ++at) {
      const ScheduleWindow& window = at->second;
      if (window.schedule_id != schedule_id) continue;
      if (std::pair(window.time, window.pid) >= std::pair(time, pid)) continue;
      if (static_cast<int64_t>(page.size()) == limit) break;
      page.push_back(window);
    }
    return page;
  }
  absl::StatusOr<std::vector<ScheduleWindow>> ListRunningWindows() override {
    std::vector<ScheduleWindow> running = windows();
    std::erase_if(running, [](const ScheduleWindow& window) { return window.ended; });
    return running;
  }
  absl::StatusOr<std::vector<ScheduleWindow>> ListLastWindows(std::string_view schedule_id,
                                                              absl::Time since,
                                                              absl::Time until) override {
    std::set<std::pair<int64_t, int64_t>> seen, seen_captured;
    std::vector<ScheduleWindow> last;
    for (auto at = windows_.rbegin(); at != windows_.rend(); ++at) {
      const ScheduleWindow& window = at->second;
      if (window.schedule_id != schedule_id || window.pid == 0) continue;
      if (window.time < since || window.time > until) continue;
      const std::pair process(window.pid, window.process_start_ticks);
      const bool newest = seen.insert(process).second;
      const bool captured = !window.capture_id.empty() && seen_captured.insert(process).second;
      if (newest || captured) last.push_back(window);
    }
    std::ranges::reverse(last);
    return last;
  }
  absl::StatusOr<ScheduleUse> GetUse(std::string_view schedule_id, absl::Time now) override {
    if (!error.ok()) return error;
    ScheduleUse use;
    for (auto at = windows_.rbegin(); at != windows_.rend(); ++at) {
      const ScheduleWindow& window = at->second;
      if (window.time <= now - absl::Hours(24)) break;
      if (window.schedule_id != schedule_id || window.capture_id.empty()) continue;
      if (window.time > now) continue;
      if (window.time > now - absl::Hours(1)) ++use.captures_last_hour;
      use.bytes_last_day += window.bytes;
    }
    return use;
  }
  absl::StatusOr<ScheduleTotals> GetTotals(std::string_view schedule_id) override {
    ScheduleTotals totals;
    for (const auto& [key, window] : windows_) {
      if (window.schedule_id != schedule_id) continue;
      ++totals.windows;
      if (window.capture_id.empty()) continue;
      ++totals.captures;
      totals.bytes += window.bytes;
    }
    return totals;
  }

 private:
  void Bury(const ScheduleRecord& record) {
    tombstones_[record.id] = {.version = record.version,
                              .principal = PrincipalName(record.creator)};
  }
  void UpdateLedger(const std::string& principal) {
    if (ledger == nullptr) return;
    const auto number = std::ranges::count_if(schedules_, [&](const auto& entry) {
      return PrincipalName(entry.second.creator) == principal;
    });
    ledger->SetUse(quota::PrincipalFromName(principal, geteuid()), quota::Resource::kSchedules,
                   number);
  }

  using Key = std::tuple<absl::Time, std::string, int64_t>;
  static Key KeyOf(const ScheduleWindow& window) {
    return {window.time, window.schedule_id, window.pid};
  }

  std::map<std::string, ScheduleRecord> schedules_;
  std::map<std::string, ScheduleTombstone, std::less<>> tombstones_;
  std::map<Key, ScheduleWindow> windows_;
};

}  // namespace profd

#endif  // PROFD_TESTS_FAKES_FAKE_SCHEDULE_STORE_H_
