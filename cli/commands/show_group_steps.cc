#include "cli/commands/show_group_steps.h"

#include "cli/captures/set_collectives.h"
#include "cli/render/group_reports.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {

absl::StatusOr<int> ShowGroupSteps(
    Invocation& invocation, CaptureSet& set,
    absl::FunctionRef<void(const CaptureSet&, const report::GroupSteps&, JsonWriter&)> write_json,
    absl::FunctionRef<std::string(const CaptureSet&, const report::GroupSteps&, const Style&)>
        render) {
  const absl::StatusOr<SetCollectives> collectives = ReadCollectives(set);
  invocation.Note(RenderMissing(set));
  RETURN_IF_ERROR(collectives.status());
  const report::GroupSteps steps = CompareStepsOf(set, *collectives);
  if (invocation.json()) {
    JsonWriter json;
    write_json(set, steps, json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderSetHeader(set, invocation.style()));
    invocation.Print(render(set, steps, invocation.style()));
  }
  return ExitCodeOf(set);
}

}  // namespace profd::cli
