#include "cli/render/op_profile.h"

#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "cli/base/table.h"
#include "daemon/base/csv.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/units.h"

namespace profd::cli {
namespace {

using report::OpProfileRow;
using report::OpRow;

// Of inputs, on a terminal: beside a name that is already wide.
constexpr size_t kMaxInputsWidth = 48;

std::string ShareCell(double share) { return absl::StrFormat("%.2f%%", share * 100); }
std::string RateCell(double per_s) {
  return per_s == 0 ? "-" : absl::StrFormat("%.3f", per_s / 1e12);
}
std::string GroupCell(const std::string& group) { return group.empty() ? "-" : group; }

std::string_view GroupTitle(std::string_view group) {
  if (group == "module") return "Module";
  if (group == "thread") return "Thread";
  return "Rank";
}

int64_t AverageOf(const OpRow& row) { return row.calls > 0 ? row.cpu_total_ns / row.calls : 0; }

// The columns that are shown, each with its cell.
class OpProfileColumns {
 public:
  OpProfileColumns(const OpProfileView& view, const Style& style) : view_(view), style_(style) {
    for (const OpProfileRow& row : view.profile.rows) {
      has_device_memory_ |= row.op.device_memory_bytes != 0 || row.op.self_device_memory_bytes != 0;
    }
  }

  std::vector<Column> Titles() {
    Walk(nullptr);
    return std::move(titles_);
  }
  std::vector<std::string> CellsOf(const OpProfileRow& row) {
    Walk(&row);
    return std::move(cells_);
  }

 private:
  // nullptr: of the titles.
  void Walk(const OpProfileRow* row) {
    titles_.clear();
    cells_.clear();
    row_ = row;
    AddKey();
    const report::OpTable& totals = view_.profile.totals;
    if (totals.has_device) {
      Add({.title = "CUDA busy", .drop_order = 3}, [&] { return FormatNs(Op().busy_device_ns); });
      Add({.title = "CUDA busy %"}, [&] { return style_.Share(ShareCell(row_->share)); });
      Add({.title = "Self CUDA"}, [&] { return FormatNs(Op().self_device_ns); });
      Add({.title = "Self CUDA %", .drop_order = 5}, [&] {
        return style_.Share(FormatPercent(Op().self_device_ns, totals.self_device_total_ns));
      });
      Add({.title = "CUDA total", .drop_order = 4}, [&] { return FormatNs(Op().device_total_ns); });
    }
    Add({.title = "Self CPU %", .drop_order = 6},
        [&] { return style_.Share(FormatPercent(Op().self_cpu_ns, totals.self_cpu_total_ns)); });
    Add({.title = "Self CPU"}, [&] { return FormatNs(Op().self_cpu_ns); });
    Add({.title = "CPU total", .drop_order = 2}, [&] { return FormatNs(Op().cpu_total_ns); });
    Add({.title = "CPU p50", .drop_order = 8}, [&] { return FormatNs(row_->p50_ns); });
    Add({.title = "CPU p95", .drop_order = 9}, [&] { return FormatNs(row_->p95_ns); });
    Add({.title = "CPU max", .drop_order = 10}, [&] { return FormatNs(Op().max_ns); });
    AddFlops();
    AddMemory();
    Add({.title = "# of Calls"}, [&] { return FormatCount(Op().calls); });
    if (view_.profile.step_count == 0 || view_.by_step) return;
    Add({.title = "Calls/step", .drop_order = 7}, [&] {
      return row_->calls_per_step < 0 ? "-" : absl::StrFormat("%.4g", row_->calls_per_step);
    });
    if (view_.profile.step_count == 1) return;
    Add({.title = "First step", .right = false, .drop_order = 1},
        [&] { return std::string(report::ToString(row_->first_step)); });
  }

  void AddKey() {
    Add({.title = "Name", .right = false, .flexible = true}, [&] { return Op().name; });
    if (!view_.group.empty()) {
      Add({.title = GroupTitle(view_.group), .right = false},
          [&] { return GroupCell(row_->group); });
    }
    if (view_.by_step) {
      Add({.title = "Step"}, [&] { return Op().step < 0 ? "-" : StrCat(Op().step); });
    }
    if (view_.by_inputs) {
      Add({.title = "Input shapes", .right = false}, [&] { return InputsCell(Op().dims, style_); });
      Add({.title = "Input types", .right = false, .drop_order = 16},
          [&] { return InputsCell(Op().types, style_); });
    }
  }

  void AddFlops() {
    if (!view_.profile.has_flops) return;
    Add({.title = "GFLOP", .drop_order = 13},
        [&] { return row_->flops == 0 ? "-" : absl::StrFormat("%.3f", row_->flops / 1e9); });
    Add({.title = "TFLOP/s", .drop_order = 11}, [&] { return RateCell(row_->flops_per_s); });
    if (!view_.profile.has_peak) return;
    Add({.title = "Peak %", .drop_order = 12}, [&] {
      return row_->peak_share == 0 ? "-" : StrCat(ShareCell(row_->peak_share), " ", row_->dtype);
    });
  }

  void AddMemory() {
    if (view_.profile.totals.has_memory) {
      Add({.title = "CPU Mem", .drop_order = 18},
          [&] { return FormatBytes(Op().cpu_memory_bytes); });
      Add({.title = "Self CPU Mem", .drop_order = 17},
          [&] { return FormatBytes(Op().self_cpu_memory_bytes); });
    }
    if (!has_device_memory_) return;
    Add({.title = "CUDA Mem", .drop_order = 15},
        [&] { return FormatBytes(Op().device_memory_bytes); });
    Add({.title = "Self CUDA Mem", .drop_order = 14},
        [&] { return FormatBytes(Op().self_device_memory_bytes); });
  }

  template <typename Cell>
  void Add(const Column& column, Cell cell) {
    if (row_ == nullptr) {
      titles_.push_back(column);
    } else {
      cells_.push_back(cell());
    }
  }

  const OpRow& Op() const { return row_->op; }

  const OpProfileView& view_;
  const Style& style_;
  bool has_device_memory_ = false;
  const OpProfileRow* row_ = nullptr;
  std::vector<Column> titles_;
  std::vector<std::string> cells_;
};

// What of a row scripts get, by name: `put(name, value)`; a double below 0 is not known.
template <typename Put>
void PutFields(const OpProfileView& view, const OpProfileRow& row, Put put) {
  const OpRow& op = row.op;
  put("name", std::string_view(op.name));
  if (!view.group.empty()) put(view.group, std::string_view(row.group));
  if (view.by_step) put("step", op.step);
  if (view.by_inputs) {
    put("dims", std::string_view(op.dims));
    put("types", std::string_view(op.types));
  }
  put("calls", op.calls);
  put("calls_per_step", row.calls_per_step);
  put("first_step", report::ToString(row.first_step));
  put("share", row.share);
  put("self_cpu_ns", op.self_cpu_ns);
  put("cpu_total_ns", op.cpu_total_ns);
  put("cpu_time_avg_ns", AverageOf(op));
  put("min_ns", op.min_ns);
  put("p50_ns", row.p50_ns);
  put("p95_ns", row.p95_ns);
  put("max_ns", op.max_ns);
  put("self_device_ns", op.self_device_ns);
  put("device_total_ns", op.device_total_ns);
  put("busy_device_ns", op.busy_device_ns);
  put("flops", row.flops);
  put("flops_per_s", row.flops_per_s);
  put("peak_share", row.peak_share);
  put("dtype", std::string_view(row.dtype));
  put("cpu_memory_bytes", op.cpu_memory_bytes);
  put("self_cpu_memory_bytes", op.self_cpu_memory_bytes);
  put("device_memory_bytes", op.device_memory_bytes);
  put("self_device_memory_bytes", op.self_device_memory_bytes);
}

struct PutJson {
  JsonWriter& json;

  void operator()(std::string_view name, std::string_view value) const { json.Field(name, value); }
  void operator()(std::string_view name, int64_t value) const { json.Field(name, value); }
  void operator()(std::string_view name, double value) const {
    json.Key(name);
    if (value < 0) {
      json.Null();
    } else {
      json.Double(value);
    }
  }
};

struct PutCsv {
  std::string& names;
  std::string& line;

  void operator()(std::string_view name, std::string_view value) const {
    Put(name, CsvCell(value));
  }
  void operator()(std::string_view name, int64_t value) const { Put(name, StrCat(value)); }
  void operator()(std::string_view name, double value) const {
    Put(name, value < 0 ? "" : CsvNumber(value));
  }
  void Put(std::string_view name, const std::string& value) const {
    StrAppend(&names, names.empty() ? "" : ",", name);
    StrAppend(&line, line.empty() ? "" : ",", value);
  }
};

std::string Footer(const OpProfileView& view) {
  const report::OpTable& totals = view.profile.totals;
  std::string text = StrCat("Self CPU time total: ", FormatNs(totals.self_cpu_total_ns), "\n");
  if (!totals.has_device) return text;
  StrAppend(&text, "Self CUDA time total: ", FormatNs(totals.self_device_total_ns),
            view.is_simulated ? " (simulated)" : "");
  if (totals.unattributed_device_ns > 0) {
    StrAppend(&text, ", of which ", FormatNs(totals.unattributed_device_ns),
              " launched outside any range or by no call in the capture");
  }
  StrAppend(&text, "; CUDA busy: ", FormatNs(view.profile.busy_device_ns), "\n");
  return text;
}

}  // namespace

std::string InputsCell(const std::string& inputs, const Style& style) {
  if (inputs.empty()) return "-";
  return style.is_terminal ? CutToWidth(ForDisplay(inputs, 4096), kMaxInputsWidth) : inputs;
}

std::string RenderOpProfile(const OpProfileView& view, const Style& style) {
  OpProfileColumns columns(view, style);
  Table table(columns.Titles());
  for (const OpProfileRow& row : view.profile.rows) table.AddRow(columns.CellsOf(row));
  std::string text = table.Render(style);
  const int64_t row_count = view.profile.totals.row_count;
  const int64_t more = row_count - static_cast<int64_t>(view.profile.rows.size());
  if (row_count == 0) {
    StrAppend(&text, "No ranges were recorded. Annotate the program (`with profd.annotate(...)`, ",
              "PROFD_RANGE) to see what its steps are made of.\n");
  } else if (more > 0) {
    StrAppend(&text, "(", FormatCount(more), more == 1 ? " more row" : " more rows",
              ": --limit 0)\n");
  }
  if (view.profile.frame_row_count > 0) {
    StrAppend(&text, "(", FormatCount(view.profile.frame_row_count),
              " functions of Python are around these and not shown)\n");
  }
  return StrCat(text, Footer(view));
}

void WriteOpProfileJson(const OpProfileView& view, JsonWriter& json) {
  const report::OpTable& totals = view.profile.totals;
  json.Field("self_cpu_total_ns", totals.self_cpu_total_ns);
  json.Field("has_memory", totals.has_memory);
  json.Field("has_device", totals.has_device);
  json.Field("self_device_total_ns", totals.self_device_total_ns);
  json.Field("unattributed_device_ns", totals.unattributed_device_ns);
  json.Field("busy_device_ns", view.profile.busy_device_ns);
  json.Field("step_count", view.profile.step_count);
  json.Field("row_count", totals.row_count);
  json.Field("frame_row_count", view.profile.frame_row_count);
  json.Key("rows").BeginArray();
  for (const OpProfileRow& row : view.profile.rows) {
    json.BeginObject();
    PutFields(view, row, PutJson{json});
    json.EndObject();
  }
  json.EndArray();
}

std::string OpProfileCsv(const OpProfileView& view) {
  std::string text;
  std::string names;
  std::string line;
  PutFields(view, OpProfileRow(), PutCsv{names, line});
  StrAppend(&text, names, "\n");
  for (const OpProfileRow& row : view.profile.rows) {
    names.clear();
    line.clear();
    PutFields(view, row, PutCsv{names, line});
    StrAppend(&text, line, "\n");
  }
  return text;
}

}  // namespace profd::cli
