// The collectives of one capture. The table is sorted and limited here: the report itself keeps the
// first ones.
#include <memory>
#include <string>

#include "cli/base/row_limit.h"
#include "cli/captures/capture_source.h"
#include "cli/commands/command.h"
#include "cli/commands/commands.h"
#include "cli/commands/plain_report.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

absl::StatusOr<int> RunCollectives(Invocation& invocation) {
  const ParsedFlags& flags = invocation.flags();
  if (invocation.json() && flags.Has("csv")) return UsageError("--csv does not go with --json");
  table::ViewOptions view = {.sort = flags.Get("sort").value_or("")};
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, flags.Int("limit", 0));
  const bool is_for_people = !invocation.json() && !flags.Has("csv");
  view.limit = limit.value_or(is_for_people ? kRowsForPeople : 0);
  ASSIGN_OR_RETURN(const std::unique_ptr<CaptureSource> source,
                   OpenCaptureSource(invocation, invocation.arguments().front()));
  ASSIGN_OR_RETURN(table::Report report, source->Report({.report = "collectives"}));
  for (table::Table& rows : report.tables) {
    if (rows.key == "communicators") continue;  // Collectives name them by their position.
    RETURN_IF_ERROR(table::Apply(view, rows));
    view.sort.clear();  // Steps have columns of their own.
  }
  if (is_for_people && !report.tables.empty() && report.tables.front().row_count == 0) {
    invocation.Print("No collective operation was recorded.\n");
    return 0;
  }
  PrintReport(invocation, source->view(), report);
  return 0;
}

}  // namespace

Command CollectivesCommand() {
  return {.name = "collectives",
          .summary = "Show collective operations: when each ran, and what nothing overlapped",
          .arguments = "ID|FILE.profd",
          .description =
              "Shows every collective of one capture in the order of its start: the operation, its "
              "communicator, step, size, and duration, and the part of it that no compute "
              "overlapped. Then the communicators, with the names of their process groups where an "
              "imported trace has them, and the time of each step in collectives. At "
              "most 200,000 collectives are read; later ones are counted. `profctl stragglers "
              "GROUP --json` has the collectives of several ranks, matched, with the waits that "
              "the last rank caused.",
          .flags = ReportFlags("collectives", kRowsForPeople),
          .examples = {{"profctl collectives 01J9ZK --sort exposed",
                        "Which collectives hold up compute"},
                       {"profctl collectives run.profd --csv", "All of them, for a spreadsheet"}},
          .min_arguments = 1,
          .max_arguments = 1,
          .completes = Completes::kCapture,
          .takes_nodes = true,
          .run = &RunCollectives};
}

}  // namespace profd::cli
