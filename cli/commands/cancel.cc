#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/base/errors.h"
#include "cli/base/failures.h"
#include "cli/captures/find_group.h"
#include "cli/captures/fleet.h"
#include "cli/client/daemon_client.h"
#include "cli/commands/command.h"
#include "cli/commands/each_capture.h"
#include "cli/render/group_view.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

absl::StatusOr<CaptureView> CancelOne(DaemonClient& daemon, const std::string& id) {
  absl::StatusOr<CaptureView> view = daemon.CancelCapture(id);
  if (!view.ok() || IsTerminal(view->record.state)) return view;
  const auto ended = daemon.WatchCaptures(
      {id}, [](size_t, const CaptureView&) {}, [] {});
  if (!ended.ok()) return ended.status();
  return ended->front();
}

// Cancels it on every node that has a part of it, and waits.
absl::StatusOr<int> CancelGroup(Invocation& invocation, Fleet* fleet, const FoundGroup& group) {
  std::vector<CaptureView> views;
  std::vector<Failure> failures;
  // All daemons first, so that no member records on while another one drains. A failure shows
  // below.
  for (const FoundCaptureOf& capture : group.captures) {
    const absl::StatusOr<DaemonClient*> daemon = OwnerOf(capture, invocation, fleet);
    if (daemon.ok()) (void)(*daemon)->AbortGroup(group.record.id);
  }
  for (const FoundCaptureOf& capture : group.captures) {
    const absl::StatusOr<DaemonClient*> daemon = OwnerOf(capture, invocation, fleet);
    absl::StatusOr<CaptureView> ended =
        daemon.ok() ? CancelOne(**daemon, capture.view.record.id) : daemon.status();
    if (!ended.ok()) {
      const CaptureRecord& record = capture.view.record;
      failures.push_back({record.id, record.node, ended.status()});
      continue;
    }
    if (fleet != nullptr) ended->record.node = capture.view.record.node;
    if (!invocation.json()) {
      invocation.Print(
          StrCat(ended->record.id, " on ", ended->record.node, " ", ended->state, "\n"));
    }
    views.push_back(*std::move(ended));
  }
  if (invocation.json()) {
    JsonWriter json;
    GroupAnswerObject().Write({views, {}, failures}, json);
    invocation.Print(json.TakeLine());
  }
  invocation.Note(DescribeFailures(failures, "capture"));
  invocation.Note(RenderNodeFailures(group.outcomes));
  if (!failures.empty()) return ExitCodeOf(failures, !views.empty());
  return group.outcomes.empty() ? kExitDone : ExitCodeOf(group.outcomes);
}

absl::StatusOr<int> RunCancel(Invocation& invocation) {
  const std::optional<std::string> id = WholeGroupId(invocation.arguments().front());
  if (id.has_value() && invocation.arguments().size() == 1) {
    ASSIGN_OR_RETURN(std::optional<Fleet> fleet, FleetOf(invocation));
    Fleet* const many = fleet.has_value() ? &*fleet : nullptr;
    const absl::StatusOr<FoundGroup> group = FindGroup(invocation, many, *id);
    if (group.ok()) return CancelGroup(invocation, many, *group);
  }
  return ForEachCapture(invocation, &CancelOne);
}

}  // namespace

Command CancelCommand() {
  return {.name = "cancel",
          .summary = "End a running capture; what it has recorded is kept",
          .arguments = "ID|GROUP...",
          .description =
              "Ends live captures and waits until they have ended. They become CANCELLED, and what "
              "was recorded by then is kept. A capture that has already ended does not change. The "
              "ID of a group ends all of its captures, on every node that is asked.",
          .examples = {{"profctl cancel 01J9ZK", "Stop it now"}},
          .min_arguments = 1,
          .max_arguments = 1000,
          .completes = Completes::kCapture,
          .takes_nodes = true,
          .run = &RunCancel};
}

}  // namespace profd::cli
