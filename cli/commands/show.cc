#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/base/errors.h"
#include "cli/captures/capture_source.h"
#include "cli/captures/find_group.h"
#include "cli/captures/fleet.h"
#include "cli/client/resource_names.h"
#include "cli/commands/command.h"
#include "cli/render/capture.h"
#include "cli/render/group_view.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/index/step_table.h"

namespace profd::cli {
namespace {

absl::StatusOr<int> ShowGroup(Invocation& invocation, const std::string& id) {
  ASSIGN_OR_RETURN(std::optional<Fleet> fleet, FleetOf(invocation));
  ASSIGN_OR_RETURN(const FoundGroup group,
                   FindGroup(invocation, fleet.has_value() ? &*fleet : nullptr, id));
  if (invocation.json()) {
    JsonWriter json;
    WriteFoundGroupJson(group, json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderFoundGroup(group, invocation.style()));
  }
  invocation.Note(RenderNodeFailures(group.outcomes));
  return group.outcomes.empty() ? kExitDone : ExitCodeOf(group.outcomes);
}

// What a framework called the steps; of a capture whose events are gone, nothing.
std::vector<report::StepLabel> StepLabelsOf(Invocation& invocation, CaptureSource& source) {
  const CaptureRecord& record = source.view().record;
  if (record.torch.note_count == 0 || !IsTerminal(record.state) || record.deleted) return {};
  const auto labels = [&]() -> absl::StatusOr<std::vector<report::StepLabel>> {
    ASSIGN_OR_RETURN(const table::Report steps, source.Report({.report = "steps"}));
    return report::StepLabelsFrom(steps);
  }();
  if (labels.ok()) return *labels;
  invocation.Note(
      StrCat("Framework step labels are not available: ", labels.status().message(), "\n"));
  return {};
}

absl::StatusOr<int> RunShow(Invocation& invocation) {
  const std::string& name = invocation.arguments().front();
  absl::StatusOr<std::unique_ptr<CaptureSource>> source = name.starts_with(kGroupsPrefix)
                                                              ? absl::NotFoundError("")
                                                              : OpenCaptureSource(invocation, name);
  if (absl::IsNotFound(source.status()) && !NamesFile(name)) {
    if (const std::optional<std::string> id = WholeGroupId(name)) {
      absl::StatusOr<int> shown = ShowGroup(invocation, *id);
      if (shown.ok() || name.starts_with(kGroupsPrefix)) return shown;
    }
  }
  RETURN_IF_ERROR(source.status());
  const std::vector<report::StepLabel> labels = StepLabelsOf(invocation, **source);
  if (invocation.json()) {
    JsonWriter json;
    WriteCaptureJson((*source)->view(), "", json, labels);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderCapture((*source)->view(), invocation.style(), labels));
  }
  return 0;
}

}  // namespace

Command ShowCommand() {
  return {.name = "show",
          .summary = "Show one capture: what was asked, covered and lost",
          .arguments = "ID|FILE.profd",
          .description =
              "Shows what was requested, what was recorded, what was lost and why, how far to "
              "trust the numbers, and what a framework on top of PyTorch calls the steps. The ID "
              "of a group shows its captures: those of the node that is asked, or of all --nodes; "
              "for the others, what they reported at their end. An imported group also lists the "
              "ranks without a trace.",
          .examples = {{"profctl show 01J9ZK", "A capture, by the start of its id"},
                       {"profctl show run.profd", "A fetched one; no daemon is needed"}},
          .min_arguments = 1,
          .max_arguments = 1,
          .completes = Completes::kCapture,
          .takes_nodes = true,
          .run = &RunShow};
}

}  // namespace profd::cli
