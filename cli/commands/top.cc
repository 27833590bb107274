#include "cli/render/top.h"

#include <unistd.h>

#include <utility>
#include <vector>

#include "cli/base/errors.h"
#include "cli/captures/fleet.h"
#include "cli/client/daemon_client.h"
#include "cli/commands/command.h"
#include "cli/commands/watching.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

constexpr absl::Duration kDefaultInterval = absl::Seconds(1);
constexpr absl::Duration kShortestRefresh = absl::Milliseconds(100);
constexpr int64_t kMaxRunningCaptures = 100;

CaptureFilter RunningCaptures() {
  CaptureFilter filter;
  filter.states = {CaptureState::kPending, CaptureState::kArming,    CaptureState::kWaitingStep,
                   CaptureState::kWarmup,  CaptureState::kRecording, CaptureState::kDraining,
                   CaptureState::kStoring};
  return filter;
}

// One node's part of a look.
absl::Status LookAtNode(DaemonClient& daemon, NodeTargets& targets,
                        std::vector<CaptureView>& captures) {
  ASSIGN_OR_RETURN(targets.targets, daemon.ListTargets());
  ASSIGN_OR_RETURN(captures, daemon.ListCaptures(RunningCaptures(), kMaxRunningCaptures));
  return absl::OkStatus();
}

class Top {
 public:
  Top(Invocation& invocation, std::optional<Fleet> fleet)
      : invocation_(invocation), fleet_(std::move(fleet)) {}

  absl::StatusOr<Look> TakeLook() {
    TopLook seen;
    std::vector<NodeOutcome> outcomes;
    if (fleet_.has_value()) {
      ASSIGN_OR_RETURN(outcomes, LookAtFleet(seen));
    } else {
      ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation_.Daemon());
      RETURN_IF_ERROR(LookAtNode(*daemon, seen.nodes.emplace_back(), seen.captures));
    }
    seen.time = absl::Now();
    view_.Add(seen);
    return Look{
        .text = invocation_.json() ? ToJson(seen, outcomes) : view_.Render(invocation_.style()),
        .notes = RenderNodeFailures(outcomes),
        .exit_code = ExitCodeOf(outcomes)};
  }

 private:
  absl::StatusOr<std::vector<NodeOutcome>> LookAtFleet(TopLook& seen) {
    ASSIGN_OR_RETURN(const absl::Duration timeout, NodeTimeoutOf(invocation_));
    for (const Fleet::Member& member : fleet_->members()) seen.nodes.push_back({member.node, {}});
    std::vector<std::vector<CaptureView>> captures(seen.nodes.size());
    std::vector<NodeOutcome> outcomes =
        RunOnAll(invocation_, *fleet_, timeout, [&](size_t member, DaemonClient& daemon) {
          return LookAtNode(daemon, seen.nodes[member], captures[member]);
        });
    for (size_t member = 0; member < captures.size(); ++member) {
      for (CaptureView& view : captures[member]) {
        view.record.node = seen.nodes[member].node;
        seen.captures.push_back(std::move(view));
      }
    }
    return outcomes;
  }

  std::string ToJson(const TopLook& seen, const std::vector<NodeOutcome>& outcomes) const {
    JsonWriter json;
    TopAnswerObject().Write({seen, fleet_.has_value() ? &outcomes : nullptr}, json);
    return json.TakeLine();
  }

  Invocation& invocation_;
  std::optional<Fleet> fleet_;
  TopView view_;
};

absl::StatusOr<int> RunTop(Invocation& invocation) {
  ASSIGN_OR_RETURN(const auto every, invocation.flags().Duration("every"));
  const absl::Duration interval = every.value_or(kDefaultInterval);
  if (interval < kShortestRefresh || interval > absl::Hours(1)) {
    return UsageError("--every takes 100ms to 1h");
  }
  if (!invocation.json() && !invocation.style().is_terminal) {
    return UsageError("`profctl top` needs a terminal; elsewhere, use --json or `profctl ps`");
  }
  ASSIGN_OR_RETURN(std::optional<Fleet> fleet, FleetOf(invocation));
  Top top(invocation, std::move(fleet));
  const auto look = [&] { return top.TakeLook(); };
  return invocation.json() ? WatchUntilInterrupted(invocation, interval, look)
                           : WatchFullScreen(invocation, interval, look);
}

}  // namespace

Command TopCommand() {
  return {.name = "top",
          .summary = "Watch the steps of all targets",
          .description =
              "Shows the targets with their step rate, the step times of the last minute, and the "
              "captures that run, on the whole terminal. The lowest block of a line stands for its "
              "shortest step time. q or Ctrl-C quits.\n\nA target that misses two steps has \"none "
              "for\" and the time since its last step instead of a step time.\n\nWith --json, each "
              "look is one line: the targets as `profctl ps` has them, and \"captures\".",
          .flags = {{.name = "every",
                     .value_name = "TIME",
                     .help = "The time between two looks (default: 1s)"}},
          .examples = {{"profctl top", "This machine"},
                       {"profctl --nodes gpu[001-016] top", "A job's nodes"},
                       {"profctl top --json --every 10s", "A line every 10 s, for a script"}},
          .takes_nodes = true,
          .run = &RunTop};
}

}  // namespace profd::cli
