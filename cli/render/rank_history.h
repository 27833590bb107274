// How a history of the ranks of jobs is shown: which rank is slow, how often, and since when.
//
// Threads: pure functions.
#ifndef PROFD_CLI_RENDER_RANK_HISTORY_H_
#define PROFD_CLI_RENDER_RANK_HISTORY_H_

#include <string>
#include <vector>

#include "cli/base/style.h"
#include "cli/captures/fleet.h"
#include "cli/captures/rank_history.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/table/column.h"

namespace profd::cli {

// A row per rank and node with its trend, and what could not be judged.
std::string RenderRankHistory(const RankHistory& history, const Style& style);
// `nodes` nullptr: one daemon was asked.
void WriteRankHistoryJson(const RankHistory& history, const std::vector<NodeOutcome>* nodes,
                          JsonWriter& json);
void WriteRankHistorySchema(JsonWriter& json);
std::vector<table::Column> RankHistoryColumns();
// A row for each window and compared rank, with a header line.
std::string RankHistoryCsv(const RankHistory& history);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_RANK_HISTORY_H_
