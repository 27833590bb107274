// How a history of step times, or of one operator, is shown.
//
// Threads: pure functions.
#ifndef PROFD_CLI_RENDER_HISTORY_H_
#define PROFD_CLI_RENDER_HISTORY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/style.h"
#include "cli/captures/fleet.h"
#include "cli/client/history.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/table/table.h"

namespace profd::cli {

// Which figure of each point text output shows.
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
table::Table HistorySeriesOf(const History& history, HistoryMeasure measure, bool several_nodes);
std::vector<table::Column> HistorySeriesColumns();
// `series`: those of the history, in the order in which they are shown.
std::string RenderHistory(const History& history, const table::Table& series,
                          const HistoryQuery& query, HistoryMeasure measure, const Style& style);
// {"operator", "step_time", "points": [...], "left_out", "without_operator", "nodes"}; `nodes`
// nullptr: one daemon was asked.
void WriteHistoryJson(const History& history, const HistoryQuery& query,
                      const std::vector<NodeOutcome>* nodes, JsonWriter& json);
void WriteHistorySchema(JsonWriter& json);
// The points, with a header line.
std::string HistoryCsv(const History& history);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_HISTORY_H_
