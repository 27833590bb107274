// The columns of the table of steps, and what the report says below it.
#include <algorithm>
#include <string>

#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/units.h"
#include "daemon/report/index/step_table.h"

namespace profd::report {
namespace {

using table::Column;
using table::OverRanks;
using table::Unit;

const table::Description<StepTable>& StepTotals() {
  static const table::Description<StepTable> totals = {
      {&StepTable::min_ns,
       {.key = "min_ns", .title = "Min", .doc = "The shortest step", .unit = Unit::kNs}},
      {&StepTable::median_ns,
       {.key = "median_ns", .title = "Median", .doc = "The median step", .unit = Unit::kNs}},
      {&StepTable::mean_ns,
       {.key = "mean_ns", .title = "Mean", .doc = "The mean step", .unit = Unit::kNs}},
      {&StepTable::p95_ns,
       {.key = "p95_ns",
        .title = "p95",
        .doc = "The 95th percentile of steps, by nearest rank",
        .unit = Unit::kNs}},
      {&StepTable::p99_ns,
       {.key = "p99_ns",
        .title = "p99",
        .doc = "The 99th percentile of steps, by nearest rank",
        .unit = Unit::kNs}},
      {&StepTable::max_ns,
       {.key = "max_ns", .title = "Max", .doc = "The longest step", .unit = Unit::kNs}},
      {&StepTable::outlier_threshold_ns,
       {.key = "outlier_threshold_ns",
        .title = "Outlier threshold",
        .doc = "Longer steps are outliers; 0 if there are too few steps to tell",
        .formula =
            "the larger of median + 5 x the median absolute deviation, and 1.25 x the median",
        .unit = Unit::kNs}}};
  return totals;
}

const table::Description<StepLabel>& LabelColumns() {
  static const table::Description<StepLabel> columns = {
      {&StepLabel::name,
       {.key = "name",
        .title = "Label",
        .doc = "Name of a framework's counter: epoch, global_step",
        .priority = Column::kOnlyInData}},
      {&StepLabel::value,
       {.key = "value",
        .title = "Value",
        .doc = "The framework's number",
        .priority = Column::kOnlyInData}},
      {&StepLabel::step,
       {.key = "step",
        .title = "Step",
        .doc = "The last step that had begun when the label was read; -1: none had",
        .priority = Column::kOnlyInData}}};
  return columns;
}

std::string OutlierNote(const StepTable& steps) {
  if (steps.outlier_threshold_ns == 0) return "Too few steps to tell outliers.";
  const int64_t outliers = std::ranges::count(steps.rows, true, &StepTableRow::outlier);
  return StrCat(FormatCountOf(outliers, "outlier", "outliers"), " (above ",
                FormatNs(steps.outlier_threshold_ns), ")");
}

// Of fewer steps, a percentile is the longest.
constexpr size_t kFewestForP95 = 20;
constexpr size_t kFewestForP99 = 100;

std::string PercentilesText(const StepTable& steps) {
  std::string text;
  if (steps.rows.size() >= kFewestForP95) StrAppend(&text, ", p95 ", FormatNs(steps.p95_ns));
  if (steps.rows.size() >= kFewestForP99) StrAppend(&text, ", p99 ", FormatNs(steps.p99_ns));
  return text;
}

}  // namespace

const table::Description<StepTableRow>& StepColumns() {
  static const table::Description<StepTableRow> columns = {
      {&StepTableRow::index,
       {.key = "index",
        .title = "Step",
        .doc = "The step's number, as in ProfilerStep#N",
        .over_ranks = OverRanks::kKey}},
      {&StepTableRow::global_step,
       {.key = "global_step",
        .title = "Global step",
        .doc = "The step's number in Lightning or Trainer",
        .priority = 1,
        .nullable = true,
        .only_if_set = true,
        .over_ranks = OverRanks::kMin}},
      {&StepTableRow::window,
       {.key = "window",
        .title = "Window",
        .doc = "Window of the capture, counted from 0",
        .priority = 2,
        .only_if_set = true}},
      {&StepTableRow::start_ns,
       {.key = "start_ns",
        .title = "Start",
        .doc = "Start time, relative to the first window",
        .unit = Unit::kNs}},
      {&StepTableRow::duration_ns,
       {.key = "duration_ns",
        .title = "Duration",
        .doc = "Time from the step's mark to the next mark",
        .formula = "end - start",
        .unit = Unit::kNs}},
      {&StepTableRow::vs_median,
       {.key = "vs_median",
        .title = "vs median",
        .doc = "Duration relative to the median of all steps",
        .formula = "duration / median duration",
        .unit = Unit::kRatio,
        .priority = 1}},
      {&StepTableRow::outlier,
       {.key = "outlier",
        .title = "Outlier",
        .doc = "Whether the step is much longer than the others. The finding STEP_OUTLIER uses the "
               "same bound, but leaves out a slow first step (WARMUP_INCLUDED), what the steps "
               "next to it are shorter, usual variation of host time, and waits for a CPU",
        .formula = "duration > median + 5 x the median absolute deviation, and > 1.25 x the median",
        .only_if_set = true,
        .highlight = true}}};
  return columns;
}

table::Report ToReport(const StepTable& steps) {
  table::Report report = {.name = "steps",
                          .totals = StepTotals().ToTable("totals", std::span(&steps, 1)),
                          .tables = {StepColumns().ToTable("steps", steps.rows),
                                     LabelColumns().ToTable("labels", steps.labels)}};
  if (steps.rows.empty()) {
    report.notes.emplace_back(
        "No complete step was captured: the capture was limited by time, ended too early, or is of "
        "a "
        "program whose steps are not known.");
  } else {
    report.notes.push_back(
        StrCat(FormatCountOf(static_cast<int64_t>(steps.rows.size()), "step", "steps"), ": min ",
               FormatNs(steps.min_ns), ", median ", FormatNs(steps.median_ns), ", mean ",
               FormatNs(steps.mean_ns), PercentilesText(steps), ", max ", FormatNs(steps.max_ns)));
    report.notes.push_back(OutlierNote(steps));
    if (steps.has_gpu_work) {
      report.notes.emplace_back(
          "Durations are the host's, from mark to mark. Where the host runs ahead of the GPU, "
          "'profctl report' gives those of the GPU's steps.");
    }
  }
  if (!steps.labels.empty()) {
    report.notes.push_back(
        StrCat("The framework's count: ", ForDisplay(StepLabelsText(steps.labels), 8192)));
  }
  return report;
}

absl::StatusOr<std::vector<StepLabel>> StepLabelsFrom(const table::Report& steps) {
  const table::Table* const labels = steps.Find("labels");
  if (labels == nullptr) return std::vector<StepLabel>();
  return LabelColumns().FromTable(*labels);
}

std::string StepLabelsText(std::span<const StepLabel> labels) {
  std::string text;
  for (size_t i = 0; i < labels.size(); ++i) {
    StrAppend(&text, labels[i].name, " ", labels[i].value);
    const int64_t step = labels[i].step;
    if (i + 1 < labels.size() && labels[i + 1].step == step) {
      StrAppend(&text, ", ");
      continue;
    }
    StrAppend(&text,
              step < 0 ? " before the first step" : StrCat(" when step ", step, " had begun"),
              i + 1 < labels.size() ? "; " : "");
  }
  return text;
}

}  // namespace profd::report
