#include <span>
#include <utility>

#include "absl/time/time.h"
#include "daemon/base/status_macros.h"
#include "daemon/report/ranks/history.h"

namespace profd::report {
namespace {

using table::CountColumn;
using table::NsColumn;
using table::PlainColumn;

constexpr char kName[] = "history";
constexpr char kPoints[] = "points";

std::string Rfc3339(int64_t unix_ns) {
  return absl::FormatTime(absl::RFC3339_full, absl::FromUnixNanos(unix_ns), absl::UTCTimeZone());
}

const table::Description<History>& HistoryTotals() {
  static const table::Description<History> totals = {
      {&History::left_out_count,
       CountColumn("left_out", "Left out", "Older windows left out of the answer")},
      {&History::without_operator_count,
       CountColumn("without_operator", "Without the operator",
                   "Captures in which the operator is not one of the largest")}};
  return totals;
}

}  // namespace

const table::Description<HistoryPoint>& HistoryColumns() {
  static const table::Description<HistoryPoint> columns = {
      {[](const HistoryPoint& point) { return Rfc3339(point.time_unix_ns); },
       PlainColumn("time", "Begin", "Start of the window, in UTC (RFC 3339)")},
      {&HistoryPoint::time_unix_ns,
       NsColumn("time_unix_ns", "Begin in ns", "Start of the window, since 1970-01-01 UTC")},
      {&HistoryPoint::node, PlainColumn("node", "Node", "Node of the daemon")},
      {&HistoryPoint::capture, PlainColumn("capture", "Capture", "The capture's ID")},
      {&HistoryPoint::pid, PlainColumn("pid", "PID", "Process ID")},
      {&HistoryPoint::command,
       PlainColumn("command", "Command", "Command line of the process; empty: not known")},
      {&HistoryPoint::rank,
       PlainColumn("rank", "Rank", "Rank, from the program's metadata; -1: none")},
      {&HistoryPoint::job, PlainColumn("job", "Job", "Job of the process")},
      {&HistoryPoint::schedule,
       PlainColumn("schedule", "Schedule", "Schedule that made the capture; empty: none")},
      {&HistoryPoint::sampling_weight,
       PlainColumn("sampling_weight", "Weight",
                   "Sampling weight: 1 / probability of choosing the target")},
      {&HistoryPoint::quality, PlainColumn("quality", "Quality", "The capture's grade, A to D")},
      {&HistoryPoint::steps,
       CountColumn("steps", "Steps", "Steps in the window; for an operator, in the capture")},
      {&HistoryPoint::min_ns,
       NsColumn("min_ns", "Shortest", "Shortest step, or shortest call of the operator")},
      {&HistoryPoint::median_ns,
       NsColumn("median_ns", "Median step", "Median step time; 0 for operators")},
      {&HistoryPoint::mean_ns,
       NsColumn("mean_ns", "Mean", "Mean step time, or mean call of the operator")},
      {&HistoryPoint::max_ns,
       NsColumn("max_ns", "Longest", "Longest step, or longest call of the operator")},
      {&HistoryPoint::cpu_wait_ns,
       {.key = "cpu_wait_ns",
        .title = "CPU wait",
        .doc = "How long the thread that ran most waited for a CPU in the median step, which is at "
               "most how much longer that made it; null: not known, of an operator, or of a "
               "program with CUDA, whose GPU may work meanwhile",
        .unit = table::Unit::kNs,
        .nullable = true}},
      {&HistoryPoint::calls,
       CountColumn("calls", "Calls", "Calls of the operator; 0 for step times")},
      {&HistoryPoint::self_cpu_ns,
       NsColumn("self_cpu_ns", "Self CPU", "Self CPU time of the operator; 0 for step times")},
      {&HistoryPoint::cpu_total_ns,
       NsColumn("cpu_total_ns", "CPU total", "CPU total of the operator; 0 for step times")},
      {&HistoryPoint::self_device_ns,
       NsColumn("self_device_ns", "Self CUDA", "Self GPU time of the operator; 0 for step times")}};
  return columns;
}

table::Report ToReport(const History& history) {
  return {.name = kName,
          .totals = HistoryTotals().ToTable("totals", std::span(&history, 1)),
          .tables = {HistoryColumns().ToTable(kPoints, history.points)}};
}

absl::StatusOr<History> HistoryOf(const table::Report& report) {
  if (report.name != kName || report.version != table::Report().version) {
    return absl::DataLossError("the answer is not a history that this version reads");
  }
  ASSIGN_OR_RETURN(std::vector<History> history, HistoryTotals().FromTable(report.totals));
  if (history.size() != 1) return table::DoNotFitTogether();
  ASSIGN_OR_RETURN(history.front().points, table::RowsOf(report, kPoints, HistoryColumns()));
  for (HistoryPoint& point : history.front().points) {
    // It comes from another node: what cannot be is not known.
    if (point.cpu_wait_ns < 0 || point.cpu_wait_ns > point.median_ns) point.cpu_wait_ns = -1;
  }
  return std::move(history.front());
}

}  // namespace profd::report
