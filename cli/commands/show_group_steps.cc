#include "cli/commands/show_group_steps.h"

#include <optional>

#include "cli/base/errors.h"
#include "cli/captures/set_collectives.h"
#include "cli/captures/slow_rank.h"
#include "cli/render/group_reports.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/json.h"
#include "daemon/base/text.h"

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

absl::Status AsUsage(const absl::Status& status) {
  return status.ok() ? status : UsageError(std::string(FromAbsl(status.message())));
}

}  // namespace

absl::StatusOr<report::RankExcess> ExplainOrNote(Invocation& invocation, CaptureSet& set,
                                                 const report::GroupSteps& steps) {
  absl::StatusOr<report::RankExcess> excess = ExplainSlowRank(set, steps);
  if (excess.ok() || absl::IsCancelled(excess.status())) return excess;
  invocation.Note(StrCat("Why the rank is slow is unknown: ",
                         ForDisplay(FromAbsl(excess.status().message()), 300), "\n"));
  return report::RankExcess();
}

absl::StatusOr<int> ShowGroupSteps(Invocation& invocation, CaptureSet& set,
                                   const GroupStepsCommand& command) {
  const ParsedFlags& flags = invocation.flags();
  if (invocation.json() && flags.Has("csv")) return UsageError("--csv does not go with --json");
  table::ViewOptions view = {.sort = flags.Get("sort").value_or("")};
  if (command.sort_key != nullptr) view.sort = command.sort_key(view.sort);
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, flags.Int("limit", 0));
  view.limit = limit.value_or(0);
  // Before the work: a sort key that does not exist costs nothing.
  table::Table rows = command.rows(set, {}, {});
  RETURN_IF_ERROR(AsUsage(table::Apply(view, rows)));

  const absl::StatusOr<SetCollectives> collectives = ReadCollectives(set);
  invocation.Note(RenderMissing(set));
  RETURN_IF_ERROR(collectives.status());
  const report::GroupSteps steps = CompareStepsOf(set, *collectives);
  if (command.needs_common_steps && steps.common_steps.empty() && !steps.rows.empty()) {
    return absl::FailedPreconditionError(
        StrCat("no step is in all of the captures (", StepsByMember(set, steps),
               "); capture the ranks together with `profctl trace --job`"));
  }
  ComparedSteps compared = {
      .steps = steps, .clocks = collectives->matched.clocks, .framework = collectives->framework};
  if (command.explains_slow_rank && !flags.Has("csv")) {
    ASSIGN_OR_RETURN(compared.excess, ExplainOrNote(invocation, set, steps));
  }
  rows = command.rows(set, steps, compared.framework);
  RETURN_IF_ERROR(table::Apply(view, rows));
  if (invocation.json()) {
    JsonWriter json;
    command.write_json(set, compared, rows, json);
    invocation.Print(json.TakeLine());
  } else if (flags.Has("csv")) {
    invocation.Note(RenderSetHeader(set, invocation.error_style()));
    invocation.Print(table::ToCsv(rows));
  } else {
    invocation.Print(RenderSetHeader(set, invocation.style()));
    invocation.Print(command.render(set, compared, rows, invocation.style()));
  }
  return ExitCodeOf(set);
}

}  // namespace profd::cli
