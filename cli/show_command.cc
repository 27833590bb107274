#include <utility>

#include "cli/capture_source.h"
#include "cli/command.h"
#include "cli/daemon_client.h"
#include "cli/group_view.h"
#include "cli/render_capture.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/ulid.h"

namespace profd::cli {
namespace {

int ShowGroup(Invocation& invocation, const std::vector<CaptureView>& views) {
  if (invocation.json()) {
    JsonWriter json;
    WriteGroupJson(views, {}, json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderGroup(views, invocation.style()));
  }
  return 0;
}

absl::StatusOr<int> Run(Invocation& invocation) {
  const std::string& name = invocation.arguments().front();
  absl::StatusOr<std::unique_ptr<CaptureSource>> source = OpenCaptureSource(invocation, name);
  if (source.status().code() == absl::StatusCode::kNotFound && !NamesFile(name)) {
    // The id may be that of a group.
    ASSIGN_OR_RETURN(const std::string id, ParseCaptureId(name));
    ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
    const auto views = IsUlid(id) ? daemon->GetCaptureGroup(id) : source.status();
    if (views.ok() && !views->empty()) return ShowGroup(invocation, *views);
  }
  RETURN_IF_ERROR(source.status());
  if (invocation.json()) {
    JsonWriter json;
    WriteCaptureJson((*source)->view(), "", json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderCapture((*source)->view(), invocation.style()));
  }
  return 0;
}

}  // namespace

Command ShowCommand() {
  return {.name = "show",
          .summary = "Show one capture: what was asked, covered and lost",
          .arguments = "ID|FILE.profd",
          .description =
              "Shows what was asked for, what was covered, what was lost and why, and "
              "how far the numbers can be trusted. The id of a group shows its "
              "captures.",
          .examples = {{"profctl show 01J9ZK", "A capture, by the start of its id"},
                       {"profctl show run.profd", "A fetched one; no daemon is needed"}},
          .min_arguments = 1,
          .max_arguments = 1,
          .completes = Completes::kCapture,
          .run = &Run};
}

}  // namespace profd::cli
