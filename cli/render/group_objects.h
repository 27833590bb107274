// The JSON of reports that compare the captures of a group, described: `profctl schema`, --csv, and
// `explain` are made from the same descriptions. Each answer also has the fields of MembersObject()
// (group_reports.h), which all positions of members point into.
//
// Threads: any. Errors: none.
#ifndef PROFD_CLI_RENDER_GROUP_OBJECTS_H_
#define PROFD_CLI_RENDER_GROUP_OBJECTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cli/captures/capture_set.h"
#include "cli/render/group_reports.h"
#include "cli/render/rank_rows.h"
#include "daemon/base/table/object.h"
#include "daemon/base/table/table.h"
#include "daemon/report/index/step_labels.h"
#include "daemon/report/ranks/clock_alignment.h"
#include "daemon/report/ranks/group_reports.h"

namespace profd::cli {

// ---- the clocks of the members ----

const table::ObjectDescription<report::ClockAlignment>& ClockObject();

// ---- operators by rank ----

struct GroupOpView {
  const report::GroupOpRow* row;
  std::string slowest_label;  // As LabelOf().
};
std::vector<GroupOpView> OpViewsOf(const CaptureSet& set, const report::GroupOps& ops);
const table::ObjectDescription<GroupOpView>& GroupOpObject();

struct GroupOpsAnswer {
  const CaptureSet& set;
  std::string figure;  // What ranks are compared by.
  int64_t row_count = 0;
  bool per_step = false;
  const std::vector<int64_t>& step_counts;
  const std::vector<GroupOpView>& rows;
};
const table::ObjectDescription<GroupOpsAnswer>& GroupOpsObject();

// ---- steps by rank ----

struct GroupStepView {
  const report::GroupStepRow* row;
  int64_t global_step = -1;  // The framework's number; -1: it has none.
  std::string number;        // As people read it.
  std::string slowest_label;
  std::string waited_most_label;  // Empty: none waited.
};
std::vector<GroupStepView> StepViewsOf(const CaptureSet& set, const report::GroupSteps& steps,
                                       const report::FrameworkSteps& framework);
const table::Description<GroupStepView>& GroupStepColumns();

// `rows`: of GroupStepColumns(), sorted and limited.
struct GroupStepsAnswer {
  const CaptureSet& set;
  const ComparedSteps& compared;
  const table::Table& rows;
};
const table::ObjectDescription<GroupStepsAnswer>& GroupStepsObject();

// ---- stragglers ----

std::vector<RankRow> RankRowsOf(const CaptureSet& set, const report::GroupSteps& steps);
const table::Description<RankRow>& StragglerColumns();

// `ranks`: of StragglerColumns(), sorted.
struct StragglersAnswer {
  const CaptureSet& set;
  const ComparedSteps& compared;
  const table::Table& ranks;
};
const table::ObjectDescription<StragglersAnswer>& StragglersObject();

// ---- for `profctl explain` (lists.h) ----

std::vector<table::Column> GroupOpTextColumns();
std::vector<table::Column> GroupStepTextColumns();
std::vector<table::Column> StragglerTextColumns();

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_GROUP_OBJECTS_H_
