// Findings as a report: what a daemon answers, and what `profctl report` makes of the answer.
#include <iterator>
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
#include "daemon/base/table/table.h"
#include "daemon/report/findings/findings.h"

namespace profd::report {
namespace {

using table::RowsOf;
using table::Unit;

constexpr std::string_view kName = "findings";

// What is in a report once.
struct Totals {
  std::string verdict;
  BoundBy bound = BoundBy::kUnknown;
  std::string grade;
  double lost_share = 0;
  bool quality_stored = false;
  int64_t step_count = 0;
  int64_t mean_step_ns = 0;
  int64_t unrecorded_step_ns = -1;
  int64_t unrecorded_idle_ns = -1;
};

const table::Description<Totals>& TotalsColumns() {
  static const table::Description<Totals> columns = {
      {&Totals::verdict,
       {.key = "verdict", .doc = "Where the time goes, what to change first, and what to trust"}},
      {&Totals::bound, {.key = "bound_by", .doc = "What most of a step goes to"}},
      {&Totals::grade, {.key = "grade", .doc = "Quality of the capture, A to D"}},
      {&Totals::lost_share,
       {.key = "lost_share", .doc = "Share of all events that were lost", .unit = Unit::kShare}},
      {&Totals::quality_stored,
       {.key = "quality_stored", .doc = "Whether the grade was stored with the capture"}},
      {&Totals::step_count,
       {.key = "step_count", .doc = "Steps in averages; 0: the window counts as one"}},
      {&Totals::mean_step_ns,
       {.key = "mean_step_ns", .doc = "Mean duration of these steps", .unit = Unit::kNs}},
      {&Totals::unrecorded_step_ns,
       {.key = "unrecorded_step_ns",
        .doc = "A step without the recording, where that made steps longer for certain",
        .unit = Unit::kNs,
        .nullable = true}},
      {&Totals::unrecorded_idle_ns,
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
               "Savings of findings that explain the same time overlap",
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

struct EvidenceRow : Evidence {
  std::string rule;  // Of its finding.
};

const table::Description<EvidenceRow>& EvidenceColumns() {
  static const table::Description<EvidenceRow> columns = {
      {&EvidenceRow::rule, {.key = "rule", .title = "Rule", .doc = "The finding that it is for"}},
      {&EvidenceRow::kind,
       {.key = "kind",
        .title = "Kind",
        .doc = "What it names: step, op, kernel, copy, call, gap, collective, memory, code, check, "
               "or rank"}},
      {&EvidenceRow::name, {.key = "name", .title = "Evidence", .doc = "Its name"}},
      {&EvidenceRow::detail, {.key = "detail", .title = "Detail", .doc = "More about it"}},
      {&EvidenceRow::count,
       {.key = "count",
        .title = "Count",
        .doc = "How many",
        .unit = Unit::kCount,
        .nullable = true}},
      {&EvidenceRow::duration_ns,
       {.key = "duration_ns",
        .title = "Time",
        .doc = "Of one, or the sum over the count",
        .unit = Unit::kNs,
        .nullable = true}},
      {&EvidenceRow::bytes,
       {.key = "bytes",
        .title = "Bytes",
        .doc = "Its size",
        .unit = Unit::kBytes,
        .nullable = true}},
      {&EvidenceRow::step,
       {.key = "step", .title = "Step", .doc = "Number of its step", .nullable = true}},
      {&EvidenceRow::device,
       {.key = "device", .title = "Device", .doc = "Number of its GPU", .nullable = true}},
      {&EvidenceRow::start_ns,
       {.key = "start_ns",
        .title = "Start",
        .doc = "When it, or the longest one, began; -9223372036854775808: not known",
        .unit = Unit::kNs}}};
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
       {.key = "unit", .title = "Unit", .doc = "Unit of value and threshold, as of findings"}},
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

}  // namespace

table::Report ToReport(const FindingsReport& findings) {
  const Totals totals = {.verdict = findings.verdict,
                         .bound = findings.bound,
                         .grade = findings.quality.grade,
                         .lost_share = findings.quality.lost_share,
                         .quality_stored = findings.quality.stored,
                         .step_count = findings.step_count,
                         .mean_step_ns = findings.mean_step_ns,
                         .unrecorded_step_ns = findings.unrecorded_step_ns,
                         .unrecorded_idle_ns = findings.unrecorded_idle_ns};
  std::vector<EvidenceRow> evidence;
  for (const Finding& finding : findings.findings) {
    for (const Evidence& row : finding.evidence) evidence.push_back({row, finding.rule});
  }
  return {.name = std::string(kName),
          .totals = TotalsColumns().ToTable("totals", std::span(&totals, 1)),
          .tables = {FindingColumns().ToTable("findings", findings.findings),
                     EvidenceColumns().ToTable("evidence", evidence),
                     SkippedColumns().ToTable("skipped", findings.skipped),
                     PassedColumns().ToTable("passed", findings.passed),
                     CheckColumns().ToTable("checks", findings.quality.checks)}};
}

absl::StatusOr<FindingsReport> FindingsFrom(const table::Report& report) {
  if (report.name != kName) return table::DoNotFitTogether();
  ASSIGN_OR_RETURN(const std::vector<Totals> all_totals, TotalsColumns().FromTable(report.totals));
  if (all_totals.size() != 1) return table::DoNotFitTogether();
  const Totals& totals = all_totals.front();
  FindingsReport findings = {.verdict = totals.verdict,
                             .bound = totals.bound,
                             .quality = {.grade = totals.grade,
                                         .lost_share = totals.lost_share,
                                         .shares = TrustOfShares(totals.lost_share),
                                         .stored = totals.quality_stored},
                             .step_count = totals.step_count,
                             .mean_step_ns = totals.mean_step_ns,
                             .unrecorded_step_ns = totals.unrecorded_step_ns,
                             .unrecorded_idle_ns = totals.unrecorded_idle_ns};
  ASSIGN_OR_RETURN(findings.findings, RowsOf(report, "findings", FindingColumns()));
  absl::flat_hash_map<std::string, Finding*> by_rule;
  for (Finding& finding : findings.findings) by_rule[finding.rule] = &finding;
  if (by_rule.size() != findings.findings.size()) return table::DoNotFitTogether();
  ASSIGN_OR_RETURN(std::vector<EvidenceRow> evidence,
                   RowsOf(report, "evidence", EvidenceColumns()));
  for (EvidenceRow& row : evidence) {
    const auto finding = by_rule.find(row.rule);
    if (finding == by_rule.end()) return table::DoNotFitTogether();
    finding->second->evidence.push_back(std::move(row));
  }
  ASSIGN_OR_RETURN(findings.skipped, RowsOf(report, "skipped", SkippedColumns()));
  ASSIGN_OR_RETURN(findings.passed, RowsOf(report, "passed", PassedColumns()));
  ASSIGN_OR_RETURN(findings.quality.checks, ChecksOf(report));
  return findings;
}

}  // namespace profd::report
