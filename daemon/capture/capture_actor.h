// The actor inside CaptureManager: all of its state, and what happens to it. Requests
// (creating, asking, cancelling) are in capture_requests.cc, those of groups that whoever asked
// starts itself in group_requests.cc, starts that the ranks of a job have in common in
// common_starts.cc, the life of a capture from ARMING to its end in capture_actor.cc.
#ifndef PROFD_DAEMON_CAPTURE_CAPTURE_ACTOR_H_
#define PROFD_DAEMON_CAPTURE_CAPTURE_ACTOR_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/cond_var.h"
#include "daemon/capture/capture_manager.h"
#include "daemon/capture/cpu_after.h"
#include "daemon/capture/live_index.h"
#include "daemon/capture/step_watch.h"
#include "daemon/capture/task_queue.h"

namespace profd {

// One capture between CreateCapture and its terminal state.
struct LiveCapture {
  CaptureRecord record;
  quota::Principal holder;   // Whose quotas it counts against.
  quota::Reservation place;  // Among the live captures.
  FirePlan plan;
  TargetNumber target = 0;
  std::unique_ptr<CaptureFileSink> sink;
  EndedBy cause = EndedBy::kNone;  // Why it is being ended; kNone: it is not.
  // PENDING until another capture of the same target has drained: a schedule's that is being ended
  // for it, or, for a rank that begins with the others of its job, the previous window.
  bool waits_for_target = false;
  bool drained = false;  // The target is free for the next one.
  bool armed = false;
  bool fired = false;
  // Of a group that was prepared: it starts when that is committed, if by the end of the lease.
  bool held = false;
  // A schedule's, of a rank that begins at the same step as the others of its job. Its plan is not
  // known before the decision. If the step is far ahead, it is armed only shortly before it.
  struct Common {
    CommonStart start;
    absl::Duration decide_at = absl::InfiniteDuration();  // Monotonic. Infinite: it was decided.
    // Monotonic; when to look whether it is to be armed. Infinite: it was armed, or it is not
    // decided yet (first_step).
    absl::Duration arm_at = absl::InfiniteDuration();
    int64_t first_step = -1;  // -1: not decided.
    int64_t lead = 0;         // Once decided: steps between another window and its own warm-up.
  };
  std::optional<Common> common;
  int64_t memory_bytes = 0;  // MemoryOfEach().
  // Monotonic. Infinite: without a lease, or the window has begun.
  absl::Duration lease_end = absl::InfiniteDuration();
  absl::Duration fire_at = absl::InfiniteDuration();          // Monotonic. Committed, by time.
  absl::Duration begun;                                       // Monotonic; arming.
  absl::Duration arm_deadline;                                // Monotonic.
  absl::Duration deadline;                                    // Monotonic.
  absl::Duration window_deadline = absl::InfiniteDuration();  // By duration only.
  int64_t base_step = -1;                                     // First step of the plan, once known.
  StepWatch steps;
  // Drained; before the file is sealed, what the program does without the recording is awaited.
  struct Awaited {
    absl::Duration next;          // Monotonic. When to look again.
    absl::Duration deadline;      // Monotonic.
    bool steps = false;           // Its steps.
    std::optional<CpuAfter> cpu;  // How long it waits for a CPU.
    int64_t start_ns = 0;         // Of Store().
  };
  std::optional<Awaited> awaited;
};

// A group that was prepared, until its last member has ended.
struct HeldGroup {
  struct Member {
    TargetNumber target = 0;
    std::string capture_id;              // Empty: refused.
    absl::Status refused;                // If it was.
    std::optional<CaptureRecord> ended;  // Once it has.
  };
  CaptureSpec spec;
  GroupRecord record;
  std::vector<Member> members;  // In the order in which they were asked for.
  // Set by CommitGroup, which may be repeated.
  std::optional<GroupStart> start;
  std::vector<MemberStart> started;
  // The caller's watch, until the group is settled; what is left of the lease once it ends.
  CaptureManager::WatchId watch = 0;
  absl::Duration lease_without_caller = absl::InfiniteDuration();
  CaptureManager::OnPreparation on_change;
};

// A capture that is over and whose catalog row says it is not: the disk was full.
struct UnsavedCapture {
  CaptureRecord record;
  absl::Duration next;  // When to try again.
};

// All of the manager's state. Every member function runs on queue_'s thread, except the
// constructor and Stop().
class CaptureManager::Actor {
 public:
  Actor(Options options, TargetPort& targets, StorePort& store, Clock& clock)
      : options_(std::move(options)),
        targets_(targets),
        store_(store),
        clock_(clock),
        store_queue_("profd-store", clock, options_.watchdog),
        queue_("profd-capture", clock, options_.watchdog) {
    queue_.OnTimer([this] { OnTimer(); });
  }

  // Runs `fn` on the actor's thread and returns what it returns; UNAVAILABLE after Stop().
  template <typename Fn>
  auto Run(Fn fn) -> std::invoke_result_t<Fn> {
    std::optional<std::invoke_result_t<Fn>> result;
    const bool ran = queue_.Call([&] { result.emplace(fn()); });
    if (!ran) return absl::UnavailableError("profd is stopping");
    return *std::move(result);
  }
  // The same, for a request that ends captures. Where this thread does not come to it soon, since
  // it waits for the disk, the targets of those that `list` returns are stopped meanwhile: a
  // recording ends when it is to end, whatever the disk does. `list` runs on the caller's thread.
  template <typename Fn>
  auto RunEnding(Fn fn, absl::FunctionRef<std::vector<std::string>()> list)
      -> std::invoke_result_t<Fn> {
    std::optional<std::invoke_result_t<Fn>> result;
    const bool ran = queue_.Call([&] { result.emplace(fn()); }, kEndPatience,
                                 [&] {
                                   for (const std::string& id : list()) targets_.Stop(id);
                                 });
    if (!ran) return absl::UnavailableError("profd is stopping");
    return *std::move(result);
  }
  const LiveIndex& index() const { return index_; }
  TaskQueue& queue() { return queue_; }
  TaskQueue& store_queue() { return store_queue_; }

  absl::StatusOr<std::vector<CaptureRecord>> Create(const Caller& caller,
                                                    const std::vector<TargetNumber>& numbers,
                                                    const CaptureSpec& spec,
                                                    std::string_view request_id, bool group,
                                                    const ScheduledBy* schedule = nullptr);
  absl::StatusOr<CaptureRecord> CreateScheduled(const Caller& caller, TargetNumber target,
                                                const CaptureSpec& spec,
                                                const ScheduledBy& schedule, OnChange on_change);
  absl::StatusOr<CaptureRecord> Get(const Caller& caller, std::string_view id);
  absl::StatusOr<CaptureRecord> Cancel(const Caller& caller, std::string_view id);
  absl::StatusOr<CaptureRecord> Delete(const Caller& caller, std::string_view id);
  absl::StatusOr<std::vector<CaptureRecord>> Live();
  void ForbidCaptures(std::optional<std::string> reason);
  absl::StatusOr<WatchId> Watch(const Caller& caller, std::string_view id, OnChange on_change);
  void StopWatching(WatchId watch);

  absl::StatusOr<WatchId> PrepareGroup(const Caller& caller, const GroupRequest& request,
                                       OnPreparation on_change);
  absl::StatusOr<std::vector<MemberStart>> CommitGroup(const Caller& caller,
                                                       std::string_view group_id,
                                                       const GroupStart& start);
  absl::Status AbortGroup(const Caller& caller, std::string_view group_id);
  absl::Status CloseGroup(const Caller& caller, std::string_view group_id,
                          std::vector<GroupMember> members);

  void TargetGone(TargetNumber target);
  void TargetOptedOut(TargetNumber target);
  void Armed(const std::string& id);
  void Arming(const std::string& id, const std::string& activity);
  void ArmFailed(const std::string& id, const absl::Status& why);
  void Progressed(const std::string& id, const Progress& progress);
  void Drained(const std::string& id, const DrainResult& result);
  void OnTimer();

  void Stop();

 private:
  // Longer than a busy machine takes to run a thread: what delays it more is the disk.
  static constexpr absl::Duration kEndPatience = absl::Milliseconds(100);

  struct Watcher {
    std::string capture_id;
    OnChange on_change;
  };

  absl::StatusOr<std::vector<CaptureRecord>> Replay(const Caller& caller,
                                                    const std::vector<TargetInfo>& targets,
                                                    const CaptureSpec& spec,
                                                    std::string_view request_id);
  absl::StatusOr<TargetInfo> Admit(const Caller& caller, TargetNumber number,
                                   const CaptureSpec& spec, const ScheduledBy* schedule);
  // Counts a request for `count` captures.
  absl::Status CountRequest(const quota::Principal& holder, int64_t count);
  absl::StatusOr<quota::Reservation> ReservePlaces(const quota::Principal& holder, int64_t count);
  // Returns the capture memory of each of `count` captures that are requested together: that of
  // `spec`, or an equal share of what is left for `holder` if `spec` allows less.
  int64_t MemoryOfEach(const quota::Principal& holder, const CaptureSpec& spec,
                       int64_t count) const;
  // Returns for how many captures of `count`, of `each_bytes`, the memory left for `holder`
  // suffices.
  int64_t FittingInMemory(const quota::Principal& holder, int64_t each_bytes, int64_t count) const;
  absl::Status MemoryShortage(const quota::Principal& holder, int64_t each_bytes,
                              int64_t count) const;
  // Returns `status` with the captures whose events were removed for the capture `id` of
  // `principal`, which does not begin: no record of it names them.
  absl::Status NameEvicted(absl::Status status, std::string_view id, std::string_view principal);
  std::unique_ptr<LiveCapture> NewLive(const Caller& caller, TargetInfo target,
                                       const CaptureSpec& spec, const FirePlan& plan);
  // Begins all of them or none; `schedule` nullptr: a user asked for them.
  absl::StatusOr<std::vector<CaptureRecord>> BeginAll(
      std::vector<std::unique_ptr<LiveCapture>> lives, const ScheduledBy* schedule);
  // Starts it, or has it wait for the schedule's capture that it takes the target from.
  absl::Status Begin(std::unique_ptr<LiveCapture> live);
  absl::Status Start(std::unique_ptr<LiveCapture> live);
  absl::Status Arm(LiveCapture& live);
  // Ends what schedules have of `target`, for a user's request.
  void Preempt(TargetNumber target);
  // The capture that holds `target`, other than those that wait for it; nullptr: it is free.
  LiveCapture* HolderOf(TargetNumber target);
  // Arms what waited for the target.
  void Freed(TargetNumber target);
  void KeepGroup(const Caller& caller, const std::vector<CaptureRecord>& records);
  void KeepFirstStep(const std::string& group_id, int64_t first_step);
  // Of captures whose start step all ranks of a job have in common (common_starts.cc).
  void HoldForCommonStart(LiveCapture& live, const CommonStart& start);
  void DecideCommonStart(LiveCapture& live);
  absl::Status JoinCommonGroup(LiveCapture& live);
  // Fires it if it is armed, and arms it if the step is near.
  void ApproachCommonStart(LiveCapture& live);
  // Of one that waits for its target: ends it (TARGET_BUSY) if it cannot begin in time.
  void AwaitHolder(LiveCapture& live, const RecentSteps& recent);
  PreparedMember PreparedOf(const HeldGroup::Member& member) const;
  GroupPreparation PreparationOf(const HeldGroup& group) const;
  void TellPreparation(HeldGroup& group);
  void LeaveGroup(const CaptureRecord& record);
  void RenewLease(const HeldGroup& group, absl::Duration lease);
  // The caller's stream has ended before the commit.
  void ShortenLease(const HeldGroup& group);
  // Whether `members` can be expected to be at `common_step` at the same time.
  bool RunInStep(const std::vector<LiveCapture*>& members, int64_t common_step) const;
  MemberStart StartMember(const HeldGroup::Member& member, const FirePlan& plan,
                          const GroupStart& start);
  LiveCapture* FindLive(std::string_view id);
  const LiveCapture* FindLive(std::string_view id) const;
  // Live, ended and not saved yet, or stored. NOT_FOUND. Says nothing about who may see it.
  absl::StatusOr<CaptureRecord> FindRecord(std::string_view id);
  // Tries to write `capture`'s record to the catalog; sets the next try where that fails.
  absl::Status Save(UnsavedCapture& capture);

  void SetState(LiveCapture& live, CaptureState to);
  void Notify(const CaptureRecord& record);
  void End(LiveCapture& live, EndedBy cause);
  void FireWhenReady(LiveCapture& live);
  void FireGroup(const std::string& group_id);
  void Fire(LiveCapture& live, int64_t base_step);
  void MakeRoomSoon(const CaptureRecord& record);
  void Store(LiveCapture& live, int64_t start_ns);
  void Stored(const std::string& id, CaptureRecord record, const absl::Status& status);
  void Terminate(const std::string& id);
  // Of one that has drained, or could not be armed.
  void KeepDisturbed(const LiveCapture& live);
  // Whether it is worth while to look at steps, and waits for a CPU, after the window; sets
  // `awaited`.
  bool AwaitAfter(LiveCapture& live, const CpuTimesReader& read_cpu_times, int64_t start_ns);
  // Stores it once there was enough to see, or there will be no more in time.
  void CheckAwaited(LiveCapture& live);
  void StoreAwaited(LiveCapture& live);
  void Rearm();  // Sets the timer to the earliest deadline.
  void FinishShutdownIfIdle();

  const Options options_;
  TargetPort& targets_;
  StorePort& store_;
  Clock& clock_;

  std::map<std::string, std::unique_ptr<LiveCapture>, std::less<>> live_;
  LiveIndex index_;  // Of live_.
  // Of targets that are there, by their captures that have drained: as far as steps are shown.
  std::map<TargetNumber, std::vector<DisturbedSteps>> disturbed_;
  std::unordered_map<WatchId, Watcher> watches_;
  WatchId next_watch_ = 1;
  std::map<std::string, HeldGroup, std::less<>> held_;  // By the group's id.
  // Their records are the truth until the catalog takes them. A restarted daemon ends them anew.
  std::map<std::string, UnsavedCapture, std::less<>> unsaved_;
  // The principals for whose fired captures room is to be made, each with its first such capture.
  std::map<std::string, std::string> room_seekers_;
  std::optional<std::string> forbidden_ =
      options_.captures_forbidden;  // Why; nullopt: they are not.
  bool stopping_ = false;

  absl::Mutex idle_mu_;
  CondVar idle_changed_;
  bool idle_ ABSL_GUARDED_BY(idle_mu_) = false;  // Stopping, and nothing is live.

  // Last, so that they stop first; the actor's before the store's.
  TaskQueue store_queue_;
  TaskQueue queue_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_CAPTURE_CAPTURE_ACTOR_H_
