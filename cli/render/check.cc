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

void WriteFindingJson(const Finding& finding, JsonWriter& json) {
  json.BeginObject();
  json.Field("rule", finding.rule->id);
  json.Field("severity", NameOf(finding.rule->severity));
  json.Field("readers", finding.rule->readers);
  json.Field("count", finding.count);
  json.Field("effect", finding.rule->effect);
  json.Field("remedy", finding.rule->remedy);
  json.Key("examples").BeginArray();
  for (const std::string& example : finding.examples) json.String(example);
  json.EndArray();
  json.EndObject();
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

void WriteCheckJson(std::string_view path, const CheckReport& report, JsonWriter& json) {
  json.BeginObject();
  json.Field("path", path);
  json.Field("kind", NameOf(report.kind));
  json.Field("compressed", report.compressed);
  json.Field("file_bytes", report.file_bytes);
  json.Field("trace_bytes", report.trace_bytes);
  json.Field("event_count", report.event_count);
  json.Field("clean", report.clean());
  json.Key("findings").BeginArray();
  for (const Finding& finding : report.findings) WriteFindingJson(finding, json);
  json.EndArray();
  json.Key("notes").BeginArray();
  for (const Finding& note : report.notes) WriteFindingJson(note, json);
  json.EndArray();
  json.Key("unchecked").BeginArray();
  for (const std::string& what : report.unchecked) json.String(what);
  json.EndArray();
  json.EndObject();
}

}  // namespace profd::cli
