// Reports that compare the captures of a group, as text and as JSON.
#ifndef PROFD_CLI_RENDER_GROUP_REPORTS_H_
#define PROFD_CLI_RENDER_GROUP_REPORTS_H_

#include <string>

#include "cli/base/style.h"
#include "cli/captures/capture_set.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/table/object.h"
#include "daemon/base/table/table.h"
#include "daemon/report/findings/findings.h"
#include "daemon/report/index/step_labels.h"
#include "daemon/report/ranks/clock_alignment.h"
#include "daemon/report/ranks/group_reports.h"

namespace profd::cli {

// What a member is called in tables: its rank; without one, where it ran.
std::string LabelOf(const CaptureSet::Member& member);

// "group", "members", which everything else points into by position, and "absent_ranks".
const table::ObjectDescription<CaptureSet>& MembersObject();
// `style`, for tables over all members: as the one that lost most.
Style StyleFor(const CaptureSet& set, Style style);
// Above a report: which group it is over, and how well it was recorded.
std::string RenderSetHeader(const CaptureSet& set, const Style& style);
// A line for each member that is missing, one for all ranks without a trace; empty: none is.
std::string RenderMissing(const CaptureSet& set);
// kExitPartial if a member is missing.
int ExitCodeOf(const CaptureSet& set);

// How far clocks may be off, in a sentence.
std::string RenderClock(const report::ClockAlignment& alignment);

// A report over all members, or with the rows of each: who they are, then its totals and tables.
void WriteSetReportJson(const CaptureSet& set, const table::Report& report, JsonWriter& json);
// Writes type, properties, and required members of that into the open object.
void WriteSetReportSchema(const table::Report& shape, JsonWriter& json);

std::string RenderGroupOps(const CaptureSet& set, const report::GroupOps& ops,
                           const report::OpOptions& options, const Style& style);
// What the figures are: of which basis, and what keeps them from being compared.
std::string RenderGroupOpsBasis(const CaptureSet& set, const report::GroupOps& ops,
                                const report::OpOptions& options);
void WriteGroupOpsJson(const CaptureSet& set, const report::GroupOps& ops,
                       const report::OpOptions& options, JsonWriter& json);
std::string GroupOpsCsv(const CaptureSet& set, const report::GroupOps& ops);

// Steps that were compared, and the clocks on which their collectives were matched.
struct ComparedSteps {
  const report::GroupSteps& steps;
  const report::ClockAlignment& clocks;
  report::FrameworkSteps framework = {};
  report::RankExcess excess = {};  // Of the rank that comes first in steps.ranking.
};

// The rows of `steps`, and of `stragglers`, of a group. Callers sort and limit them, and pass them
// to the other functions.
table::Table GroupStepsTable(const CaptureSet& set, const report::GroupSteps& steps,
                             const report::FrameworkSteps& framework);
table::Table StragglersTable(const CaptureSet& set, const report::GroupSteps& steps,
                             const report::FrameworkSteps& framework);

// Which rank slows the others, or why that is unknown. REQUIRES: a ranking that is not empty.
std::string RenderStragglerVerdict(const CaptureSet& set, const report::GroupSteps& steps);
// What the slow rank does more of, and where to look; empty: it is unknown.
std::string RenderExcess(const report::RankExcess& excess, const Style& style);

std::string RenderGroupSteps(const CaptureSet& set, const ComparedSteps& compared,
                             const table::Table& rows, const Style& style);
void WriteGroupStepsJson(const CaptureSet& set, const ComparedSteps& compared,
                         const table::Table& rows, JsonWriter& json);

std::string RenderStragglers(const CaptureSet& set, const ComparedSteps& compared,
                             const table::Table& rows, const Style& style);
void WriteStragglersJson(const CaptureSet& set, const ComparedSteps& compared,
                         const table::Table& rows, JsonWriter& json);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_GROUP_REPORTS_H_
