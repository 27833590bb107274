#include "cli/client/history.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "daemon/base/status_macros.h"

namespace profd::cli {

History Merged(std::vector<History> parts) {
  History all;
  for (History& part : parts) {
    all.left_out_count += part.left_out_count;
    all.without_operator_count += part.without_operator_count;
    std::ranges::move(part.points, std::back_inserter(all.points));
  }
  std::ranges::stable_sort(all.points, [](const HistoryPoint& a, const HistoryPoint& b) {
    return std::tie(a.time_unix_ns, a.capture) < std::tie(b.time_unix_ns, b.capture);
  });
  return all;
}

absl::Status SortPoints(const std::string& column, History& history) {
  table::Report report = report::ToReport(history);
  RETURN_IF_ERROR(table::Apply({.sort = column}, report.tables.front()));
  ASSIGN_OR_RETURN(history, report::HistoryOf(report));
  return absl::OkStatus();
}

}  // namespace profd::cli
