#include "cli/render/findings.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "cli/base/table.h"
#include "cli/render/capture.h"
#include "cli/render/group_reports.h"
#include "cli/render/report_tables.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/units.h"
#include "daemon/report/findings/rules.h"

namespace profd::cli {
namespace {

constexpr size_t kMaxLineBytes = 4096;  // It may hold names of the program.
constexpr size_t kFirstFindings = 3;    // For people; the rest on request.

Colour ColourOfSeverity(report::Severity severity) {
  switch (severity) {
    case report::Severity::kCritical:
      return Colour::kRed;
    case report::Severity::kWarning:
      return Colour::kYellow;
    case report::Severity::kInfo:
      return Colour::kNone;
  }
  return Colour::kNone;
}

std::string Saving(const report::FindingsReport& report, const report::Finding& finding) {
  if (finding.saving_ns_per_step <= 0) {
    return finding.counted_elsewhere ? "No saving of its own" : "No saving estimated";
  }
  const int64_t step_ns =
      report.unrecorded_step_ns > 0 ? report.unrecorded_step_ns : report.mean_step_ns;
  return StrCat("Saves up to ", FormatNs(finding.saving_ns_per_step),
                report.step_count > 0 ? " a step (" : " (",
                FormatPercent(finding.saving_ns_per_step, step_ns), ")");
}

std::string EvidenceTable(std::span<const report::Evidence> rows, const Style& style) {
  const auto has = [&](auto member) {
    return std::any_of(rows.begin(), rows.end(),
                       [&](const report::Evidence& row) { return row.*member >= 0; });
  };
  const bool durations = has(&report::Evidence::duration_ns);
  const bool counts = has(&report::Evidence::count);
  const bool bytes = has(&report::Evidence::bytes);
  const bool steps = has(&report::Evidence::step);
  std::vector<Column> columns = {{.title = "Evidence", .right = false, .flexible = true}};
  if (durations) columns.push_back({.title = "Time"});
  if (counts) columns.push_back({.title = "Count"});
  if (bytes) columns.push_back({.title = "Bytes"});
  if (steps) columns.push_back({.title = "Step"});
  columns.push_back({.title = "", .right = false, .drop_order = 1});
  Table table(std::move(columns));
  for (const report::Evidence& row : rows) {
    std::vector<std::string> cells = {row.name};
    if (durations) cells.push_back(row.duration_ns < 0 ? "-" : FormatNs(row.duration_ns));
    if (counts) cells.push_back(row.count < 0 ? "-" : FormatCount(row.count));
    if (bytes) cells.push_back(row.bytes < 0 ? "-" : FormatBytes(row.bytes));
    if (steps) {
      cells.push_back(row.step < 0          ? std::string("-")
                      : row.global_step < 0 ? StrCat(row.step)
                                            : StrCat(row.step, " (global ", row.global_step, ")"));
    }
    cells.push_back(row.detail);
    table.AddRow(std::move(cells));
  }
  return table.Render(style);
}

std::string RenderFinding(size_t number, const report::FindingsReport& report,
                          const report::Finding& finding, int64_t evidence_rows,
                          const Style& style) {
  const std::string title = StrCat(number, ". ", finding.title, "  [", finding.rule, ", ",
                                   ToString(finding.severity), "]");
  std::string text = StrCat("\n", style.Paint(ColourOfSeverity(finding.severity), title), "\n");
  StrAppend(&text, Paragraph(finding.measured, 3, style));
  StrAppend(&text, Paragraph(StrCat("Do: ", finding.advice), 3, style));
  std::string figures =
      StrCat(Saving(report, finding), "; measured ", report::ValueText(finding.unit, finding.value),
             ", threshold ", report::ValueText(finding.unit, finding.threshold), "; confidence ",
             ToString(finding.confidence));
  if (!finding.confidence_reason.empty()) {
    StrAppend(&figures, " (", finding.confidence_reason, ")");
  }
  StrAppend(&text, Paragraph(StrCat(figures, "."), 3, style));
  const size_t shown = evidence_rows > 0
                           ? std::min(finding.evidence.size(), static_cast<size_t>(evidence_rows))
                           : finding.evidence.size();
  if (shown > 0) {
    StrAppend(&text, "\n", EvidenceTable(std::span(finding.evidence).first(shown), style));
  }
  return text;
}

// Rules that need the same data share a line.
std::string RenderSkipped(const report::FindingsReport& report, const Style& style) {
  std::vector<std::pair<std::string, std::string>> lines;  // Rules, and what they need.
  for (const report::SkippedRule& rule : report.skipped) {
    const auto same = std::find_if(lines.begin(), lines.end(),
                                   [&](const auto& line) { return line.second == rule.needs; });
    if (same == lines.end()) {
      lines.emplace_back(rule.rule, rule.needs);
    } else {
      StrAppend(&same->first, ", ", rule.rule);
    }
  }
  std::string text;
  for (const auto& [rules, needs] : lines) {
    const std::string line = StrCat(rules, " (needs ", needs, ")");
    StrAppend(&text, "  ", WrapText(ForDisplay(line, kMaxLineBytes), TextWidth(style), 4), "\n");
  }
  return text;
}

std::string RenderChecks(const report::FindingsReport& report, const Style& style) {
  std::string text;
  if (!report.passed.empty()) {
    std::string passed = "Checks passed:";
    for (const report::PassedRule& rule : report.passed) {
      StrAppend(&passed, &rule == &report.passed.front() ? " " : ", ", rule.rule);
    }
    StrAppend(&text, "\n", Paragraph(passed, 0, style));
  }
  if (!report.skipped.empty()) {
    StrAppend(&text, "\nChecks skipped (missing data):\n", RenderSkipped(report, style));
  }
  return text;
}

// One line for what --all shows. Empty: there is nothing more.
std::string RenderRest(const report::FindingsReport& report, size_t shown, const Style& style) {
  std::vector<std::string> parts;
  const auto add = [&parts](size_t count, std::string_view one, std::string_view several) {
    if (count > 0) parts.push_back(StrCat(count, " ", count == 1 ? one : several));
  };
  add(report.findings.size() - shown, "more finding", "more findings");
  add(report.passed.size(), "check passed", "checks passed");
  add(report.skipped.size(), "check skipped for lack of data", "checks skipped for lack of data");
  if (parts.empty()) return "";
  return StrCat("\n",
                Paragraph(StrCat(absl::StrJoin(parts, ", "), "; --all shows them."), 0, style));
}

const table::ObjectDescription<ReportedMember>& ReportedMemberObject() {
  static const table::ObjectDescription<ReportedMember> object(
      {{&ReportedMember::member,
        {.key = "reported_member", .doc = "Position in members of the one that the report is on"}},
       {table::Path<&ReportedMember::excess, &report::RankExcess::text>(),
        {.key = "more_of",
         .doc = "What it does more of than others, in a sentence; empty: it is unknown, or the "
                "rank is not slow"}},
       {table::Path<&ReportedMember::excess, &report::RankExcess::advice>(),
        {.key = "more_of_advice", .doc = "Where to look; empty: it is unknown"}}});
  return object;
}

}  // namespace

std::string RenderFindings(const report::FindingsReport& report, const FindingsView& view,
                           const Style& style) {
  std::string text = Paragraph(report.verdict, 0, style);
  if (report.findings.empty() && !report.passed.empty()) {
    StrAppend(&text, "\nNo findings.\n");
  }
  const size_t shown =
      view.all ? report.findings.size() : std::min(report.findings.size(), kFirstFindings);
  for (size_t i = 0; i < shown; ++i) {
    StrAppend(&text, RenderFinding(i + 1, report, report.findings[i], view.evidence_rows, style));
  }
  if (shown > 1) {
    StrAppend(&text, "\n",
              Paragraph(report.bound == report::BoundBy::kCpuOnly
                            ? "Savings are separate estimates of time that may be the same, so "
                              "they do not add up."
                            : "Savings of idle GPU time do not overlap. Other savings are separate "
                              "estimates of time that may be the same, so they do not add up.",
                        0, style));
  }
  if (view.all) {
    StrAppend(&text, RenderChecks(report, style));
  } else {
    StrAppend(&text, RenderRest(report, shown, style));
  }
  return text;
}

void WriteFindingsJson(const CaptureView& view, const report::FindingsReport& report,
                       const ReportedMember* of, JsonWriter& json) {
  json.BeginObject();
  if (of != nullptr) {
    MembersObject().WriteFields(*of->set, json);
    ReportedMemberObject().WriteFields(*of, json);
  }
  WriteReportHeaderJson(view, json);
  report::FindingsObject().WriteFields(report, json);
  json.EndObject();
}

void WriteFindingsSchema(JsonWriter& json) {
  const std::array<const table::AnyObject*, 2> of_group = {&MembersObject(),
                                                           &ReportedMemberObject()};
  WriteReportSchema("report", report::FindingsObject(), of_group, json);
}

}  // namespace profd::cli
