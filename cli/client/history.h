// How step times, one operator's times, or the ranks of jobs went over many captures: what is asked
// of a daemon, and what it answers.
//
// Threads: pure functions.
#ifndef PROFD_CLI_CLIENT_HISTORY_H_
#define PROFD_CLI_CLIENT_HISTORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/client/capture_view.h"
#include "daemon/base/table/table.h"

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

// One window of a capture; of an operator, the whole capture. Fields as in reports.proto.
struct HistoryPoint {
  int64_t time_unix_ns = 0;
  std::string capture;  // Id.
  std::string node;
  int64_t pid = 0;
  int64_t rank = -1;
  std::string job;
  std::string schedule;  // ID; empty: not a scheduled capture.
  double sampling_weight = 1;
  std::string quality;
  int64_t steps = 0;
  int64_t min_ns = 0;
  int64_t median_ns = 0;
  int64_t mean_ns = 0;
  int64_t max_ns = 0;
  int64_t calls = 0;
  int64_t self_cpu_ns = 0;
  int64_t cpu_total_ns = 0;
  int64_t self_device_ns = 0;
};

struct History {
  std::vector<HistoryPoint> points;  // Oldest first.
  int64_t left_out_count = 0;
  int64_t without_operator_count = 0;
};

// All of several daemons' as one.
History Merged(std::vector<History> parts);

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
