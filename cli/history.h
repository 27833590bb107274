// How step times, or one operator's times, went over many captures: what is asked of a daemon,
// what it answers, and how that is shown.
//
// Threads: pure functions.
#ifndef PROFD_CLI_HISTORY_H_
#define PROFD_CLI_HISTORY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "cli/fleet.h"
#include "cli/json_writer.h"
#include "cli/style.h"

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
  std::string schedule;  // Id; empty: somebody asked.
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

// What of a point is shown to people.
enum class HistoryMeasure {
  kStep,     // The median step of the window.
  kSelfCpu,  // These three: per step, or per call where a capture has no steps.
  kCpuTotal,
  kSelfDevice,
  kCall,  // The mean call.
};
std::optional<HistoryMeasure> HistoryMeasureFromString(std::string_view text);  // "self_cpu"

// `values` as a line of blocks, one column for each equal span of [begin, end): the median of the
// values in it, blank where there are none. The lowest block stands for the lowest median, but
// differences below a tenth of it are not blown up to the full height.
struct TimedValue {
  int64_t time_unix_ns = 0;
  double value = 0;
};
std::string Sparkline(std::span<const TimedValue> values, int64_t begin_unix_ns,
                      int64_t end_unix_ns, int columns);

// A row with a sparkline for each process or rank, by node, job and rank. `several_nodes`: with
// a column for the node.
std::string RenderHistory(const History& history, const HistoryQuery& query, HistoryMeasure measure,
                          bool several_nodes, const Style& style);
// {"step_time" or "operator", "points": [...], "left_out", "without_operator", "nodes"}; `nodes`
// nullptr: one daemon was asked.
void WriteHistoryJson(const History& history, const HistoryQuery& query,
                      const std::vector<NodeOutcome>* nodes, JsonWriter& json);
// As RFC 4180 has it, with a header line; times as in --json and as RFC 3339.
std::string HistoryCsv(const History& history);

}  // namespace profd::cli

#endif  // PROFD_CLI_HISTORY_H_
