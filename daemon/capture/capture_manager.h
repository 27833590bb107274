// CaptureManager runs captures: it owns every live one from CreateCapture to its terminal
// state, decides each step of its life (drawn in capture_types.h), and sees targets and
// storage only through ports.h.
//
// It is one actor: a thread ("profd-capture") owns all state and handles one thing at a
// time: a request, news from a target, a timer. Public methods post to it and wait for
// the answer; so there are no locks to order, and a test drives it step by step.
// Writing the end of a capture file (STORING) runs on a second thread ("profd-store"), so
// that a big capture never delays the start or end of another.
//
// Threads:   every public method, from any thread but the manager's own (callbacks run
//            there). They wait for the actor, which waits for the catalog: milliseconds. Where a
//            disk hangs, those that end captures have the targets stopped first.
// Ownership: the ports and the clock must outlive the manager.
// Shutdown:  Shutdown() ends live captures as PARTIAL or FAILED by daemon_stop and waits
//            for them to be stored; later calls fail UNAVAILABLE.
#ifndef PROFD_DAEMON_CAPTURE_CAPTURE_MANAGER_H_
#define PROFD_DAEMON_CAPTURE_CAPTURE_MANAGER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/watchdog.h"
#include "daemon/capture/access.h"
#include "daemon/capture/capture_types.h"
#include "daemon/capture/group_types.h"
#include "daemon/capture/ports.h"
#include "daemon/capture/scheduled_captures.h"
#include "daemon/quota/ledger.h"

namespace profd {

class CaptureManager final : public TargetPort::Observer, public ScheduledCaptures {
 public:
  struct Options {
    std::string node_name;
    // A target that has not answered ARM by then fails its capture.
    absl::Duration arm_timeout = absl::Seconds(30);
    // The same for one that says it is arming: CUPTI may take the 60 s that ingest gives it.
    absl::Duration gpu_arm_timeout = absl::Seconds(75);
    // A group's members start this much after the last one armed, in steps of the fastest. Agents
    // of a node whose cores are all busy were seen to take more than 50 ms to pass the start on.
    absl::Duration group_lead = absl::Milliseconds(250);
    // Limits live captures, capture memory, and requests per minute; must outlive the manager.
    // nullptr: nothing is limited.
    quota::Ledger* ledger = nullptr;
    // Watches the manager's threads; must outlive the manager. nullptr: not watched.
    Watchdog* watchdog = nullptr;
    // Why captures are switched off from the start; nullopt: they are not.
    std::optional<std::string> captures_forbidden;
    // Hears of every capture that ended, in its terminal state; on the manager's thread: count
    // and return.
    std::function<void(const CaptureRecord&)> on_end;
  };

  CaptureManager(Options options, TargetPort& targets, StorePort& store, Clock& clock);
  ~CaptureManager() override;  // Shuts down, if that has not happened.

  // Creates a capture and starts arming; the record returned is PENDING or later. Errors
  // as CaptureService.CreateCapture lists them, with their reasons (base/reason.h). Where a
  // schedule captures the target, that capture is cancelled (ended_by preempted), and this
  // one stays PENDING until the target is free.
  absl::StatusOr<CaptureRecord> Create(const Caller& caller, TargetNumber target,
                                       const CaptureSpec& spec, std::string_view request_id);
  // One capture per target, all with one group_id and the same first step.
  absl::StatusOr<std::vector<CaptureRecord>> CreateGroup(const Caller& caller,
                                                         const std::vector<TargetNumber>& targets,
                                                         const CaptureSpec& spec,
                                                         std::string_view request_id);

  // The live record, or the store's. `id` is whole. NOT_FOUND also for other owners'.
  absl::StatusOr<CaptureRecord> Get(const Caller& caller, std::string_view id) override;
  // NOT_FOUND. A terminal capture is returned as it is.
  absl::StatusOr<CaptureRecord> Cancel(const Caller& caller, std::string_view id);
  // NOT_FOUND; FAILED_PRECONDITION (CAPTURE_LIVE).
  absl::StatusOr<CaptureRecord> Delete(const Caller& caller, std::string_view id);

  // ---- groups whose first step the client chooses (drawn in group_types.h) ----

  // Arms the targets and holds them until CommitGroup, at most for the lease: then they end
  // FAILED by lease_expired. `on_change` hears how far they are, at once and at every change,
  // the last time settled; as with Watch(), it runs on the manager's thread and StopWatching()
  // ends it. A target that is refused is a member with an error. INVALID_ARGUMENT; ALREADY_EXISTS
  // (GROUP_EXISTS); RESOURCE_EXHAUSTED (DISK_FULL).
  using OnPreparation = std::function<void(const GroupPreparation&)>;
  absl::StatusOr<int64_t> PrepareGroup(const Caller& caller, const GroupRequest& request,
                                       OnPreparation on_change);
  // Tells the held members when to begin. One that is past the step gets no start: it ends FAILED
  // by missed_start. May be repeated with the same start. NOT_FOUND: no such group of the
  // caller's is held. FAILED_PRECONDITION (COMMITTED): it was, with another start.
  absl::StatusOr<std::vector<MemberStart>> CommitGroup(const Caller& caller,
                                                       std::string_view group_id,
                                                       const GroupStart& start);
  // Cancels what is live of this group, however it was made; OK if nothing is.
  // PERMISSION_DENIED: nothing was, since some member is not the caller's to cancel.
  absl::Status AbortGroup(const Caller& caller, std::string_view group_id);
  // Keeps how all members, of all nodes, ended. NOT_FOUND; PERMISSION_DENIED: somebody else
  // asked for it.
  absl::Status CloseGroup(const Caller& caller, std::string_view group_id,
                          std::vector<GroupMember> members);

  // Switches captures off, which ends live ones by opt_out, or (nullopt) on. Whoever asks is
  // told CAPTURES_OFF with the reason. Keeping that over a restart is the caller's.
  void ForbidCaptures(std::optional<std::string> reason);

  // Live captures, and those that ended while the catalog could not be written: what of a
  // listing of the store is to be taken from here.
  std::vector<CaptureRecord> Live();

  // How many captures are live. Waits for nothing.
  int64_t live_count() const;

  // Calls `on_change` with the record at once and after every change, the last time with
  // a terminal state; never after StopWatching returned. It runs on the manager's
  // thread: hand over and return. NOT_FOUND. A terminal capture gives one call.
  using WatchId = int64_t;
  using OnChange = ScheduledCaptures::OnChange;
  absl::StatusOr<WatchId> Watch(const Caller& caller, std::string_view id, OnChange on_change);
  // Idempotent. Waits for a running call of `on_change`; not to be called from within it.
  void StopWatching(WatchId watch);

  absl::StatusOr<CaptureRecord> CreateScheduled(const Caller& caller, TargetNumber target,
                                                const CaptureSpec& spec,
                                                const ScheduledBy& schedule,
                                                OnChange on_change) override;

  void Shutdown();

  // TargetPort::Observer, called by ingest.
  void OnTargetAdded(TargetNumber target) override;
  void OnTargetGone(TargetNumber target) override;
  void OnTargetOptedOut(TargetNumber target) override;
  void OnArmed(std::string_view capture_id) override;
  void OnArming(std::string_view capture_id, std::string_view activity) override;
  void OnArmFailed(std::string_view capture_id, absl::Status why) override;
  void OnProgress(std::string_view capture_id, const Progress& progress) override;
  void OnDrained(std::string_view capture_id, DrainResult result) override;

  // Waits until everything posted so far was handled, including the storing it led to.
  void DrainForTesting();
  // Handles timers that are due by the (fake) clock.
  void RunTimersForTesting();

 private:
  class Actor;
  const std::unique_ptr<Actor> actor_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_CAPTURE_CAPTURE_MANAGER_H_
