#include "cli/render_reports.h"

#include <utility>

#include "cli/render_capture.h"
#include "cli/table.h"
#include "cli/units.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {

std::string RenderOps(const CaptureView& view, const report::OpTable& table, bool by_step,
                      const Style& style) {
  std::vector<Column> columns = {{.title = "Name", .right = false, .flexible = true},
                                 {.title = "Self CPU %", .drop_order = 4},
                                 {.title = "Self CPU"},
                                 {.title = "CPU total %", .drop_order = 6},
                                 {.title = "CPU total", .drop_order = 2},
                                 {.title = "CPU time avg", .drop_order = 7},
                                 {.title = "# of Calls"}};
  if (table.has_device) {
    columns.insert(columns.end() - 1, {{.title = "Self CUDA"},
                                       {.title = "Self CUDA %", .drop_order = 5},
                                       {.title = "CUDA total", .drop_order = 1},
                                       {.title = "CUDA busy", .drop_order = 3}});
  }
  if (by_step) columns.insert(columns.begin() + 1, {.title = "Step"});
  Table out(std::move(columns));
  for (const report::OpRow& row : table.rows) {
    std::vector<std::string> cells = {row.name,
                                      FormatPercent(row.self_cpu_ns, table.self_cpu_total_ns),
                                      FormatNs(row.self_cpu_ns),
                                      FormatPercent(row.cpu_total_ns, table.self_cpu_total_ns),
                                      FormatNs(row.cpu_total_ns),
                                      FormatNs(row.calls > 0 ? row.cpu_total_ns / row.calls : 0),
                                      FormatCount(row.calls)};
    if (table.has_device) {
      cells.insert(cells.end() - 1, {FormatNs(row.self_device_ns),
                                     FormatPercent(row.self_device_ns, table.self_device_total_ns),
                                     FormatNs(row.device_total_ns), FormatNs(row.busy_device_ns)});
    }
    if (by_step) {
      cells.insert(cells.begin() + 1, row.step < 0 ? std::string("-") : StrCat(row.step));
    }
    out.AddRow(std::move(cells));
  }
  std::string text = out.Render(style);
  const auto shown = static_cast<int64_t>(table.rows.size());
  if (table.row_count == 0) {
    StrAppend(&text, "No ranges were recorded. Annotate the program (`with profd.annotate(...)`, ",
              "PROFD_RANGE) to see what its steps are made of.\n");
  } else if (shown < table.row_count) {
    const int64_t more = table.row_count - shown;
    StrAppend(&text, "(", FormatCount(more), more == 1 ? " more row" : " more rows",
              ": --limit 0)\n");
  }
  StrAppend(&text, "Self CPU time total: ", FormatNs(table.self_cpu_total_ns), "\n");
  if (table.has_device) {
    StrAppend(&text, "Self CUDA time total: ", FormatNs(table.self_device_total_ns),
              view.record.gpu.simulated ? " (simulated)" : "");
    if (table.unattributed_device_ns > 0) {
      StrAppend(&text, ", of which ", FormatNs(table.unattributed_device_ns),
                " launched outside any range or by no call in the capture");
    }
    StrAppend(&text, "\n");
  }
  return text;
}

void WriteOpsJson(const CaptureView& view, const report::OpTable& table, bool by_step,
                  JsonWriter& json) {
  json.BeginObject();
  WriteReportHeaderJson(view, json);
  json.Field("self_cpu_total_ns", table.self_cpu_total_ns);
  json.Field("has_device", table.has_device);
  json.Field("self_device_total_ns", table.self_device_total_ns);
  json.Field("unattributed_device_ns", table.unattributed_device_ns);
  json.Field("row_count", table.row_count);
  json.Key("rows").BeginArray();
  for (const report::OpRow& row : table.rows) {
    json.BeginObject();
    json.Field("name", row.name);
    if (by_step) json.Field("step", row.step);
    json.Field("calls", row.calls);
    json.Field("self_cpu_ns", row.self_cpu_ns);
    json.Field("cpu_total_ns", row.cpu_total_ns);
    json.Field("cpu_time_avg_ns", row.calls > 0 ? row.cpu_total_ns / row.calls : 0);
    json.Field("min_ns", row.min_ns);
    json.Field("max_ns", row.max_ns);
    json.Field("self_device_ns", row.self_device_ns);
    json.Field("device_total_ns", row.device_total_ns);
    json.Field("busy_device_ns", row.busy_device_ns);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
}

std::string RenderSteps(const report::StepTable& table, const Style& style) {
  if (table.rows.empty()) {
    return "No whole step was covered: the capture was taken by time, or ended before one.\n";
  }
  const bool has_windows = table.rows.back().step.window > 0;
  std::vector<Column> columns = {{.title = "Step"},
                                 {.title = "Start"},
                                 {.title = "Duration"},
                                 {.title = "vs median", .drop_order = 1},
                                 {.title = "", .right = false}};
  if (has_windows) columns.insert(columns.begin() + 1, {.title = "Window", .drop_order = 2});
  Table out(std::move(columns));
  for (const report::StepTableRow& row : table.rows) {
    std::vector<std::string> cells = {
        StrCat(row.step.index), FormatNs(row.step.start_ns), FormatNs(row.step.duration_ns),
        FormatPercent(row.step.duration_ns, table.median_ns), row.outlier ? "outlier" : ""};
    if (has_windows) cells.insert(cells.begin() + 1, StrCat(row.step.window));
    out.AddRow(std::move(cells), row.outlier ? Colour::kYellow : Colour::kNone);
  }
  std::string text = out.Render(style);
  int64_t outliers = 0;
  for (const report::StepTableRow& row : table.rows) outliers += row.outlier ? 1 : 0;
  StrAppend(&text, FormatCount(static_cast<int64_t>(table.rows.size())), " steps: min ",
            FormatNs(table.min_ns), ", median ", FormatNs(table.median_ns), ", mean ",
            FormatNs(table.mean_ns), ", max ", FormatNs(table.max_ns), "\n");
  if (table.outlier_threshold_ns == 0) {
    StrAppend(&text, "Too few steps to tell outliers.\n");
  } else {
    StrAppend(&text, FormatCount(outliers), outliers == 1 ? " outlier" : " outliers", " (above ",
              FormatNs(table.outlier_threshold_ns), ")\n");
  }
  return text;
}

void WriteStepsJson(const CaptureView& view, const report::StepTable& table, JsonWriter& json) {
  json.BeginObject();
  WriteReportHeaderJson(view, json);
  json.Key("steps").BeginArray();
  for (const report::StepTableRow& row : table.rows) {
    json.BeginObject();
    json.Field("index", row.step.index);
    json.Field("window", row.step.window);
    json.Field("start_ns", row.step.start_ns);
    json.Field("duration_ns", row.step.duration_ns);
    json.Field("outlier", row.outlier);
    json.EndObject();
  }
  json.EndArray();
  json.Field("min_ns", table.min_ns);
  json.Field("median_ns", table.median_ns);
  json.Field("mean_ns", table.mean_ns);
  json.Field("max_ns", table.max_ns);
  json.Field("outlier_threshold_ns", table.outlier_threshold_ns);
  json.EndObject();
}

}  // namespace profd::cli
