// Findings as a report: what a daemon answers, what `profctl report` makes of the answer, and its
// JSON.
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/description.h"
#include "daemon/base/table/nested.h"
#include "daemon/base/table/object.h"
#include "daemon/base/table/table.h"
#include "daemon/report/findings/findings.h"

namespace profd::report {
namespace {

using table::ListOf;
using table::NestedTable;
using table::ObjectDescription;
using table::Path;
using table::ReadNested;
using table::RowsOf;
using table::Unit;

constexpr std::string_view kName = "findings";

// What is in a report once.
const table::Description<FindingsReport>& TotalsColumns() {
  using Row = FindingsReport;
  constexpr auto kQuality = &Row::quality;
  static const table::Description<Row> columns = {
      {&Row::verdict,
       {.key = "verdict", .doc = "Where the time goes, what to change first, and what to trust"}},
      {&Row::bound, {.key = "bound_by", .doc = "What most of a step goes to"}},
      {Path<kQuality, &Quality::grade>(),
       {.key = "grade", .doc = "Quality of the capture, A to D"}},
      {Path<kQuality, &Quality::lost_share>(),
       {.key = "lost_share", .doc = "Share of all events that were lost", .unit = Unit::kShare}},
      {Path<kQuality, &Quality::stored>(),
       {.key = "quality_stored", .doc = "Whether the grade was stored with the capture"}},
      {&Row::step_count,
       {.key = "step_count",
        .doc = "Steps in averages, the last ones of the capture; 0: there are no steps, and the "
               "time from the GPU's first work to its last, or the window, counts as one"}},
      {&Row::steps_of_gpu,
       {.key = "steps_of_gpu",
        .doc = "Whether a step is counted from the GPU's first work for it to that for the next, "
               "because the host runs ahead of the GPU; false: from mark to mark"}},
      {&Row::idle_ns,
       {.key = "idle_ns",
        .doc = "Idle time of the GPU in these steps, summed: that of the same steps in `profctl "
               "time`, unless they are the GPU's",
        .unit = Unit::kNs,
        .nullable = true}},
      {&Row::gap_count,
       {.key = "gap_count",
        .doc = "GPU gaps that begin in the averaged steps, as in `profctl time`: times between two "
               "activities in which no stream did anything",
        .unit = Unit::kCount,
        .nullable = true}},
      {&Row::mean_step_ns,
       {.key = "mean_step_ns", .doc = "Mean duration of these steps", .unit = Unit::kNs}},
      {&Row::unrecorded_step_ns,
       {.key = "unrecorded_step_ns",
        .doc = "A step without the recording, where that made steps longer for certain",
        .unit = Unit::kNs,
        .nullable = true}},
      {&Row::unrecorded_idle_ns,
       {.key = "unrecorded_idle_ns",
        .doc = "Idle time of the GPU in such a step",
        .unit = Unit::kNs,
        .nullable = true}}};
  return columns;
}

const table::Description<Finding>& FindingColumns() {
  static const table::Description<Finding> columns = {
      {&Finding::rule, {.key = "rule", .title = "Rule", .doc = "The rule that found it"}},
      {&Finding::title, {.key = "title", .title = "Finding", .doc = "What was found"}},
      {&Finding::severity,
       {.key = "severity", .title = "Severity", .doc = "critical, warning, or info"}},
      {&Finding::unit,
       {.key = "unit",
        .title = "Unit",
        .doc = "Unit of value and threshold: share, ns, bytes, count, or ratio"}},
      {&Finding::value, {.key = "value", .title = "Value", .doc = "What was measured"}},
      {&Finding::threshold,
       {.key = "threshold",
        .title = "Threshold",
        .doc = "The value from which on it is a finding"}},
      {&Finding::saving_ns_per_step,
       {.key = "saving_ns_per_step",
        .title = "Saving",
        .doc = "Estimated wall time per step that the change saves; 0: none, or not estimated. "
               "Idle time of the GPU is in one saving only; other savings may overlap",
        .unit = Unit::kNs}},
      {&Finding::confidence,
       {.key = "confidence", .title = "Confidence", .doc = "high, medium, or low"}},
      {&Finding::confidence_reason,
       {.key = "confidence_reason", .title = "Because", .doc = "Why the confidence is what it is"}},
      {&Finding::measured,
       {.key = "measured", .title = "Measured", .doc = "The figures, in one sentence"}},
      {&Finding::advice, {.key = "advice", .title = "Advice", .doc = "What to change"}}};
  return columns;
}

const table::Description<Evidence>& EvidenceColumns() {
  static const table::Description<Evidence> columns = {
      {&Evidence::kind,
       {.key = "kind",
        .title = "Kind",
        .doc = "What it names: step, op, kernel, copy, call, gap, collective, memory, code, check, "
               "or rank"}},
      {&Evidence::name,
       {.key = "name", .title = "Evidence", .doc = "Name of the evidence, as recorded or shown"}},
      {&Evidence::detail,
       {.key = "detail", .title = "Detail", .doc = "More about the evidence, in words"}},
      {&Evidence::count,
       {.key = "count",
        .title = "Count",
        .doc = "Number of occurrences, such as launches of an operator",
        .unit = Unit::kCount,
        .nullable = true}},
      {&Evidence::duration_ns,
       {.key = "duration_ns",
        .title = "Time",
        .doc = "Duration of the evidence: of one, or the sum over the count",
        .unit = Unit::kNs,
        .nullable = true}},
      {&Evidence::bytes,
       {.key = "bytes",
        .title = "Bytes",
        .doc = "Size of the evidence",
        .unit = Unit::kBytes,
        .nullable = true}},
      {&Evidence::step,
       {.key = "step", .title = "Step", .doc = "Number of its step", .nullable = true}},
      {&Evidence::global_step,
       {.key = "global_step",
        .title = "Global step",
        .doc = "Number that the framework (PyTorch Lightning, Transformers) has for that step",
        .nullable = true}},
      {&Evidence::device,
       {.key = "device", .title = "Device", .doc = "Number of its GPU", .nullable = true}},
      {&Evidence::start_ns,
       {.key = "start_ns",
        .title = "Start",
        .doc = "Start of the event, or of the longest one; null: not known",
        .unit = Unit::kNs}}};
  static_assert(Evidence::kNoTime == table::Column::kUnknown);
  return columns;
}

const table::Description<SkippedRule>& SkippedColumns() {
  static const table::Description<SkippedRule> columns = {
      {&SkippedRule::rule,
       {.key = "rule", .title = "Rule", .doc = "A rule that could not be checked"}},
      {&SkippedRule::title, {.key = "title", .title = "Finding", .doc = "What it looks for"}},
      {&SkippedRule::needs, {.key = "needs", .title = "Needs", .doc = "The data that it lacks"}}};
  return columns;
}

const table::Description<PassedRule>& PassedColumns() {
  static const table::Description<PassedRule> columns = {
      {&PassedRule::rule,
       {.key = "rule", .title = "Rule", .doc = "A rule that was checked and found nothing"}},
      {&PassedRule::title, {.key = "title", .title = "Finding", .doc = "What it looks for"}},
      {&PassedRule::unit,
       {.key = "unit", .title = "Unit", .doc = "Unit of value and threshold, as in findings"}},
      {&PassedRule::value, {.key = "value", .title = "Value", .doc = "What was measured"}},
      {&PassedRule::threshold,
       {.key = "threshold",
        .title = "Threshold",
        .doc = "The value from which on it would be a finding"}}};
  return columns;
}

const table::Description<QualityCheck>& CheckColumns() {
  static const table::Description<QualityCheck> columns = {
      {&QualityCheck::name,
       {.key = "name", .title = "Check", .doc = "A check of the capture's quality"}},
      {[](const QualityCheck& check) { return std::string(1, check.grade); },
       {.key = "grade", .title = "Grade", .doc = "The best grade that it allows"}},
      {&QualityCheck::known,
       {.key = "known", .title = "Known", .doc = "Whether the capture tells"}},
      {&QualityCheck::is_share,
       {.key = "is_share", .title = "Share", .doc = "Whether value and bound are shares"}},
      {&QualityCheck::value, {.key = "value", .title = "Value", .doc = "What was found"}},
      {&QualityCheck::bound, {.key = "bound", .title = "Bound", .doc = "Above it the check fails"}},
      {&QualityCheck::sentence,
       {.key = "sentence", .title = "Sentence", .doc = "What was found, in one sentence"}}};
  return columns;
}

absl::StatusOr<std::vector<QualityCheck>> ChecksOf(const table::Report& report) {
  ASSIGN_OR_RETURN(std::vector<QualityCheck> checks, RowsOf(report, "checks", CheckColumns()));
  const table::Table& rows = *report.Find("checks");
  const size_t at = rows.Find("grade");
  if (at == table::Table::npos || rows.columns[at].type != table::Type::kText)
    return table::DoNotFitTogether();
  const auto& grades = std::get<std::vector<std::string>>(rows.cells[at]);
  for (size_t i = 0; i < checks.size(); ++i) {
    if (grades[i].size() != 1 || grades[i][0] < 'A' || grades[i][0] > 'D')
      return table::DoNotFitTogether();
    checks[i].grade = grades[i][0];
  }
  return checks;
}

NestedTable<Evidence> EvidenceTable() {
  return {"evidence",
          {{.key = "rule", .title = "Rule", .doc = "The finding that it is for"}},
          EvidenceColumns()};
}

// ---- As JSON.

const ObjectDescription<Evidence>& EvidenceObject() {
  static const ObjectDescription<Evidence> object(EvidenceColumns().WithUnknown("start_ns"));
  return object;
}
const ObjectDescription<SkippedRule>& SkippedObject() {
  static const ObjectDescription<SkippedRule> object(SkippedColumns());
  return object;
}
const ObjectDescription<PassedRule>& PassedObject() {
  static const ObjectDescription<PassedRule> object(PassedColumns());
  return object;
}

const ObjectDescription<Finding>& FindingObject() {
  static const ObjectDescription<Finding> object(
      FindingColumns(),
      {ListOf<Finding>(
          "evidence", "What supports it, the largest first", &EvidenceObject,
          [](const Finding& finding) -> const auto& { return finding.evidence; })});
  return object;
}

}  // namespace

table::Report ToReport(const FindingsReport& findings) {
  NestedTable evidence = EvidenceTable();
  for (const Finding& finding : findings.findings) evidence.Add({finding.rule}, finding.evidence);
  return {
      .name = std::string(kName),
      .totals = TotalsColumns().ToTable("totals", std::span(&findings, 1)),
      .tables = {FindingColumns().ToTable("findings", findings.findings),
                 std::move(evidence).Take(), SkippedColumns().ToTable("skipped", findings.skipped),
                 PassedColumns().ToTable("passed", findings.passed),
                 CheckColumns().ToTable("checks", findings.quality.checks)}};
}

absl::StatusOr<FindingsReport> FindingsFrom(const table::Report& report) {
  if (report.name != kName) return table::DoNotFitTogether();
  ASSIGN_OR_RETURN(std::vector<FindingsReport> totals, TotalsColumns().FromTable(report.totals));
  if (totals.size() != 1) return table::DoNotFitTogether();
  FindingsReport findings = std::move(totals.front());
  findings.quality.shares = TrustOfShares(findings.quality.lost_share);
  ASSIGN_OR_RETURN(findings.findings, RowsOf(report, "findings", FindingColumns()));
  absl::flat_hash_map<std::string, Finding*> by_rule;
  for (Finding& finding : findings.findings) by_rule[finding.rule] = &finding;
  if (by_rule.size() != findings.findings.size()) return table::DoNotFitTogether();
  RETURN_IF_ERROR(ReadNested(report, "evidence", {"rule"}, EvidenceColumns(),
                             [&](std::span<const std::string_view> in, Evidence row) {
                               const auto finding = by_rule.find(ToAbsl(in[0]));
                               if (finding == by_rule.end()) return false;
                               finding->second->evidence.push_back(std::move(row));
                               return true;
                             }));
  ASSIGN_OR_RETURN(findings.skipped, RowsOf(report, "skipped", SkippedColumns()));
  ASSIGN_OR_RETURN(findings.passed, RowsOf(report, "passed", PassedColumns()));
  ASSIGN_OR_RETURN(findings.quality.checks, ChecksOf(report));
  return findings;
}

// Of the checks, JSON has what `profctl show` has of them.
const ObjectDescription<QualityCheck>& QualityCheckObject() {
  static const ObjectDescription<QualityCheck> object(
      {{&QualityCheck::name, {.key = "check", .doc = "Name of the check"}},
       {[](const QualityCheck& row) { return std::string(1, row.grade); },
        {.key = "grade", .doc = "Best grade that the check allows, A to D"}},
       {&QualityCheck::known,
        {.key = "known", .doc = "Whether the capture has the data for the check"}},
       {&QualityCheck::value, {.key = "value", .doc = "Measured value"}},
       {&QualityCheck::bound, {.key = "bound", .doc = "Threshold above which the check fails"}},
       {&QualityCheck::sentence, {.key = "sentence", .doc = "Result of the check, in words"}}});
  return object;
}

const ObjectDescription<FindingsReport>& FindingsObject() {
  using Row = FindingsReport;
  static const ObjectDescription<Row> object(
      TotalsColumns(),
      {ListOf<Row>(
           "quality_checks", "Checks that determine the grade", &QualityCheckObject,
           [](const Row& row) -> const auto& { return row.quality.checks; }),
       ListOf<Row>(
           "findings", "What to change, by estimated saving", &FindingObject,
           [](const Row& row) -> const auto& { return row.findings; }),
       ListOf<Row>(
           "skipped", "Rules that could not be checked", &SkippedObject,
           [](const Row& row) -> const auto& { return row.skipped; }),
       ListOf<Row>(
           "passed", "Rules that were checked and found nothing", &PassedObject,
           [](const Row& row) -> const auto& { return row.passed; })});
  return object;
}

}  // namespace profd::report
