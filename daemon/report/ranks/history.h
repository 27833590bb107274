// How step times, or one operator's times, went over many captures: the report that GetHistory
// answers with, from the summaries of the catalog.
//
// Threads: pure functions. Errors: those of HistoryOf().
#ifndef PROFD_DAEMON_REPORT_RANKS_HISTORY_H_
#define PROFD_DAEMON_REPORT_RANKS_HISTORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/table/description.h"
#include "daemon/base/table/table.h"

namespace profd::report {

// One window of a capture; of an operator, the whole capture.
struct HistoryPoint {
  int64_t time_unix_ns = 0;  // When it began.
  std::string capture;       // ID; its events may be gone.
  std::string node;
  int64_t pid = 0;
  std::string command;  // Of the process; empty: not known.
  int64_t rank = -1;
  std::string job;
  std::string schedule;  // ID; empty: not a scheduled capture.
  double sampling_weight = 1;
  std::string quality;  // Of the capture.
  int64_t steps = 0;    // Complete ones it covers.
  // Of steps; of an operator, of single calls.
  int64_t min_ns = 0;
  int64_t median_ns = 0;  // 0 for operators: it is not kept.
  int64_t mean_ns = 0;
  int64_t max_ns = 0;
  // How long the thread that ran most waited for a CPU in the median step, which is at most how
  // much longer that made it: 0..median_ns. -1: not known, of an operator, or of a program with
  // CUDA, whose GPU may work meanwhile.
  int64_t cpu_wait_ns = -1;
  // Of an operator: the sums over the whole capture.
  int64_t calls = 0;
  int64_t self_cpu_ns = 0;
  int64_t cpu_total_ns = 0;
  int64_t self_device_ns = 0;
};

struct History {
  std::vector<HistoryPoint> points;  // Oldest first.
  int64_t left_out_count = 0;        // Older ones beyond the limit.
  // Captures that kept no summary of the operator: it was not among their largest.
  int64_t without_operator_count = 0;
};

const table::Description<HistoryPoint>& HistoryColumns();
table::Report ToReport(const History& history);
// DATA_LOSS: it is another report, or of a version that this one does not read.
absl::StatusOr<History> HistoryOf(const table::Report& report);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_RANKS_HISTORY_H_
