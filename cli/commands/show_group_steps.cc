#include "cli/commands/show_group_steps.h"

#include "cli/captures/set_collectives.h"
#include "cli/render/group_reports.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

// "rank 0 has 80 to 99, rank 1 has 157 to 176"
std::string StepsByMember(const CaptureSet& set, const report::GroupSteps& steps) {
  constexpr int kMostNamed = 4;
  std::string text;
  int named = 0;
  for (size_t i = 0; i < steps.members.size(); ++i) {
    const std::vector<report::RankStep>& of_member = steps.members[i];
    if (of_member.empty() || named == kMostNamed) continue;
    const CaptureSet::Member& member = set.members()[i];
    StrAppend(&text, named++ == 0 ? "" : ", ", member.rank >= 0 ? "rank " : "", LabelOf(member),
              " has ");
    if (of_member.front().step < 0) {
      text += "none";
    } else {
      StrAppend(&text, of_member.front().step, " to ", of_member.back().step);
    }
  }
  return text;
}

}  // namespace

absl::StatusOr<int> ShowGroupSteps(
    Invocation& invocation, CaptureSet& set, bool needs_common_steps,
    absl::FunctionRef<void(const CaptureSet&, const ComparedSteps&, JsonWriter&)> write_json,
    absl::FunctionRef<std::string(const CaptureSet&, const ComparedSteps&, const Style&)> render) {
  const absl::StatusOr<SetCollectives> collectives = ReadCollectives(set);
  invocation.Note(RenderMissing(set));
  RETURN_IF_ERROR(collectives.status());
  const report::GroupSteps steps = CompareStepsOf(set, *collectives);
  if (needs_common_steps && steps.common_steps.empty() && !steps.rows.empty()) {
    return absl::FailedPreconditionError(
        StrCat("no step is in all of the captures (", StepsByMember(set, steps),
               "); capture the ranks together with `profctl trace --job`"));
  }
  const ComparedSteps compared = {.steps = steps,
                                  .clocks = collectives->matched.clocks,
                                  .framework = collectives->framework};
  if (invocation.json()) {
    JsonWriter json;
    write_json(set, compared, json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderSetHeader(set, invocation.style()));
    invocation.Print(render(set, compared, invocation.style()));
  }
  return ExitCodeOf(set);
}

}  // namespace profd::cli
