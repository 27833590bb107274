#include "cli/commands/trace_group.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cli/base/errors.h"
#include "cli/base/failures.h"
#include "cli/captures/capture_source.h"
#include "cli/client/daemon_client.h"
#include "cli/client/invocation.h"
#include "cli/render/group_view.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

int GroupExitCode(const GroupCaptureResult& result) {
  switch (result.state) {
    case CaptureState::kComplete:
      return kExitDone;
    case CaptureState::kCancelled:
      return kExitInterrupted;
    case CaptureState::kPartial:
      return kExitPartial;
    default:
      return kExitFailed;
  }
}

absl::Status SaveOne(Invocation& invocation, DaemonClient& daemon, const CaptureView& view,
                     const OutputKind& kind, const std::string& path) {
  ProgressLine line(invocation.error_style());
  const auto show = [&](int64_t done, int64_t total) {
    line.Show(TransferProgress("writing", done, total));
  };
  if (!kind.trace.has_value()) return FetchToFile(daemon, view, path, show);
  const auto source = NewDaemonSource(daemon, view);
  return ExportToFile(*source, *kind.trace, path, show).status();
}

// `paths` are as result.members; empty where there is nothing to write. A node whose captures
// cannot be fetched any more does not keep us from the others' files.
std::vector<Failure> SaveAll(Invocation& invocation, Fleet& fleet, const GroupCaptureResult& result,
                             const std::string& output, const OutputKind& kind,
                             std::vector<std::string>& paths) {
  std::vector<CaptureView> views;
  for (const JobMember& member : result.members) {
    views.push_back(member.view);
    views.back().record.target = member.target;
  }
  const std::vector<std::string> tags = TagsFor(views);
  std::vector<Failure> failures;
  for (size_t i = 0; i < views.size(); ++i) {
    if (!views[i].HasEvents()) continue;
    const size_t node = result.members[i].node;
    const std::string path = WithTag(output, tags[i]);
    absl::Status saved = absl::UnavailableError("its node cannot be reached any more");
    if (DaemonClient* const daemon = fleet.connection(node)) {
      daemon->LimitCalls(absl::InfiniteDuration());
      saved = SaveOne(invocation, *daemon, views[i], kind, path);
    }
    if (saved.ok()) {
      paths[i] = path;
    } else {
      failures.push_back({views[i].record.id, result.nodes[node].node, std::move(saved)});
    }
  }
  return failures;
}

}  // namespace

absl::StatusOr<int> TraceGroup(Invocation& invocation, Fleet& fleet, Interrupts& interrupts,
                               GroupCaptureRequest request, const std::string& output,
                               const OutputKind& output_kind) {
  GroupCapture capture(invocation, fleet, interrupts, std::move(request));
  const absl::Status status = capture.Run();
  const GroupCaptureResult& result = capture.result();
  if (!status.ok()) {
    invocation.Note(RenderNodeFailures(result.nodes));
    if (absl::IsFailedPrecondition(status))
      invocation.Note(RenderMissed(result, /*called_off=*/true));
    return status;
  }
  std::vector<std::string> paths(result.members.size());
  interrupts.OnInterrupt([&fleet] { fleet.Abort(); });
  std::vector<Failure> unsaved;
  if (!output.empty()) unsaved = SaveAll(invocation, fleet, result, output, output_kind, paths);
  interrupts.OnInterrupt(nullptr);

  if (invocation.json()) {
    JsonWriter json;
    JobCaptureAnswerObject().Write({result, paths, unsaved}, json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderGroupCapture(result, invocation.style()));
  }
  RETURN_IF_ERROR(invocation.WriteStatus());
  invocation.Note(RenderMissed(result, /*called_off=*/false));
  invocation.Note(RenderNodeFailures(result.nodes));
  if (!invocation.json()) {
    for (const std::string& path : paths) {
      if (!path.empty()) invocation.Print(StrCat(path, "\n"));
    }
  }
  if (!invocation.json() && std::ranges::any_of(result.members, [](const JobMember& member) {
        return member.view.HasEvents();
      })) {
    invocation.Note(NextForGroup(invocation.NextProfctl(), result.id));
  }
  invocation.Note(DescribeFailures(unsaved, "no file of capture"));
  if (!unsaved.empty()) return ExitCodeOf(unsaved, /*any_done=*/false);
  return GroupExitCode(result);
}

}  // namespace profd::cli
