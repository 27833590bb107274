#include "cli/base/add_table.h"
#include "cli/base/units.h"
#include "cli/render/capture.h"
#include "cli/render/reports.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {

std::string RenderCompile(const report::CompileReport& report, int64_t limit, const Style& style) {
  if (!report.has_compiled) {
    return "Nothing of torch.compile was seen: the program compiled nothing in the window, or "
           "operators were not recorded (--ops off, or no torch).\n";
  }
  std::string text;
  AddTable(
      report.regions,
      {{.title = "Region", .right = false},
       {.title = "Code", .right = false, .flexible = true},
       {.title = "Calls"},
       {.title = "Total"},
       {.title = "", .right = false, .drop_order = 1}},
      [](const report::CompiledRegionRow& row) -> std::vector<std::string> {
        return {row.id, row.code.empty() ? "-" : row.code, FormatCount(row.calls),
                FormatNs(row.total_ns), row.after_graph_break ? "after a graph break" : ""};
      },
      limit, style, &text);
  AddTable(
      report.graph_breaks,
      {{.title = "Graph break", .right = false},
       {.title = "Reason", .right = false, .flexible = true},
       {.title = "Compilations"}},
      [](const report::GraphBreakRow& row) -> std::vector<std::string> {
        return {row.where, row.reason, FormatCount(row.count)};
      },
      limit, style, &text);
  AddTable(
      report.recompiles,
      {{.title = "Compiled again", .right = false},
       {.title = "Reason", .right = false, .flexible = true},
       {.title = "Times"},
       {.title = "Compiling", .drop_order = 1}},
      [](const report::RecompileRow& row) -> std::vector<std::string> {
        return {row.where, row.reason, FormatCount(row.count), FormatNsIfKnown(row.compile_ns)};
      },
      limit, style, &text);
  AddTable(
      report.steps,
      {{.title = "Step"},
       {.title = "Regions"},
       {.title = "After breaks", .drop_order = 2},
       {.title = "Compilations"},
       {.title = "Compiling"},
       {.title = "Cache lookups", .drop_order = 3},
       {.title = "Guards", .drop_order = 1}},
      [](const report::CompileStepRow& row) -> std::vector<std::string> {
        return {row.step < 0 ? "-" : StrCat(row.step),
                FormatCount(row.regions),
                FormatCount(row.after_breaks),
                FormatCount(row.compilations),
                FormatNs(row.compile_ns),
                FormatCount(row.cache_lookups),
                FormatNs(row.cache_lookup_ns)};
      },
      limit, style, &text);
  if (report.folded_event_count > 0) {
    StrAppend(&text, FormatCount(report.folded_event_count),
              " events inside of compilations were left out.\n");
  }
  return text;
}

void WriteCompileJson(const CaptureView& view, const report::CompileReport& report,
                      JsonWriter& json) {
  json.BeginObject();
  WriteReportHeaderJson(view, json);
  json.Field("has_compiled", report.has_compiled);
  json.Key("regions").BeginArray();
  for (const report::CompiledRegionRow& row : report.regions) {
    json.BeginObject();
    json.Field("id", row.id);
    json.Field("code", row.code);
    json.Field("after_graph_break", row.after_graph_break);
    json.Field("calls", row.calls);
    json.Field("total_ns", row.total_ns);
    json.EndObject();
  }
  json.EndArray();
  json.Key("graph_breaks").BeginArray();
  for (const report::GraphBreakRow& row : report.graph_breaks) {
    json.BeginObject();
    json.Field("where", row.where);
    json.Field("reason", row.reason);
    json.Field("count", row.count);
    json.EndObject();
  }
  json.EndArray();
  json.Key("recompiles").BeginArray();
  for (const report::RecompileRow& row : report.recompiles) {
    json.BeginObject();
    json.Field("where", row.where);
    json.Field("reason", row.reason);
    json.Field("count", row.count);
    json.Field("compile_ns", row.compile_ns);
    json.EndObject();
  }
  json.EndArray();
  json.Key("steps").BeginArray();
  for (const report::CompileStepRow& row : report.steps) {
    json.BeginObject();
    json.Field("step", row.step);
    json.Field("regions", row.regions);
    json.Field("after_breaks", row.after_breaks);
    json.Field("compilations", row.compilations);
    json.Field("compile_ns", row.compile_ns);
    json.Field("cache_lookups", row.cache_lookups);
    json.Field("cache_lookup_ns", row.cache_lookup_ns);
    json.EndObject();
  }
  json.EndArray();
  json.Field("folded_event_count", report.folded_event_count);
  json.EndObject();
}

}  // namespace profd::cli
