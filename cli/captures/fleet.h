// Fleet: the daemons that a command line means, and one call to all of them at once.
//
//   --nodes gpu[001-128] ─► hostlist ─┐
//   --nodes @FILE, dns:NAME ──────────┼─► members ─► Run(): at most 256 members at once,
//   --job 88123 ─► squeue ────────────┘              a deadline each, results as they come
//
// A member is asked on a thread: its calls block, so that `work` is plain code. There are 16
// threads at first. Their number doubles, up to 256, while this process uses less than half of the
// cores, because it then waits for members. Fewer threads take less CPU time for a warm call
// (tests/bench/README.md). Connections are kept from one Run() to the next, at most 1,024 of them.
// Where the limit of open files is low, Run() asks fewer members at once and keeps fewer
// connections; RunTogether() fails those that there is no room for (RESOURCE_EXHAUSTED).
//
// Threads: one caller; Abort() any thread.
#ifndef PROFD_CLI_CAPTURES_FLEET_H_
#define PROFD_CLI_CAPTURES_FLEET_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/base/object.h"
#include "cli/client/daemon_client.h"
#include "cli/client/endpoints.h"

namespace profd::cli {

class Invocation;

class Fleet {
 public:
  struct Member {
    std::string node;  // As named; what the daemon calls itself is in its NodeInfo.
    Endpoint endpoint;
  };

  explicit Fleet(std::vector<Member> members);
  ~Fleet();
  Fleet(Fleet&&) noexcept;
  Fleet& operator=(Fleet&&) noexcept;

  const std::vector<Member>& members() const;

  // Calls `work` for every member, connected, for at most 256 of them at once; then `on_done` on
  // the caller's thread, in the order in which they end. A member that cannot be reached, or
  // that has not ended `deadline` after it was begun with, is done with that error (UNAVAILABLE,
  // DEADLINE_EXCEEDED); its call is aborted. Returns when all are done. `work` must be safe to call
  // at once for different members.
  void Run(absl::Duration deadline,
           absl::FunctionRef<absl::Status(size_t member, DaemonClient& daemon)> work,
           absl::FunctionRef<void(size_t member, const absl::Status& status)> on_done);

  // The same for some of the members.
  void RunOn(const std::vector<size_t>& chosen, absl::Duration deadline,
             absl::FunctionRef<absl::Status(size_t member, DaemonClient& daemon)> work,
             absl::FunctionRef<void(size_t member, const absl::Status& status)> on_done);

  // For some of the members, and all of them at once: where none must wait for another one's end.
  void RunTogether(const std::vector<size_t>& chosen, absl::Duration deadline,
                   absl::FunctionRef<absl::Status(size_t member, DaemonClient& daemon)> work,
                   absl::FunctionRef<void(size_t member, const absl::Status& status)> on_done);

  // The connection to a member that the last Run() reached, or a new one where it was not kept;
  // null: it did not. Its calls still have the deadline of that Run() until LimitCalls() gives them
  // another.
  DaemonClient* connection(size_t member);

  // Ends what runs, and all later calls, as CANCELLED.
  void Abort();

 private:
  class Impl;
  void RunThreads(bool is_one_each, const std::vector<size_t>& chosen, absl::Duration deadline,
                  absl::FunctionRef<absl::Status(size_t member, DaemonClient& daemon)> work,
                  absl::FunctionRef<void(size_t member, const absl::Status& status)> on_done);

  std::unique_ptr<Impl> impl_;
};

// What the command line names with --nodes, --job on Slurm, or the current context's nodes;
// nullopt: one daemon only. INVALID_ARGUMENT (USAGE); what a node source says if it fails.
absl::StatusOr<std::optional<Fleet>> FleetOf(Invocation& invocation);

// --node-timeout: how long one node may take; default 10 s.
absl::StatusOr<absl::Duration> NodeTimeoutOf(const Invocation& invocation);

// How one Run() went, per member: the "nodes" of --json, and on stderr who failed
// and why.
struct NodeOutcome {
  std::string node;
  absl::Status status;
};
const ObjectDescription<NodeOutcome>& NodeOutcomeObject();
// The member "nodes" of an answer, which has `const std::vector<NodeOutcome>* outcomes`; nullptr:
// one daemon was asked, and there is no such member.
template <typename Answer>
Member<Answer> NodeOutcomesMember() {
  const auto has_outcomes = [](const Answer& answer) { return answer.outcomes != nullptr; };
  const auto outcomes = [](const Answer& answer) -> const auto& { return *answer.outcomes; };
  return Optional<Answer>(has_outcomes, ListOf<Answer>("nodes", "Result per node, with --nodes",
                                                       &NodeOutcomeObject, outcomes));
}
// Equal errors are one line. Empty: none failed.
std::string RenderNodeFailures(const std::vector<NodeOutcome>& outcomes);
// 0: all ok; 4: some failed; else the code of the error they share (5 refused, 6 no daemon), or 1.
int ExitCodeOf(const std::vector<NodeOutcome>& outcomes);

// "97 of 128 nodes; waiting for gpu[003,077]". No names while more than 256 nodes are waited for.
std::string FleetProgress(const Fleet& fleet, const std::set<size_t>& waiting);

// Run() with a line of progress on a terminal; what came of each member, in their order.
std::vector<NodeOutcome> RunOnAll(
    Invocation& invocation, Fleet& fleet, absl::Duration deadline,
    absl::FunctionRef<absl::Status(size_t member, DaemonClient& daemon)> work);

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_FLEET_H_
