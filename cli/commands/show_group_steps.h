// What `steps` and `stragglers` share of a group: its steps compared, below the group's header, or
// as JSON.
#ifndef PROFD_CLI_COMMANDS_SHOW_GROUP_STEPS_H_
#define PROFD_CLI_COMMANDS_SHOW_GROUP_STEPS_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cli/base/style.h"
#include "cli/captures/capture_set.h"
#include "cli/client/invocation.h"
#include "cli/commands/command.h"
#include "cli/render/group_reports.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/table/table.h"
#include "daemon/report/index/step_labels.h"
#include "daemon/report/ranks/group_reports.h"

namespace profd::cli {

// What differs between the two.
struct GroupStepsCommand {
  bool needs_common_steps = false;  // FAILED_PRECONDITION if no step is in all captures.
  bool explains_slow_rank = false;  // It also needs ComparedSteps::excess.
  // The column that --sort means; nullptr: that of the same name.
  std::string (*sort_key)(std::string_view key) = nullptr;
  table::Table (*rows)(const CaptureSet& set, const report::GroupSteps& steps,
                       const report::FrameworkSteps& framework);
  void (*write_json)(const CaptureSet& set, const ComparedSteps& compared, const table::Table& rows,
                     JsonWriter& json);
  std::string (*render)(const CaptureSet& set, const ComparedSteps& compared,
                        const table::Table& rows, const Style& style);
};

// ExplainSlowRank(); where that cannot be had, stderr says why and the text is empty. CANCELLED:
// the user interrupted.
absl::StatusOr<report::RankExcess> ExplainOrNote(Invocation& invocation, CaptureSet& set,
                                                 const report::GroupSteps& steps);

// Shows the rows as --sort, --limit, --csv, and --json say. The exit code: 4 where members are
// missing, which stderr names.
absl::StatusOr<int> ShowGroupSteps(Invocation& invocation, CaptureSet& set,
                                   const GroupStepsCommand& command);

}  // namespace profd::cli

#endif  // PROFD_CLI_COMMANDS_SHOW_GROUP_STEPS_H_
