// How step times, one operator's times, or the ranks of jobs went over many captures: what is asked
// of a daemon, and what it answers.
//
// Threads: pure functions. Errors: those named.
#ifndef PROFD_CLI_CLIENT_HISTORY_H_
#define PROFD_CLI_CLIENT_HISTORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cli/client/capture_view.h"
#include "daemon/base/table/table.h"
#include "daemon/report/ranks/history.h"

namespace profd::cli {

struct HistoryQuery {
  std::string operator_name;  // Empty: step times.
  absl::Time since = absl::InfinitePast();
  absl::Time until = absl::InfiniteFuture();
  std::string job;       // Empty: any.
  std::string schedule;  // Id, or the start of one; empty: any.
  int64_t pid = 0;       // 0: any
  int64_t limit = 0;     // Newest points of each daemon; 0: as many as it gives.
};

using report::History;
using report::HistoryPoint;

// All of several daemons' as one.
History Merged(std::vector<History> parts);
// Sorts the windows by a column, as --sort does rows. INVALID_ARGUMENT: there is no such column.
absl::Status SortPoints(const std::string& column, History& history);

// What a daemon keeps of one rank in one window of its job, for comparing ranks. As RankSummary in
// reports.proto.
struct RankSummaryView {
  CaptureView view;
  std::optional<table::Report> collectives;  // nullopt: no summary is kept.
  int64_t left_out_step_count = 0;
  int64_t clock_offset_ns = 0;
  int64_t clock_bound_ns = -1;  // -1: not measured.
};
// The captures of a group are created by one command, or in one scheduled window.
inline constexpr absl::Duration kGroupSlack = absl::Minutes(1);

// Of one daemon's answers, which are joined in memory.
struct RankSummaryLimits {
  int64_t captures = 0;
  int64_t rows = 0;  // Steps and collectives: some 90 bytes each.
};
struct RankSummaries {
  std::vector<RankSummaryView> captures;  // Newest first.
  bool is_cut = false;                    // There are older ones.
};

}  // namespace profd::cli

#endif  // PROFD_CLI_CLIENT_HISTORY_H_
