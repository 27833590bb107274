#include "cli/render/reports.h"

#include <utility>

#include "cli/base/table.h"
#include "cli/render/capture.h"
#include "cli/render/op_profile.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/units.h"

namespace profd::cli {

namespace {

// The columns of the operator table, each with its cell.
class OpColumns {
 public:
  OpColumns(const report::OpTable& table, const report::OpOptions& options, const Style& style)
      : table_(table), options_(options), style_(style) {
    for (const report::OpRow& row : table.rows) {
      has_device_memory_ |= row.device_memory_bytes != 0 || row.self_device_memory_bytes != 0;
    }
  }

  std::vector<Column> Titles() const {
    std::vector<Column> columns = {{.title = "Name", .right = false, .flexible = true}};
    if (options_.by_step) columns.push_back({.title = "Step"});
    if (options_.by_inputs) {
      columns.push_back({.title = "Input shapes", .right = false});
      columns.push_back({.title = "Input types", .right = false, .drop_order = 12});
    }
    for (const Column& column :
         {Column{.title = "Self CPU %", .drop_order = 4}, Column{.title = "Self CPU"},
          Column{.title = "CPU total %", .drop_order = 6},
          Column{.title = "CPU total", .drop_order = 2},
          Column{.title = "CPU time avg", .drop_order = 7}}) {
      columns.push_back(column);
    }
    if (table_.has_device) {
      columns.push_back({.title = "Self CUDA"});
      columns.push_back({.title = "Self CUDA %", .drop_order = 5});
      columns.push_back({.title = "CUDA total", .drop_order = 1});
      columns.push_back({.title = "CUDA busy", .drop_order = 3});
    }
    if (table_.has_memory) {
      columns.push_back({.title = "CPU Mem", .drop_order = 11});
      columns.push_back({.title = "Self CPU Mem", .drop_order = 10});
    }
    if (has_device_memory_) {
      columns.push_back({.title = "CUDA Mem", .drop_order = 9});
      columns.push_back({.title = "Self CUDA Mem", .drop_order = 8});
    }
    columns.push_back({.title = "# of Calls"});
    return columns;
  }

  std::vector<std::string> CellsOf(const report::OpRow& row) const {
    std::vector<std::string> cells = {row.name};
    const auto add = [&](std::string cell) { cells.push_back(std::move(cell)); };
    if (options_.by_step) add(row.step < 0 ? std::string("-") : StrCat(row.step));
    if (options_.by_inputs) {
      add(InputsCell(row.dims, style_));
      add(InputsCell(row.types, style_));
    }
    add(style_.Share(FormatPercent(row.self_cpu_ns, table_.self_cpu_total_ns)));
    add(FormatNs(row.self_cpu_ns));
    add(style_.Share(FormatPercent(row.cpu_total_ns, table_.self_cpu_total_ns)));
    add(FormatNs(row.cpu_total_ns));
    add(FormatNs(row.calls > 0 ? row.cpu_total_ns / row.calls : 0));
    if (table_.has_device) {
      add(FormatNs(row.self_device_ns));
      add(style_.Share(FormatPercent(row.self_device_ns, table_.self_device_total_ns)));
      add(FormatNs(row.device_total_ns));
      add(FormatNs(row.busy_device_ns));
    }
    if (table_.has_memory) {
      add(FormatBytes(row.cpu_memory_bytes));
      add(FormatBytes(row.self_cpu_memory_bytes));
    }
    if (has_device_memory_) {
      add(FormatBytes(row.device_memory_bytes));
      add(FormatBytes(row.self_device_memory_bytes));
    }
    add(FormatCount(row.calls));
    return cells;
  }

 private:
  const report::OpTable& table_;
  const report::OpOptions& options_;
  const Style& style_;
  bool has_device_memory_ = false;
};

}  // namespace

std::string RenderOps(const CaptureView& view, const report::OpTable& table,
                      const report::OpOptions& options, const Style& terminal) {
  const Style style = StyleFor(view, terminal);
  const OpColumns columns(table, options, style);
  Table out(columns.Titles());
  for (const report::OpRow& row : table.rows) out.AddRow(columns.CellsOf(row));
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

void WriteStepLabelsJson(std::span<const report::StepLabel> labels, JsonWriter& json) {
  json.BeginArray();
  for (const report::StepLabel& label : labels) {
    json.BeginObject();
    json.Field("name", label.name);
    json.Field("value", label.value);
    json.Field("step", label.step);
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace profd::cli
