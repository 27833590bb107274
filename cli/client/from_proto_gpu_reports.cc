#include <algorithm>
#include <utility>

#include "cli/client/from_proto.h"

namespace profd::cli {
namespace {

// The first three of what a daemon sent, which may be fewer.
std::array<int64_t, 3> Three(const google::protobuf::RepeatedField<int64_t>& values) {
  std::array<int64_t, 3> three{};
  std::copy_n(values.begin(), std::min(values.size(), 3), three.begin());
  return three;
}

report::KernelRow TakeRow(v1::KernelRow& row) {
  return {.name = std::move(*row.mutable_name()),
          .display_name = std::move(*row.mutable_display_name()),
          .count = row.count(),
          .total_ns = row.total_ns(),
          .mean_ns = row.mean_ns(),
          .min_ns = row.min_ns(),
          .p50_ns = row.p50_ns(),
          .p95_ns = row.p95_ns(),
          .max_ns = row.max_ns(),
          .share = row.share(),
          .grid = Three(row.grid()),
          .block = Three(row.block()),
          .registers_per_thread = row.registers_per_thread(),
          .static_shared_bytes = row.static_shared_bytes(),
          .dynamic_shared_bytes = row.dynamic_shared_bytes(),
          .local_bytes_per_thread = row.local_bytes_per_thread(),
          .configuration_count = row.configuration_count(),
          .occupancy = row.occupancy(),
          .occupancy_limit = std::move(*row.mutable_occupancy_limit()),
          .mean_launch_latency_ns = row.mean_launch_latency_ns(),
          .mean_queue_ns = row.mean_queue_ns(),
          .uses_tensor_cores = row.uses_tensor_cores(),
          .is_communication = row.is_communication(),
          .op = std::move(*row.mutable_op()),
          .orphan_count = row.orphan_count(),
          .graph_count = row.graph_count()};
}

}  // namespace

report::KernelTable FromProto(v1::GetKernelsResponse message) {
  report::KernelTable table;
  table.rows.reserve(static_cast<size_t>(message.rows_size()));
  for (v1::KernelRow& row : *message.mutable_rows()) table.rows.push_back(TakeRow(row));
  table.row_count = message.row_count();
  table.kernel_count = message.kernel_count();
  table.total_ns = message.total_ns();
  table.busy_ns = message.busy_ns();
  table.kernel_busy_ns = message.kernel_busy_ns();
  table.graph_launch_count = message.graph_launch_count();
  table.graph_launch_ns = message.graph_launch_ns();
  return table;
}

report::CopyTable FromProto(v1::GetCopiesResponse message) {
  report::CopyTable table;
  for (v1::CopyRow& row : *message.mutable_rows()) {
    table.rows.push_back({.name = std::move(*row.mutable_name()),
                          .count = row.count(),
                          .total_ns = row.total_ns(),
                          .mean_ns = row.mean_ns(),
                          .p50_ns = row.p50_ns(),
                          .p95_ns = row.p95_ns(),
                          .max_ns = row.max_ns(),
                          .bytes = row.bytes(),
                          .min_bytes = row.min_bytes(),
                          .max_bytes = row.max_bytes(),
                          .bandwidth_gb_per_s = row.bandwidth_gb_per_s(),
                          .async_count = row.async_count(),
                          .op = std::move(*row.mutable_op())});
  }
  table.total_ns = message.total_ns();
  table.busy_ns = message.busy_ns();
  return table;
}

report::SyncTable FromProto(v1::GetSyncsResponse message) {
  report::SyncTable table;
  for (v1::SyncRow& row : *message.mutable_rows()) {
    table.rows.push_back({.name = std::move(*row.mutable_name()),
                          .api = std::move(*row.mutable_api()),
                          .op = std::move(*row.mutable_op()),
                          .count = row.count(),
                          .total_ns = row.total_ns(),
                          .mean_ns = row.mean_ns(),
                          .max_ns = row.max_ns()});
  }
  table.total_ns = message.total_ns();
  return table;
}

report::IdleTable FromProto(const v1::GetIdleResponse& message) {
  report::IdleTable table;
  table.rows.reserve(static_cast<size_t>(message.rows_size()));
  for (const v1::IdleRow& row : message.rows()) {
    table.rows.push_back({.step = row.step(),
                          .device = row.device(),
                          .duration_ns = row.duration_ns(),
                          .busy_ns = row.busy_ns(),
                          .compute_ns = row.compute_ns(),
                          .communication_ns = row.communication_ns(),
                          .exposed_communication_ns = row.exposed_communication_ns(),
                          .copy_ns = row.copy_ns(),
                          .exposed_copy_ns = row.exposed_copy_ns(),
                          .idle_ns = row.idle_ns(),
                          .host_wait_ns = row.host_wait_ns(),
                          .kernel_wait_ns = row.kernel_wait_ns(),
                          .other_ns = row.other_ns()});
  }
  for (const v1::StreamIdleRow& row : message.streams()) {
    table.streams.push_back({.device = row.device(),
                             .context = row.context(),
                             .stream = row.stream(),
                             .activity_count = row.activity_count(),
                             .busy_ns = row.busy_ns(),
                             .gap_count = row.gap_count(),
                             .idle_ns = row.idle_ns(),
                             .host_wait_ns = row.host_wait_ns(),
                             .kernel_wait_ns = row.kernel_wait_ns(),
                             .other_ns = row.other_ns()});
  }
  return table;
}

v1::GetKernelsRequest ToProto(const report::KernelOptions& options) {
  v1::GetKernelsRequest message;
  switch (options.sort) {
    case report::KernelSort::kTotal:
      message.set_sort(v1::GetKernelsRequest::TOTAL);
      break;
    case report::KernelSort::kCount:
      message.set_sort(v1::GetKernelsRequest::COUNT);
      break;
    case report::KernelSort::kMean:
      message.set_sort(v1::GetKernelsRequest::MEAN);
      break;
    case report::KernelSort::kMax:
      message.set_sort(v1::GetKernelsRequest::MAX);
      break;
    case report::KernelSort::kName:
      message.set_sort(v1::GetKernelsRequest::NAME);
      break;
  }
  message.set_limit(options.limit);
  if (options.step.has_value()) message.set_step(*options.step);
  return message;
}

}  // namespace profd::cli
