#include "cli/render/check.h"

#include <algorithm>

#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/units.h"

namespace profd::cli {
namespace {

using check::CheckReport;
using check::Finding;
using check::Severity;

Colour SeverityColour(Severity severity) {
  return severity == Severity::kError     ? Colour::kRed
         : severity == Severity::kWarning ? Colour::kYellow
                                          : Colour::kDim;
}

std::string Times(int64_t count) {
  return count == 1 ? "once" : StrCat(FormatCount(count), " times");
}

// "1 error, 2 warnings"; "clean".
std::string Verdict(const CheckReport& report, const Style& style) {
  if (report.clean()) return style.Paint(Colour::kGreen, "clean");
  const auto errors = std::count_if(
      report.findings.begin(), report.findings.end(),
      [](const Finding& finding) { return finding.rule->severity == Severity::kError; });
  const int64_t warnings = static_cast<int64_t>(report.findings.size()) - errors;
  std::string text;
  if (errors > 0) text = style.Paint(Colour::kRed, FormatCountOf(errors, "error", "errors"));
  if (errors > 0 && warnings > 0) text += ", ";
  if (warnings > 0) {
    text += style.Paint(Colour::kYellow, FormatCountOf(warnings, "warning", "warnings"));
  }
  return text;
}

std::string RenderCheckFinding(const Finding& finding, const Style& style) {
  const check::CheckRule& rule = *finding.rule;
  std::string text = StrCat(style.Paint(SeverityColour(rule.severity), NameOf(rule.severity)), " ",
                            style.Paint(Colour::kBold, rule.id), ", ", Times(finding.count), " (",
                            rule.readers, ")\n");
  for (const std::string& example : finding.examples) StrAppend(&text, "  ", example, "\n");
  const auto more = finding.count - static_cast<int64_t>(finding.examples.size());
  if (more > 0) StrAppend(&text, "  and ", FormatCount(more), " more\n");
  StrAppend(&text, "  Effect: ", rule.effect, "\n  Remedy: ", rule.remedy, "\n");
  return text;
}

const ObjectDescription<Finding>& CheckFindingObject() {
  using Row = Finding;
  static const ObjectDescription<Row> object(
      {{[](const Row& row) { return std::string(row.rule->id); },
        {.key = "rule", .doc = "Stable name of the rule"}},
       {[](const Row& row) { return std::string(NameOf(row.rule->severity)); },
        {.key = "severity", .doc = "error, warning, or note"}},
       {[](const Row& row) { return std::string(row.rule->readers); },
        {.key = "readers", .doc = "Tools that it affects"}},
       {&Row::count,
        {.key = "count", .doc = "How often it was found", .unit = table::Unit::kCount}},
       {[](const Row& row) { return std::string(row.rule->effect); },
        {.key = "effect", .doc = "What these tools make of it"}},
       {[](const Row& row) { return std::string(row.rule->remedy); },
        {.key = "remedy", .doc = "What to do about it"}}},
      {TextsOf<Row>(
          "examples", "The first places, each a sentence",
          [](const Row& row) -> const auto& { return row.examples; })});
  return object;
}

const ObjectDescription<CheckReport>& CheckReportObject() {
  using Row = CheckReport;
  static const ObjectDescription<Row> object(
      {{[](const Row& row) { return std::string(NameOf(row.kind)); },
        {.key = "kind", .doc = "Format of the trace: chrome or perfetto"}},
       {&Row::compressed, {.key = "compressed", .doc = "Whether the file is compressed (gzip)"}},
       {[](const Row& row) { return static_cast<int64_t>(row.file_bytes); },
        {.key = "file_bytes", .doc = "Size of the file", .unit = table::Unit::kBytes}},
       {[](const Row& row) { return static_cast<int64_t>(row.trace_bytes); },
        {.key = "trace_bytes", .doc = "Uncompressed size", .unit = table::Unit::kBytes}},
       {&Row::event_count,
        {.key = "event_count", .doc = "Events, or packets", .unit = table::Unit::kCount}},
       {[](const Row& row) { return row.clean(); },
        {.key = "clean", .doc = "Whether there are no findings"}}},
      {ListOf<Row>(
           "findings", "Errors, then warnings", &CheckFindingObject,
           [](const Row& row) -> const auto& { return row.findings; }),
       ListOf<Row>(
           "notes", "What is worth knowing; the file is clean all the same", &CheckFindingObject,
           [](const Row& row) -> const auto& { return row.notes; }),
       TextsOf<Row>(
           "unchecked", "What was not checked, and why, a sentence each",
           [](const Row& row) -> const auto& { return row.unchecked; })});
  return object;
}

const ObjectDescription<CheckedFile>& CheckedFileObject() {
  using Row = CheckedFile;
  static const ObjectDescription<Row> object(
      {{&Row::path, {.key = "path", .doc = "File, as named on the command line"}}},
      {Optional<Row>([](const Row& row) { return !row.error.empty(); },
                     TextOf<Row>("error", "Why the file could not be checked; then the only field",
                                 [](const Row& row) { return row.error; })),
       Optional<Row>(
           [](const Row& row) { return row.error.empty(); },
           FieldsOf<Row>(
               &CheckReportObject, [](const Row& row) -> const auto& { return row.report; }))});
  return object;
}

}  // namespace

std::string RenderCheck(std::string_view path, const CheckReport& report, const Style& style) {
  const bool is_chrome = report.kind == check::TraceKind::kChrome;
  std::string text = StrCat(
      ForDisplay(path, 400), ": ", is_chrome ? "Chrome trace" : "Perfetto trace",
      report.compressed ? " (gzip)" : "", ", ",
      FormatCountOf(report.event_count, "event", "events"), ", ",
      FormatBytes(static_cast<int64_t>(report.trace_bytes)), ": ", Verdict(report, style), "\n");
  for (const Finding& finding : report.findings) text += RenderCheckFinding(finding, style);
  for (const Finding& note : report.notes) {
    StrAppend(&text, style.Paint(Colour::kDim, "note"), " ", note.rule->id, " (",
              note.rule->readers, "): ", note.examples.front(), note.count > 1 ? ", ..." : "", "; ",
              note.rule->effect, "\n");
  }
  for (const std::string& what : report.unchecked) StrAppend(&text, "not checked: ", what, "\n");
  return text;
}

const ObjectDescription<CheckAnswer>& CheckAnswerObject() {
  using Row = CheckAnswer;
  static const ObjectDescription<Row> object(
      {}, {ListOf<Row>(
               "files", "The files, as named on the command line", &CheckedFileObject,
               [](const Row& row) -> const auto& { return row.files; }),
           ColumnsOf<Row>({{&Row::clean,
                            {.key = "clean",
                             .doc = "Whether all files were checked and have no findings"}}})});
  return object;
}

}  // namespace profd::cli
