// The reports on the GPU as messages.
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/rpc/convert/convert.h"

namespace profd::rpc {
namespace {

void RowToProto(const report::KernelRow& kernel, v1::KernelRow& row) {
  row.set_name(kernel.name);
  row.set_display_name(ToValidUtf8(kernel.display_name));
  row.set_count(kernel.count);
  row.set_total_ns(kernel.total_ns);
  row.set_mean_ns(kernel.mean_ns);
  row.set_min_ns(kernel.min_ns);
  row.set_p50_ns(kernel.p50_ns);
  row.set_p95_ns(kernel.p95_ns);
  row.set_max_ns(kernel.max_ns);
  row.set_share(kernel.share);
  row.mutable_grid()->Add(kernel.grid.begin(), kernel.grid.end());
  row.mutable_block()->Add(kernel.block.begin(), kernel.block.end());
  row.set_registers_per_thread(kernel.registers_per_thread);
  row.set_static_shared_bytes(kernel.static_shared_bytes);
  row.set_dynamic_shared_bytes(kernel.dynamic_shared_bytes);
  row.set_local_bytes_per_thread(kernel.local_bytes_per_thread);
  row.set_configuration_count(kernel.configuration_count);
  row.set_occupancy(kernel.occupancy);
  row.set_occupancy_limit(kernel.occupancy_limit);
  row.set_mean_launch_latency_ns(kernel.mean_launch_latency_ns);
  row.set_mean_queue_ns(kernel.mean_queue_ns);
  row.set_uses_tensor_cores(kernel.uses_tensor_cores);
  row.set_is_communication(kernel.is_communication);
  row.set_op(kernel.op);
  row.set_orphan_count(kernel.orphan_count);
  row.set_graph_count(kernel.graph_count);
}

void RowToProto(const report::CopyRow& copy, v1::CopyRow& row) {
  row.set_name(ToValidUtf8(copy.name));
  row.set_count(copy.count);
  row.set_total_ns(copy.total_ns);
  row.set_mean_ns(copy.mean_ns);
  row.set_p50_ns(copy.p50_ns);
  row.set_p95_ns(copy.p95_ns);
  row.set_max_ns(copy.max_ns);
  row.set_bytes(copy.bytes);
  row.set_min_bytes(copy.min_bytes);
  row.set_max_bytes(copy.max_bytes);
  row.set_bandwidth_gb_per_s(copy.bandwidth_gb_per_s);
  row.set_async_count(copy.async_count);
  row.set_op(copy.op);
}

void RowToProto(const report::IdleRow& idle, v1::IdleRow& row) {
  row.set_step(idle.step);
  row.set_device(idle.device);
  row.set_duration_ns(idle.duration_ns);
  row.set_busy_ns(idle.busy_ns);
  row.set_compute_ns(idle.compute_ns);
  row.set_communication_ns(idle.communication_ns);
  row.set_exposed_communication_ns(idle.exposed_communication_ns);
  row.set_copy_ns(idle.copy_ns);
  row.set_exposed_copy_ns(idle.exposed_copy_ns);
  row.set_idle_ns(idle.idle_ns);
  row.set_host_wait_ns(idle.host_wait_ns);
  row.set_kernel_wait_ns(idle.kernel_wait_ns);
  row.set_other_ns(idle.other_ns);
}

void RowToProto(const report::StreamIdleRow& idle, v1::StreamIdleRow& row) {
  row.set_device(idle.device);
  row.set_context(idle.context);
  row.set_stream(idle.stream);
  row.set_activity_count(idle.activity_count);
  row.set_busy_ns(idle.busy_ns);
  row.set_gap_count(idle.gap_count);
  row.set_idle_ns(idle.idle_ns);
  row.set_host_wait_ns(idle.host_wait_ns);
  row.set_kernel_wait_ns(idle.kernel_wait_ns);
  row.set_other_ns(idle.other_ns);
}

}  // namespace

absl::StatusOr<report::KernelOptions> KernelOptionsFromProto(const v1::GetKernelsRequest& request) {
  report::KernelOptions options;
  switch (request.sort()) {
    case v1::GetKernelsRequest::SORT_UNSPECIFIED:
    case v1::GetKernelsRequest::TOTAL:
      options.sort = report::KernelSort::kTotal;
      break;
    case v1::GetKernelsRequest::COUNT:
      options.sort = report::KernelSort::kCount;
      break;
    case v1::GetKernelsRequest::MEAN:
      options.sort = report::KernelSort::kMean;
      break;
    case v1::GetKernelsRequest::MAX:
      options.sort = report::KernelSort::kMax;
      break;
    case v1::GetKernelsRequest::NAME:
      options.sort = report::KernelSort::kName;
      break;
    default:
      return absl::InvalidArgumentError(
          StrCat("sort: ", static_cast<int>(request.sort()), " is not known"));
  }
  if (request.limit() < 0) return absl::InvalidArgumentError("limit: must not be negative");
  options.limit = request.limit();
  if (request.has_step()) options.step = request.step();
  return options;
}

void KernelTableToProto(const report::KernelTable& table, v1::GetKernelsResponse& out) {
  out.mutable_rows()->Reserve(static_cast<int>(table.rows.size()));
  for (const report::KernelRow& kernel : table.rows) RowToProto(kernel, *out.add_rows());
  out.set_row_count(table.row_count);
  out.set_kernel_count(table.kernel_count);
  out.set_total_ns(table.total_ns);
  out.set_busy_ns(table.busy_ns);
  out.set_kernel_busy_ns(table.kernel_busy_ns);
  out.set_graph_launch_count(table.graph_launch_count);
  out.set_graph_launch_ns(table.graph_launch_ns);
}

void CopyTableToProto(const report::CopyTable& table, v1::GetCopiesResponse& out) {
  for (const report::CopyRow& copy : table.rows) RowToProto(copy, *out.add_rows());
  out.set_total_ns(table.total_ns);
  out.set_busy_ns(table.busy_ns);
}

void SyncTableToProto(const report::SyncTable& table, v1::GetSyncsResponse& out) {
  for (const report::SyncRow& sync : table.rows) {
    v1::SyncRow& row = *out.add_rows();
    row.set_name(ToValidUtf8(sync.name));
    row.set_api(sync.api);
    row.set_op(sync.op);
    row.set_count(sync.count);
    row.set_total_ns(sync.total_ns);
    row.set_mean_ns(sync.mean_ns);
    row.set_max_ns(sync.max_ns);
  }
  out.set_total_ns(table.total_ns);
}

void IdleTableToProto(const report::IdleTable& table, v1::GetIdleResponse& out) {
  out.mutable_rows()->Reserve(static_cast<int>(table.rows.size()));
  for (const report::IdleRow& idle : table.rows) RowToProto(idle, *out.add_rows());
  for (const report::StreamIdleRow& idle : table.streams) RowToProto(idle, *out.add_streams());
}

}  // namespace profd::rpc
