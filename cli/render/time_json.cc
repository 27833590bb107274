#include <algorithm>
#include <span>
#include <vector>

#include "cli/render/capture.h"
#include "cli/render/time.h"

namespace profd::cli {
namespace {

using report::TimeBreakdown;
using report::TimeReport;

// An array of at most `limit` rows (0: all), each an object of what `write(row)` adds.
template <typename Row, typename Write>
void WriteRows(std::string_view key, const std::vector<Row>& rows, int64_t limit, JsonWriter& json,
               Write write) {
  const size_t shown = limit > 0 ? std::min(rows.size(), static_cast<size_t>(limit)) : rows.size();
  json.Key(key).BeginArray();
  for (const Row& row : std::span(rows).first(shown)) {
    json.BeginObject();
    write(row);
    json.EndObject();
  }
  json.EndArray();
}

void WriteBreakdown(const TimeBreakdown& time, JsonWriter& json) {
  json.Field("kernel_time_ns", time.kernel_time_ns);
  json.Field("busy_ns", time.busy_ns);
  json.Field("idle_ns", time.idle_ns);
  json.Field("compute_ns", time.compute_ns);
  json.Field("communication_ns", time.communication_ns);
  json.Field("exposed_communication_ns", time.exposed_communication_ns);
  json.Field("overlapped_communication_ns", time.overlapped_communication_ns);
  json.Field("copy_ns", time.copy_ns);
  json.Field("exposed_copy_ns", time.exposed_copy_ns);
  json.Field("host_only_ns", time.host_only_ns);
  json.Key("idle_by_cause").BeginObject();
  json.Field("host_wait_ns", time.idle_by_cause.host_wait_ns);
  json.Field("kernel_wait_ns", time.idle_by_cause.kernel_wait_ns);
  json.Field("other_ns", time.idle_by_cause.other_ns);
  json.EndObject();
}

void WriteTimeSteps(const TimeReport& report, int64_t limit, JsonWriter& json) {
  WriteRows("steps", report.steps, limit, json, [&](const report::TimeStep& step) {
    json.Field("index", step.index);
    json.Field("duration_ns", step.duration_ns);
    WriteBreakdown(step.device, json);
    json.Field("launch_count", step.launch_count);
    json.Field("launch_ns", step.launch_ns);
    json.Field("sync_count", step.sync_count);
    json.Field("sync_ns", step.sync_ns);
    json.Field("data_loader_ns", step.data_loader_ns);
    json.Field("compiled_regions", step.compiled_regions);
    json.Field("after_graph_breaks", step.after_graph_breaks);
    json.Field("compile_ns", step.compile_ns);
    if (report.as_hta || !report.host_needs.empty()) return;
    json.Key("host").BeginObject();
    json.Field("operators_ns", step.host.operators_ns);
    json.Field("collectives_ns", step.host.collectives_ns);
    json.Field("data_loader_ns", step.host.data_loader_ns);
    json.Field("compile_ns", step.host.compile_ns);
    json.Field("gpu_wait_ns", step.host.gpu_wait_ns);
    json.Field("outside_ns", step.host.outside_ns);
    json.Field("other_ns", step.host.other_ns);
    json.EndObject();
  });
}

void WriteStreams(const TimeReport& report, int64_t limit, JsonWriter& json) {
  WriteRows("streams", report.streams, limit, json, [&](const report::StreamIdleRow& row) {
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
  });
  WriteRows("kernel_types", report.kernel_types, 0, json, [&](const report::KernelTypeTime& row) {
    json.Field("type", ToString(row));
    json.Field("total_ns", row.total_ns);
    json.Field("share", row.share);
  });
}

void WriteLaunches(const TimeReport& report, int64_t limit, JsonWriter& json) {
  const report::LaunchStatistics& launches = report.launches;
  json.Key("launches").BeginObject();
  json.Field("count", launches.count);
  json.Field("call_ns", launches.call_ns);
  json.Field("device_ns", launches.device_ns);
  json.Field("delay_ns", launches.delay_ns);
  json.Field("median_delay_ns", launches.median_delay_ns);
  json.Field("shorter_than_call_count", launches.shorter_than_call_count);
  json.Field("slow_call_count", launches.slow_call_count);
  json.Field("late_count", launches.late_count);
  json.Field("kernel_count", launches.kernel_count);
  json.Field("kernel_ns", launches.kernel_ns);
  json.Field("short_kernel_count", launches.short_kernel_count);
  json.Field("short_kernel_ns", launches.short_kernel_ns);
  json.EndObject();
  WriteRows("launching_ops", report.launching_ops, limit, json,
            [&](const report::LaunchingOpRow& row) {
              json.Field("name", row.name);
              json.Field("launch_count", row.launch_count);
              json.Field("call_ns", row.call_ns);
              json.Field("device_ns", row.device_ns);
              json.Field("short_kernel_count", row.short_kernel_count);
              json.Field("shorter_than_call_count", row.shorter_than_call_count);
              json.Field("host_wait_ns", row.host_wait_ns);
              json.Field("launch_bound", row.launch_bound);
            });
  WriteRows("queues", report.queues, limit, json, [&](const report::QueueRow& row) {
    json.Field("stream", row.stream);
    json.Field("change_count", row.change_count);
    json.Field("mean", row.mean);
    json.Field("standard_deviation", row.standard_deviation);
    json.Field("min", row.min);
    json.Field("p25", row.p25);
    json.Field("p50", row.p50);
    json.Field("p75", row.p75);
    json.Field("max", row.max);
    json.Field("full_ns", row.full_ns);
  });
}

// Absent with as_hta; with "needs" where the split is unknown.
void WriteHostGaps(const TimeReport& report, int64_t limit, JsonWriter& json) {
  if (report.as_hta) return;
  const report::HostGapTable& gaps = report.host_gap_table;
  json.Key("host").BeginObject();
  if (!report.host_needs.empty()) json.Field("needs", report.host_needs);
  WriteRows("gaps", gaps.rows, limit, json, [&](const report::HostGapRow& row) {
    json.Field("after", row.after);
    json.Field("before", row.before);
    json.Field("where", row.where);
    json.Field("lines", row.lines);
    json.Field("count", row.count);
    json.Field("step_count", row.step_count);
    json.Field("total_ns", row.total_ns);
    json.Field("median_ns", row.median_ns);
    json.Field("max_ns", row.max_ns);
    json.Field("longest_start_ns", row.longest_start_ns);
    json.Field("longest_step", row.longest_step);
  });
  json.Field("long_gap_ns", gaps.long_ns);
  json.Field("short_gap_count", gaps.short_count);
  json.Field("short_gap_ns", gaps.short_ns);
  json.EndObject();
}

void WriteHost(const TimeReport& report, int64_t limit, JsonWriter& json) {
  WriteRows("collectives", report.collectives, limit, json,
            [&](const report::CollectiveSumRow& row) {
              json.Field("kind", ToString(row.kind));
              json.Field("group_size", row.group_size);
              json.Field("on_device", row.on_device);
              json.Field("bytes", row.bytes);
              json.Field("count", row.count);
              json.Field("total_ns", row.total_ns);
              json.Field("min_ns", row.min_ns);
              json.Field("max_ns", row.max_ns);
              json.Field("exposed_ns", row.exposed_ns);
              json.Field("algorithm_gb_per_s", row.algorithm_gb_per_s);
              json.Field("bus_gb_per_s", row.bus_gb_per_s);
            });
  WriteRows("syncs", report.syncs, limit, json, [&](const report::SyncCallRow& row) {
    json.Field("call", row.call);
    json.Field("cause", ToString(row.cause));
    json.Field("op", row.op);
    json.Field("where", row.where);
    json.Field("count", row.count);
    json.Field("total_ns", row.total_ns);
    json.Field("max_ns", row.max_ns);
    json.Field("per_step", row.per_step);
  });
  json.Key("data_loader").BeginObject();
  json.Field("count", report.data_loader.count);
  json.Field("total_ns", report.data_loader.total_ns);
  json.Field("max_ns", report.data_loader.max_ns);
  json.Field("in_steps_ns", report.data_loader.in_steps_ns);
  json.EndObject();
  int64_t graph_breaks = 0;
  for (const report::GraphBreakRow& row : report.compile.graph_breaks) graph_breaks += row.count;
  json.Key("compile").BeginObject();
  json.Field("region_count", report.compile.regions.size());
  json.Field("graph_break_count", graph_breaks);
  json.EndObject();
}

}  // namespace

void WriteTimeJson(const CaptureView& view, const TimeReport& report, int64_t limit,
                   JsonWriter& json) {
  json.BeginObject();
  WriteReportHeaderJson(view, json);
  json.Field("as_hta", report.as_hta);
  // No GPU did anything: -1, and all of its times are 0.
  json.Field("device", report.has_device ? report.device : -1);
  WriteRows("devices", report.devices, 0, json, [&](const report::TimeDevice& device) {
    json.Field("device", device.number);
    json.Field("busy_ns", device.busy_ns);
  });
  WriteBreakdown(report.whole, json);
  json.Field("unrecorded_ns", report.unrecorded_ns);
  // Of communication, behind compute; null: there was none.
  json.Key("overlap");
  if (report.overlap < 0) {
    json.Null();
  } else {
    json.Double(report.overlap);
  }
  WriteTimeSteps(report, limit, json);
  WriteHostGaps(report, limit, json);
  WriteStreams(report, limit, json);
  WriteLaunches(report, limit, json);
  WriteHost(report, limit, json);
  json.EndObject();
}

}  // namespace profd::cli
