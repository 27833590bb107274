// GroupCapture captures the same steps of processes on many nodes: it is the coordinator of the
// two-phase capture that CaptureService describes, for as long as profctl runs.
//
//   resolve ─► PREPARE on all ─► clocks, steps ─► COMMIT at one step ─► watch ─► CLOSE on all
//                   │ quorum not met                   │ a rank had passed it, and nothing was
//                   └─► ABORT                          └─► recorded: ABORT, again with more lead
//
// Whatever happens to it, nothing stays armed: what is prepared lapses with its lease, also after
// the commit, until its window begins. Watching renews the lease. With `detach`, committed members
// need no lease: they end with their steps or their timeout.
//
// Threads: one.
#ifndef PROFD_CLI_CAPTURES_GROUP_CAPTURE_H_
#define PROFD_CLI_CAPTURES_GROUP_CAPTURE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "cli/base/interrupts.h"
#include "cli/captures/fleet.h"
#include "cli/captures/group_start.h"
#include "cli/captures/progress.h"
#include "cli/client/capture_view.h"
#include "cli/client/daemon_client.h"
#include "daemon/capture/group_types.h"

namespace profd::cli {

struct GroupCaptureRequest {
  CaptureSpec spec;  // `start_step` may be set: the first step for all.
  std::string job;   // Only processes of this job; empty: all that the caller may capture.
  std::optional<Quorum> quorum;
  absl::Duration lead = absl::Milliseconds(500);    // From the decision to the first step.
  absl::Duration node_timeout = absl::Seconds(10);  // For a node to answer.
  bool detach = false;  // Committed members record, even if profctl ends before their window.
};

// One process that was asked for.
struct JobMember {
  size_t node = 0;  // Index of the fleet's member.
  TargetInfo target;
  CaptureView view;          // Without an id: it could not be prepared.
  std::string error_reason;  // Why it did not take part; empty: it did, as far as `view` says.
  std::string error_message;

  bool was_ready = false;  // It was prepared when the quorum was counted.

  bool HasCapture() const { return !view.record.id.empty(); }
  // All that was asked for was recorded.
  bool IsComplete() const { return view.record.state == CaptureState::kComplete; }
};

struct GroupCaptureResult {
  std::string id;  // ULID; of the last try.
  int64_t first_step = -1;
  CaptureState state = CaptureState::kFailed;
  std::vector<JobMember> members;  // By rank, node, pid.
  // Ranks of the job that no process has on the nodes that answered (AbsentRanks()): they ended, or
  // are on other nodes. Only where a job is asked for.
  std::vector<int64_t> absent_ranks;
  std::optional<int64_t> world_size;  // Of the job; nullopt: its processes do not say.
  std::vector<NodeOutcome> nodes;     // As the fleet's members.
  std::vector<ClockOffset> clocks;    // As the fleet's members.
  bool interrupted = false;

  // The largest bound of any node's clock; -1: none was measured.
  int64_t ClockResidualNs() const;
};

class GroupCapture {
 public:
  // All must outlive it; `invocation` for what is shown meanwhile. An interrupt cancels what is
  // live; Run() goes on to its end, with what was recorded.
  GroupCapture(Invocation& invocation, Fleet& fleet, Interrupts& interrupts,
               GroupCaptureRequest request);

  // Until all have ended. An error is that of nothing having been begun, and nothing is armed:
  // NOT_FOUND (NO_TARGETS), FAILED_PRECONDITION (NO_QUORUM, STEP_PASSED, or the reason that kept
  // everybody from taking part), CANCELLED.
  absl::Status Run();

  // As far as Run() came.
  const GroupCaptureResult& result() const { return result_; }

 private:
  absl::Status Resolve();
  void Prepare();
  void Take(const PreparedMember& prepared, size_t index);
  absl::Status CheckQuorum();
  std::string FirstReason() const;
  void MeasureClocks();
  absl::Status ReadSteps(size_t node, DaemonClient& daemon);
  absl::Status ChooseStart();
  void Commit();
  // What node `node` is asked to begin. The same for every renewal of the lease.
  GroupStart StartOf(size_t node, std::vector<GroupMember> members) const;
  // Who had passed the step, if none records yet: then it may be tried again.
  const JobMember* MissedBeforeAnyRecorded();
  // The same once all have ended.
  const JobMember* MissedAndNothingRecorded() const;
  void Watch();
  absl::Status WatchNode(size_t node, DaemonClient& daemon, CaptureProgress& progress);
  void Close();
  void CallOff();
  void Conclude();

  // Calls `work` for every node that has answered so far and has a member with a capture.
  void OnNodes(absl::Duration deadline,
               absl::FunctionRef<absl::Status(size_t node, DaemonClient& daemon)> work);
  void Note(size_t node, const absl::Status& status);
  static void Miss(JobMember& member, const absl::Status& why);
  bool CanStart(const JobMember& member) const;
  std::vector<size_t> MembersOf(size_t node) const;  // That have a capture.
  std::vector<GroupMember> Hearsay() const;
  void Show(std::string_view text);

  Invocation& invocation_;
  Fleet& fleet_;
  Interrupts& interrupts_;
  const GroupCaptureRequest request_;
  absl::Duration lead_;
  // Nodes' threads write to members of their own.
  GroupCaptureResult result_;
  std::vector<std::string> names_;  // What the nodes call themselves.
  std::vector<MemberPace> paces_;   // As result_.members.
  // As the fleet's members, from preparing to the commit: nodes notice if we are gone.
  std::vector<std::shared_ptr<DaemonClient::Presence>> presences_;
  absl::Time start_time_ = absl::InfinitePast();  // By duration: when, by our clock.

  absl::Mutex mu_;
  ProgressLine line_ ABSL_GUARDED_BY(mu_);
};

// "node3 rank 5", "node3 pid 4711"
std::string NameOf(const GroupCaptureResult& result, const JobMember& member);

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_GROUP_CAPTURE_H_
