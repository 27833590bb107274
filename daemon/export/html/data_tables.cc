// Tables of operators, kernels and copies.
#include "daemon/base/status_macros.h"
#include "daemon/export/html/data.h"
#include "daemon/report/gpu/copy_table.h"
#include "daemon/report/gpu/kernel_table.h"
#include "daemon/report/ops/op_table.h"

namespace profd::exporter {
namespace {

using report::CopyRow;
using report::KernelRow;
using report::OpRow;

void WriteOpColumns(const report::OpTable& table, JsonWriter& json) {
  const std::vector<OpRow>& rows = table.rows;
  json.Field("row_count", table.row_count);
  json.Field("has_device", table.has_device);
  json.Field("has_memory", table.has_memory);
  json.Field("self_cpu_total_ns", table.self_cpu_total_ns);
  json.Field("self_device_total_ns", table.self_device_total_ns);
  json.Field("unattributed_device_ns", table.unattributed_device_ns);
  json.Key("rows").BeginObject();
  WriteColumn(json, "name", rows, &OpRow::name);
  WriteColumn(json, "calls", rows, &OpRow::calls);
  WriteColumn(json, "self_cpu_ns", rows, &OpRow::self_cpu_ns);
  WriteColumn(json, "cpu_total_ns", rows, &OpRow::cpu_total_ns);
  WriteColumn(json, "max_ns", rows, &OpRow::max_ns);
  if (table.has_device) {
    WriteColumn(json, "self_device_ns", rows, &OpRow::self_device_ns);
    WriteColumn(json, "device_total_ns", rows, &OpRow::device_total_ns);
    WriteColumn(json, "busy_device_ns", rows, &OpRow::busy_device_ns);
  }
  if (table.has_memory) {
    WriteColumn(json, "self_cpu_memory_bytes", rows, &OpRow::self_cpu_memory_bytes);
    WriteColumn(json, "self_device_memory_bytes", rows, &OpRow::self_device_memory_bytes);
  }
}

absl::Status WriteOps(store::CaptureReader& reader, bool by_inputs, JsonWriter& json) {
  const report::OpOptions options = {
      .sort = reader.gpu_row_count() > 0 ? report::OpSort::kBusyDevice : report::OpSort::kSelfCpu,
      .limit = by_inputs ? kMostInputRows : kMostTableRows,
      .by_inputs = by_inputs};
  ASSIGN_OR_RETURN(const report::OpTable table, report::SummarizeOps(reader, options));
  json.Key(by_inputs ? "ops_by_inputs" : "ops").BeginObject();
  WriteOpColumns(table, json);
  if (by_inputs) {
    WriteColumn(json, "dims", table.rows, &OpRow::dims);
    WriteColumn(json, "types", table.rows, &OpRow::types);
  }
  json.EndObject().EndObject();
  return absl::OkStatus();
}

absl::Status WriteKernels(store::CaptureReader& reader, JsonWriter& json) {
  ASSIGN_OR_RETURN(const report::KernelTable table,
                   report::SummarizeKernels(reader, {.limit = kMostTableRows}));
  const std::vector<KernelRow>& rows = table.rows;
  json.Key("kernels").BeginObject();
  json.Field("row_count", table.row_count);
  json.Field("kernel_count", table.kernel_count);
  json.Field("total_ns", table.total_ns);
  json.Field("graph_launch_count", table.graph_launch_count);
  json.Field("graph_launch_ns", table.graph_launch_ns);
  json.Key("rows").BeginObject();
  WriteColumn(json, "name", rows, &KernelRow::display_name);
  WriteColumn(json, "op", rows, &KernelRow::op);
  WriteColumn(json, "count", rows, &KernelRow::count);
  WriteColumn(json, "total_ns", rows, &KernelRow::total_ns);
  WriteColumn(json, "mean_ns", rows, &KernelRow::mean_ns);
  WriteColumn(json, "p50_ns", rows, &KernelRow::p50_ns);
  WriteColumn(json, "p95_ns", rows, &KernelRow::p95_ns);
  WriteColumn(json, "max_ns", rows, &KernelRow::max_ns);
  WriteColumn(json, "occupancy", rows, &KernelRow::occupancy);
  WriteColumn(json, "occupancy_limit", rows, &KernelRow::occupancy_limit);
  WriteColumn(json, "mean_launch_latency_ns", rows, &KernelRow::mean_launch_latency_ns);
  WriteColumn(json, "mean_queue_ns", rows, &KernelRow::mean_queue_ns);
  WriteColumn(json, "tensor_cores", rows, &KernelRow::uses_tensor_cores);
  WriteColumn(json, "communication", rows, &KernelRow::is_communication);
  WriteColumn(json, "graph_count", rows, &KernelRow::graph_count);
  json.EndObject().EndObject();
  return absl::OkStatus();
}

absl::Status WriteCopies(store::CaptureReader& reader, JsonWriter& json) {
  ASSIGN_OR_RETURN(const report::CopyTable table, report::SummarizeCopies(reader));
  const std::vector<CopyRow>& rows = table.rows;  // Few: directions and kinds of memory.
  json.Key("copies").BeginObject();
  json.Field("total_ns", table.total_ns);
  json.Key("rows").BeginObject();
  WriteColumn(json, "name", rows, &CopyRow::name);
  WriteColumn(json, "op", rows, &CopyRow::op);
  WriteColumn(json, "count", rows, &CopyRow::count);
  WriteColumn(json, "async_count", rows, &CopyRow::async_count);
  WriteColumn(json, "total_ns", rows, &CopyRow::total_ns);
  WriteColumn(json, "mean_ns", rows, &CopyRow::mean_ns);
  WriteColumn(json, "p95_ns", rows, &CopyRow::p95_ns);
  WriteColumn(json, "bytes", rows, &CopyRow::bytes);
  WriteColumn(json, "bandwidth_gb_per_s", rows, &CopyRow::bandwidth_gb_per_s);
  json.EndObject().EndObject();
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteTableData(store::CaptureReader& reader, JsonWriter& json) {
  RETURN_IF_ERROR(WriteOps(reader, /*by_inputs=*/false, json));
  // Index 0 is no inputs.
  if (reader.inputs().size() > 1) RETURN_IF_ERROR(WriteOps(reader, /*by_inputs=*/true, json));
  if (reader.gpu_row_count() == 0) return absl::OkStatus();
  RETURN_IF_ERROR(WriteKernels(reader, json));
  return WriteCopies(reader, json);
}

}  // namespace profd::exporter
