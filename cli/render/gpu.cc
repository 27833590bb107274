#include "cli/render/gpu.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "cli/base/table.h"
#include "cli/base/units.h"
#include "cli/render/capture.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

// Of the range that launched something, beside a name that is already as wide as can be.
constexpr size_t kMaxOpWidth = 32;

template <typename Row>
std::span<const Row> First(const std::vector<Row>& rows, int64_t limit) {
  const size_t shown = limit > 0 ? std::min(rows.size(), static_cast<size_t>(limit)) : rows.size();
  return std::span(rows).first(shown);
}

void AddMoreRows(int64_t more, std::string* text) {
  if (more <= 0) return;
  StrAppend(text, "(", FormatCount(more), more == 1 ? " more row" : " more rows", ": --limit 0)\n");
}

std::string OpCell(const std::string& op, const Style& style) {
  if (op.empty()) return "-";
  return style.is_terminal ? CutToWidth(ForDisplay(op, 4096), kMaxOpWidth) : op;
}

// "12x8", "256"; ones at the end say nothing.
std::string Sides(const std::array<int64_t, 3>& sides) {
  std::string text = StrCat(sides[0]);
  if (sides[1] != 1 || sides[2] != 1) StrAppend(&text, "x", sides[1]);
  if (sides[2] != 1) StrAppend(&text, "x", sides[2]);
  return text;
}

std::string OccupancyCell(const report::KernelRow& row) {
  if (row.occupancy < 0) return "-";
  return absl::StrFormat("%.0f%% %s", 100 * row.occupancy, row.occupancy_limit);
}

void WriteSides(std::string_view key, const std::array<int64_t, 3>& sides, JsonWriter& json) {
  json.Key(key).BeginArray();
  for (const int64_t side : sides) json.Int(side);
  json.EndArray();
}

std::string IdleStepCell(const report::IdleRow& row) {
  return row.step < 0 ? std::string("all") : StrCat(row.step);
}

std::string RenderIdleStreams(const report::IdleTable& table, int64_t limit, const Style& style) {
  Table out({{.title = "GPU"},
             {.title = "Stream"},
             {.title = "Ran", .drop_order = 2},
             {.title = "Busy"},
             {.title = "Gaps", .drop_order = 1},
             {.title = "Idle"},
             {.title = "Host wait"},
             {.title = "Kernel wait"},
             {.title = "Other"}});
  const std::span<const report::StreamIdleRow> shown = First(table.streams, limit);
  for (const report::StreamIdleRow& row : shown) {
    out.AddRow({StrCat(row.device), StrCat(row.stream), FormatCount(row.activity_count),
                FormatNs(row.busy_ns), FormatCount(row.gap_count), FormatNs(row.idle_ns),
                FormatNs(row.host_wait_ns), FormatNs(row.kernel_wait_ns), FormatNs(row.other_ns)});
  }
  std::string text = out.Render(style);
  AddMoreRows(static_cast<int64_t>(table.streams.size() - shown.size()), &text);
  return text;
}

}  // namespace

// ---- kernels ----

std::string RenderKernels(const report::KernelTable& table, const Style& style) {
  Table out({{.title = "Kernel", .right = false, .flexible = true},
             {.title = "Total"},
             {.title = "%"},
             {.title = "Count"},
             {.title = "Mean", .drop_order = 1},
             {.title = "p50", .drop_order = 6},
             {.title = "p95", .drop_order = 4},
             {.title = "Max", .drop_order = 5},
             {.title = "Latency", .drop_order = 8},
             {.title = "Queue", .drop_order = 9},
             {.title = "Grid", .drop_order = 10},
             {.title = "Block", .drop_order = 11},
             {.title = "Registers", .drop_order = 12},
             {.title = "Shared", .drop_order = 13},
             {.title = "Occupancy", .right = false, .drop_order = 3},
             {.title = "Tensor", .right = false, .drop_order = 7},
             {.title = "Op", .right = false, .drop_order = 2}});
  int64_t orphans = 0;
  for (const report::KernelRow& row : table.rows) {
    orphans += row.orphan_count;
    out.AddRow({row.display_name, FormatNs(row.total_ns),
                style.Share(absl::StrFormat("%.2f%%", 100 * row.share)), FormatCount(row.count),
                FormatNs(row.mean_ns), FormatNs(row.p50_ns), FormatNs(row.p95_ns),
                FormatNs(row.max_ns), FormatNsIfKnown(row.mean_launch_latency_ns),
                FormatNsIfKnown(row.mean_queue_ns), Sides(row.grid), Sides(row.block),
                StrCat(row.registers_per_thread),
                FormatBytes(row.static_shared_bytes + row.dynamic_shared_bytes), OccupancyCell(row),
                row.uses_tensor_cores ? "yes" : "-", OpCell(row.op, style)});
  }
  std::string text = out.Render(style);
  if (table.row_count == 0) {
    StrAppend(&text, "No kernels were recorded: the program launched none, uses no CUDA, or was ",
              "captured with --gpu off.\n");
  }
  AddMoreRows(table.row_count - static_cast<int64_t>(table.rows.size()), &text);
  StrAppend(&text, FormatCount(table.kernel_count),
            table.kernel_count == 1 ? " kernel, " : " kernels, ", FormatNs(table.total_ns),
            "; GPU busy ", FormatNs(table.busy_ns), ", with kernels ",
            FormatNs(table.kernel_busy_ns), "\n");
  if (table.graph_launch_count > 0) {
    StrAppend(&text, FormatCount(table.graph_launch_count),
              table.graph_launch_count == 1 ? " CUDA graph" : " CUDA graphs", " took ",
              FormatNs(table.graph_launch_ns),
              "; their kernels are in no row (--gpu full records them)\n");
  }
  if (orphans > 0) {
    StrAppend(&text, FormatCount(orphans), orphans == 1 ? " kernel was" : " kernels were",
              " launched by no call in the capture\n");
  }
  return text;
}

void WriteKernelsJson(const CaptureView& view, const report::KernelTable& table, JsonWriter& json) {
  json.BeginObject();
  WriteReportHeaderJson(view, json);
  json.Field("busy_ns", table.busy_ns);
  json.Field("kernel_busy_ns", table.kernel_busy_ns);
  json.Field("total_ns", table.total_ns);
  json.Field("kernel_count", table.kernel_count);
  json.Field("graph_launch_count", table.graph_launch_count);
  json.Field("graph_launch_ns", table.graph_launch_ns);
  json.Field("row_count", table.row_count);
  json.Key("rows").BeginArray();
  for (const report::KernelRow& row : table.rows) {
    json.BeginObject();
    json.Field("name", row.name);
    json.Field("display_name", row.display_name);
    json.Field("count", row.count);
    json.Field("total_ns", row.total_ns);
    json.Field("mean_ns", row.mean_ns);
    json.Field("min_ns", row.min_ns);
    json.Field("p50_ns", row.p50_ns);
    json.Field("p95_ns", row.p95_ns);
    json.Field("max_ns", row.max_ns);
    json.Field("share", row.share);
    WriteSides("grid", row.grid, json);
    WriteSides("block", row.block, json);
    json.Field("registers_per_thread", row.registers_per_thread);
    json.Field("static_shared_bytes", row.static_shared_bytes);
    json.Field("dynamic_shared_bytes", row.dynamic_shared_bytes);
    json.Field("local_bytes_per_thread", row.local_bytes_per_thread);
    json.Field("configuration_count", row.configuration_count);
    json.Field("occupancy", row.occupancy);
    json.Field("occupancy_limit", row.occupancy_limit);
    json.Field("mean_launch_latency_ns", row.mean_launch_latency_ns);
    json.Field("mean_queue_ns", row.mean_queue_ns);
    json.Field("uses_tensor_cores", row.uses_tensor_cores);
    json.Field("is_communication", row.is_communication);
    json.Field("op", row.op);
    json.Field("orphan_count", row.orphan_count);
    json.Field("graph_count", row.graph_count);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
}

// ---- copies ----

std::string RenderCopies(const report::CopyTable& table, int64_t limit, const Style& style) {
  Table out({{.title = "Copy", .right = false, .flexible = true},
             {.title = "Total"},
             {.title = "Count"},
             {.title = "Mean", .drop_order = 3},
             {.title = "p50", .drop_order = 6},
             {.title = "p95", .drop_order = 5},
             {.title = "Max", .drop_order = 4},
             {.title = "Bytes"},
             {.title = "GB/s"},
             {.title = "Async", .drop_order = 2},
             {.title = "Op", .right = false, .drop_order = 1}});
  const std::span<const report::CopyRow> shown = First(table.rows, limit);
  for (const report::CopyRow& row : shown) {
    out.AddRow({row.name, FormatNs(row.total_ns), FormatCount(row.count), FormatNs(row.mean_ns),
                FormatNs(row.p50_ns), FormatNs(row.p95_ns), FormatNs(row.max_ns),
                FormatBytes(row.bytes), absl::StrFormat("%.2f", row.bandwidth_gb_per_s),
                FormatCount(row.async_count), OpCell(row.op, style)});
  }
  std::string text = out.Render(style);
  if (table.rows.empty()) StrAppend(&text, "No copies and no memsets were recorded.\n");
  AddMoreRows(static_cast<int64_t>(table.rows.size() - shown.size()), &text);
  StrAppend(&text, "Total ", FormatNs(table.total_ns), "; a copy or memset ran for ",
            FormatNs(table.busy_ns), "\n");
  return text;
}

void WriteCopiesJson(const CaptureView& view, const report::CopyTable& table, int64_t limit,
                     JsonWriter& json) {
  json.BeginObject();
  WriteReportHeaderJson(view, json);
  json.Field("total_ns", table.total_ns);
  json.Field("busy_ns", table.busy_ns);
  json.Field("row_count", table.rows.size());
  json.Key("rows").BeginArray();
  for (const report::CopyRow& row : First(table.rows, limit)) {
    json.BeginObject();
    json.Field("name", row.name);
    json.Field("count", row.count);
    json.Field("total_ns", row.total_ns);
    json.Field("mean_ns", row.mean_ns);
    json.Field("p50_ns", row.p50_ns);
    json.Field("p95_ns", row.p95_ns);
    json.Field("max_ns", row.max_ns);
    json.Field("bytes", row.bytes);
    json.Field("min_bytes", row.min_bytes);
    json.Field("max_bytes", row.max_bytes);
    json.Field("bandwidth_gb_per_s", row.bandwidth_gb_per_s);
    json.Field("async_count", row.async_count);
    json.Field("op", row.op);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
}

// ---- syncs ----

std::string RenderSyncs(const report::SyncTable& table, int64_t limit, const Style& style) {
  Table out({{.title = "Wait", .right = false},
             {.title = "Call", .right = false, .drop_order = 1},
             {.title = "Op", .right = false, .flexible = true},
             {.title = "Total"},
             {.title = "Count"},
             {.title = "Mean", .drop_order = 3},
             {.title = "Max", .drop_order = 2}});
  const std::span<const report::SyncRow> shown = First(table.rows, limit);
  for (const report::SyncRow& row : shown) {
    out.AddRow({row.name, row.api.empty() ? "-" : row.api, row.op.empty() ? "-" : row.op,
                FormatNs(row.total_ns), FormatCount(row.count), FormatNs(row.mean_ns),
                FormatNs(row.max_ns)});
  }
  std::string text = out.Render(style);
  if (table.rows.empty()) StrAppend(&text, "No waits for the GPU were recorded.\n");
  AddMoreRows(static_cast<int64_t>(table.rows.size() - shown.size()), &text);
  StrAppend(&text, "Total ", FormatNs(table.total_ns), "\n");
  return text;
}

void WriteSyncsJson(const CaptureView& view, const report::SyncTable& table, int64_t limit,
                    JsonWriter& json) {
  json.BeginObject();
  WriteReportHeaderJson(view, json);
  json.Field("total_ns", table.total_ns);
  json.Field("row_count", table.rows.size());
  json.Key("rows").BeginArray();
  for (const report::SyncRow& row : First(table.rows, limit)) {
    json.BeginObject();
    json.Field("name", row.name);
    json.Field("api", row.api);
    json.Field("op", row.op);
    json.Field("count", row.count);
    json.Field("total_ns", row.total_ns);
    json.Field("mean_ns", row.mean_ns);
    json.Field("max_ns", row.max_ns);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
}

// ---- idle time ----

std::string RenderIdle(const report::IdleTable& table, int64_t limit, const Style& style) {
  if (table.rows.empty()) return "No GPU work was recorded.\n";
  Table out({{.title = "GPU"},
             {.title = "Step"},
             {.title = "Duration"},
             {.title = "Busy"},
             {.title = "Busy %"},
             {.title = "Compute", .drop_order = 3},
             {.title = "Comm", .drop_order = 5},
             {.title = "exposed", .drop_order = 2},
             {.title = "Copies", .drop_order = 6},
             {.title = "exposed", .drop_order = 4},
             {.title = "Idle", .drop_order = 1},
             {.title = "Host wait"},
             {.title = "Kernel wait"},
             {.title = "Other"}});
  const std::span<const report::IdleRow> shown = First(table.rows, limit);
  for (const report::IdleRow& row : shown) {
    out.AddRow({StrCat(row.device), IdleStepCell(row), FormatNs(row.duration_ns),
                FormatNs(row.busy_ns), style.Share(FormatPercent(row.busy_ns, row.duration_ns)),
                FormatNs(row.compute_ns), FormatNs(row.communication_ns),
                FormatNs(row.exposed_communication_ns), FormatNs(row.copy_ns),
                FormatNs(row.exposed_copy_ns), FormatNs(row.idle_ns), FormatNs(row.host_wait_ns),
                FormatNs(row.kernel_wait_ns), FormatNs(row.other_ns)});
  }
  std::string text = out.Render(style);
  AddMoreRows(static_cast<int64_t>(table.rows.size() - shown.size()), &text);
  StrAppend(&text, "\n", RenderIdleStreams(table, limit, style));
  return text;
}

void WriteIdleJson(const CaptureView& view, const report::IdleTable& table, int64_t limit,
                   JsonWriter& json) {
  json.BeginObject();
  WriteReportHeaderJson(view, json);
  json.Field("row_count", table.rows.size());
  json.Key("rows").BeginArray();
  for (const report::IdleRow& row : First(table.rows, limit)) {
    json.BeginObject();
    json.Field("step", row.step);
    json.Field("device", row.device);
    json.Field("duration_ns", row.duration_ns);
    json.Field("busy_ns", row.busy_ns);
    json.Field("compute_ns", row.compute_ns);
    json.Field("communication_ns", row.communication_ns);
    json.Field("exposed_communication_ns", row.exposed_communication_ns);
    json.Field("copy_ns", row.copy_ns);
    json.Field("exposed_copy_ns", row.exposed_copy_ns);
    json.Field("idle_ns", row.idle_ns);
    json.Field("host_wait_ns", row.host_wait_ns);
    json.Field("kernel_wait_ns", row.kernel_wait_ns);
    json.Field("other_ns", row.other_ns);
    json.EndObject();
  }
  json.EndArray();
  json.Key("streams").BeginArray();
  for (const report::StreamIdleRow& row : First(table.streams, limit)) {
    json.BeginObject();
    json.Field("device", row.device);
    json.Field("context", row.context);
    json.Field("stream", row.stream);
    json.Field("activity_count", row.activity_count);
    json.Field("busy_ns", row.busy_ns);
    json.Field("gap_count", row.gap_count);
    json.Field("idle_ns", row.idle_ns);
    json.Field("host_wait_ns", row.host_wait_ns);
    json.Field("kernel_wait_ns", row.kernel_wait_ns);
    json.Field("other_ns", row.other_ns);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
}

}  // namespace profd::cli
