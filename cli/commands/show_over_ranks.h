// What commands share that show one report of a capture, of a group: the ranks compared, or the
// rows of each with `--group-by rank`.
#ifndef PROFD_CLI_COMMANDS_SHOW_OVER_RANKS_H_
#define PROFD_CLI_COMMANDS_SHOW_OVER_RANKS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "cli/base/flags.h"
#include "cli/captures/capture_set.h"
#include "cli/client/invocation.h"
#include "daemon/base/table/table.h"
#include "daemon/report/reports.h"

namespace profd::cli {

// --group-by rank, and --group.
std::vector<Flag> OverRanksFlags();
// Adds what only the comparison of ranks can be sorted by.
void AddComparedColumns(Flag& sort);

// What the descriptions of such commands say of groups.
inline constexpr std::string_view kOverRanksHelp =
    "\n\nOf a group, or of several files, it compares the ranks by the column that --sort names "
    "(default: the total, idle time, or what the table has first): minimum, median, maximum, and "
    "the rank of the maximum. Other numbers are sums over the ranks where they are sums, and "
    "medians else. Then come the totals of each rank. With --group-by rank, it shows the rows of "
    "each rank. A member that is out of reach is named on stderr, and the exit code is then 4.";

struct OverRanksCommand {
  report::ReportRequest request;  // As for one capture.
  int64_t limit = 0;              // Rows of each table that are shown; 0: all.
  bool is_demanding = false;      // It is asked for with DemandingReport().
};

// `adjust` changes the tables before people see them. The exit code: 4 where members are missing,
// which stderr names. INVALID_ARGUMENT (USAGE): a --sort that the report does not have.
absl::StatusOr<int> ShowOverRanks(
    Invocation& invocation, CaptureSet& set, const OverRanksCommand& command,
    absl::FunctionRef<void(table::Report&)> adjust = [](table::Report&) {});

}  // namespace profd::cli

#endif  // PROFD_CLI_COMMANDS_SHOW_OVER_RANKS_H_
