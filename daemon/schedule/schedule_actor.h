// The actor inside ScheduleRunner: all of its state. Requests are in schedule_runner.cc, declared
// schedules in schedule_declarations.cc, windows in schedule_windows.cc.
#ifndef PROFD_DAEMON_SCHEDULE_SCHEDULE_ACTOR_H_
#define PROFD_DAEMON_SCHEDULE_SCHEDULE_ACTOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/settled_clock.h"
#include "daemon/capture/task_queue.h"
#include "daemon/schedule/governor.h"
#include "daemon/schedule/sample_choice.h"
#include "daemon/schedule/schedule_runner.h"
#include "daemon/schedule/window_times.h"

namespace profd {

// A process, over reconnects of it and restarts of profd.
struct ProcessKey {
  int64_t pid = 0;
  int64_t start_ticks = 0;
  friend bool operator<(const ProcessKey& a, const ProcessKey& b) {
    return std::tie(a.pid, a.start_ticks) < std::tie(b.pid, b.start_ticks);
  }
};

// What a schedule remembers of a target.
struct SampledTarget {
  Governor governor;
  absl::Time last_start = absl::InfinitePast();     // Of its last capture.
  absl::Duration last_busy = absl::ZeroDuration();  // Infinite: it has not ended.
};

struct LiveSchedule {
  explicit LiveSchedule(ScheduleRecord of)
      : record(std::move(of)),
        times(record.id, record.spec),
        recorded_until(record.last_window),
        counted_until(record.last_window) {}

  ScheduleRecord record;
  WindowTimes times;
  std::optional<WindowTime> next;  // nullopt: none; deleted, or past its end.
  // The newest window that was recorded while it was certain what time it is, or by an earlier
  // daemon.
  absl::Time recorded_until;
  // The newest window that has a row, or for which `held` stands.
  absl::Time counted_until;
  struct Passed {
    absl::Time from;  // After this one.
    absl::Time until;
  };
  // Windows that passed long ago, by a clock that is not certain: no rows yet. By nominal time.
  std::vector<Passed> held;
  bool is_set_back = false;  // record.last_window is: the store has a later one.
  std::map<ProcessKey, SampledTarget> targets;
};

// Every member function runs on queue_'s thread, except the constructor and Stop().
class ScheduleRunner::Actor {
 public:
  Actor(Options options, ScheduleStore& store, ScheduledCaptures& captures, TargetPort& targets,
        Clock& clock)
      : options_(std::move(options)),
        store_(store),
        captures_(captures),
        targets_(targets),
        clock_(clock),
        queue_("profd-schedule", clock, options_.watchdog) {
    queue_.OnTimer([this] { OnTimer(); });
  }

  // Runs `fn` on the actor's thread and returns what it returns; UNAVAILABLE after Stop().
  template <typename Fn>
  auto Run(Fn fn) -> std::invoke_result_t<Fn> {
    std::optional<std::invoke_result_t<Fn>> result;
    const bool ran = queue_.Call([&] { result.emplace(fn()); });
    if (!ran) return absl::UnavailableError("profd is stopping; retry once it is back");
    return *std::move(result);
  }
  TaskQueue& queue() { return queue_; }
  absl::Duration next_wake() const { return next_wake_; }
  void Stop() { queue_.Stop(); }

  absl::Status Start();
  absl::StatusOr<ScheduleView> Create(const Caller& caller, const ScheduleSpec& spec,
                                      std::string_view id);
  absl::StatusOr<AppliedDeclaration> Apply(const Caller& caller,
                                           const ScheduleDeclaration& declaration, bool dry_run);
  absl::StatusOr<ScheduleView> Get(const Caller& caller, std::string_view id);
  absl::StatusOr<std::vector<ScheduleView>> List(const Caller& caller, bool include_deleted,
                                                 int64_t limit, std::string_view after_id);
  absl::StatusOr<ScheduleView> SetPaused(const Caller& caller, std::string_view id, bool paused);
  absl::StatusOr<ScheduleView> Delete(const Caller& caller, std::string_view id);
  absl::StatusOr<std::vector<ScheduleWindow>> ListWindows(const Caller& caller, std::string_view id,
                                                          int64_t limit, absl::Time time,
                                                          int64_t pid);
  void OnTimer();

 private:
  // What one window may still take of the schedule's budget.
  struct BudgetLeft {
    int64_t captures = 0;
    int64_t bytes = 0;
  };

  // Also of deleted ones, which only the store has.
  absl::StatusOr<ScheduleRecord> Find(const Caller& caller, std::string_view id);
  // As Find(), of what the caller may change.
  absl::StatusOr<ScheduleRecord> FindToChange(const Caller& caller, std::string_view id);
  absl::StatusOr<ScheduleView> View(const ScheduleRecord& record);
  // What is here of the whole `id`, deleted or not; nullopt: nothing. Of a tombstone, a record that
  // has only its creator and version, and was deleted at InfinitePast.
  absl::StatusOr<std::optional<ScheduleRecord>> FindDeclared(std::string_view id);
  static absl::Status CheckMaySchedule(const Caller& caller);
  static absl::Status CheckMayReplace(const Caller& caller, const ScheduleRecord& record);
  absl::StatusOr<ScheduleView> Install(ScheduleRecord record, bool is_new);
  // The id is `there`: whether it is what the caller asks for, but for its nodes.
  absl::StatusOr<ScheduleView> CreateAgain(const Caller& caller, const ScheduleSpec& spec,
                                           const ScheduleRecord& there);
  // The limits of the node and of the record's creator. `replaced`: what it takes the place of;
  // nullptr: nothing.
  absl::Status CheckRoomFor(const ScheduleRecord& record, const ScheduleRecord* replaced);
  absl::Status CheckNumber(const std::string& principal);
  void TrimDeleted();
  // Once `live`'s record changed: which window is next.
  void SetNext(LiveSchedule& live);
  void Rearm();

  // Everything of `live` that is due by `now`. `starting`: it is too late for all of that.
  void RunDue(LiveSchedule& live, absl::Time now, bool starting);
  void RecordMissed(LiveSchedule& live, std::vector<WindowTime> missed, absl::Time now);
  // Gives the newest of `windows` a row.
  void PutMissed(LiveSchedule& live, std::vector<WindowTime> windows);
  // It is certain now that it is `now`: what was held until then.
  void RecordHeld(LiveSchedule& live, absl::Time now);
  void Record(LiveSchedule& live, const std::vector<ScheduleWindow>& rows);
  // The time by which rows are old; InfinitePast: it is not certain what time it is.
  absl::Time AgeTime() { return settled_.Now().value_or(absl::InfinitePast()); }
  std::vector<ScheduleWindow> Sample(LiveSchedule& live, const WindowTime& window, absl::Time now);
  ScheduleWindow SampleTarget(LiveSchedule& live, const WindowTime& window,
                              const ChosenTarget& chosen, int64_t chosen_left, BudgetLeft& left,
                              absl::Time now);
  ScheduleWindow Capture(LiveSchedule& live, const WindowTime& window, const ChosenTarget& chosen,
                         const std::optional<CommonStart>& common_start, int64_t max_bytes,
                         ScheduleWindow row);
  void JudgeCaptures(const LiveSchedule& live, SampledTarget& target, bool together);
  void ForgetGoneTargets(LiveSchedule& live);
  Caller CreatorOf(const ScheduleRecord& record) const;

  absl::Status TakeUp(LiveSchedule& live, absl::Time now);
  void Ended(const CaptureRecord& record);
  void CloseRow(ScheduleWindow row, const CaptureRecord& record);

  const Options options_;
  ScheduleStore& store_;
  ScheduledCaptures& captures_;
  TargetPort& targets_;
  Clock& clock_;

  std::map<std::string, LiveSchedule, std::less<>> schedules_;  // Without deleted ones.
  std::map<std::string, ScheduleWindow, std::less<>> running_;  // By the capture's id.
  absl::Time next_trim_ = absl::InfinitePast();                 // Of deleted schedules.
  SettledClock settled_{
      clock_,
      "for an hour, no schedule's history loses rows for their age or gets rows of windows "
      "that passed long ago"};
  absl::Duration next_wake_ = absl::InfiniteDuration();

  TaskQueue queue_;  // Last, so that it stops first.
};

}  // namespace profd

#endif  // PROFD_DAEMON_SCHEDULE_SCHEDULE_ACTOR_H_
