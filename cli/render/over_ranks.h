// The reports that a group's captures each have, as one: a row for what the ranks have in common,
// compared by one figure, or the rows of each rank.
//
// How do I add one?  Rows that ranks have in common need a key (Column::over_ranks), and the report
// a row in over_ranks.cc.
//
// Threads: any. Errors: none.
#ifndef PROFD_CLI_RENDER_OVER_RANKS_H_
#define PROFD_CLI_RENDER_OVER_RANKS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/style.h"
#include "cli/captures/capture_set.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/table/table.h"

namespace profd::cli {

struct OverRanksKind {
  std::string_view report;
  // What ranks are compared by without --sort; empty: the first time of each table.
  std::string_view figure;
  // Tables that say nothing over ranks: points in time.
  std::span<const std::string_view> left_out = {};
  // Tables whose rows are of one rank each, although they have a key.
  std::span<const std::string_view> of_each_rank = {};
};

// nullptr: ranks are not compared by it.
const OverRanksKind* FindOverRanksKind(std::string_view report);

// `reports`: of the members of `set`, one each; nullptr for one that is missing, not for all of
// them. `figure`: what --sort names; empty: the kind's. The last table, "ranks", has the totals of
// each rank. Notes without figures are kept, with the ranks that they are of.
table::Report ReportOverRanks(const CaptureSet& set, const OverRanksKind& kind,
                              std::span<const table::Report* const> reports,
                              std::string_view figure);
table::Report ReportOfEachRank(const CaptureSet& set, const OverRanksKind& kind,
                               std::span<const table::Report* const> reports);

// Its tables below their headings, and its notes.
std::string RenderOverRanks(const table::Report& report, const Style& style);

// The columns that the comparison adds, with the figure of kernels as an example.
std::vector<table::Column> OverRanksColumns();

// Writes type, properties, and required members of the group's --json into the open object.
void WriteOverRanksSchema(std::string_view report, JsonWriter& json);
void WriteOfEachRankSchema(std::string_view report, JsonWriter& json);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_OVER_RANKS_H_
