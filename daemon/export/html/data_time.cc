// Where the time went: by step and device, and what held the devices up.
#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/export/html/data.h"
#include "daemon/report/time/time_report.h"

namespace profd::exporter {
namespace {

using report::TimeBreakdown;
using report::TimeReport;
using report::TimeStep;

template <typename Row>
std::span<const Row> FirstRows(const std::vector<Row>& rows) {
  return std::span(rows).first(std::min<size_t>(rows.size(), kMostTableRows));
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
  json.Field("host_wait_ns", time.idle_by_cause.host_wait_ns);
  json.Field("kernel_wait_ns", time.idle_by_cause.kernel_wait_ns);
  json.Field("other_ns", time.idle_by_cause.other_ns);
  json.Field("host_only_ns", time.host_only_ns);
}

// A bar of the chart over steps: one, or several that stand together.
using StepBar = std::span<const TimeStep>;

std::vector<StepBar> BarsOf(const std::vector<TimeStep>& steps) {
  const size_t per_bar = std::max<size_t>(1, (steps.size() + kMostStepBars - 1) / kMostStepBars);
  std::vector<StepBar> bars;
  for (size_t begin = 0; begin < steps.size(); begin += per_bar) {
    bars.push_back(std::span(steps).subspan(begin, std::min(per_bar, steps.size() - begin)));
  }
  return bars;
}

const TimeStep& LongestOf(const StepBar& bar) {
  return *std::max_element(bar.begin(), bar.end(), [](const TimeStep& a, const TimeStep& b) {
    return a.duration_ns < b.duration_ns;
  });
}

// Means over the steps of each bar.
void WriteSteps(const TimeReport& report, JsonWriter& json) {
  const std::vector<StepBar> bars = BarsOf(report.steps);
  const auto mean = [&](std::string_view name, auto get) {
    WriteColumn(json, name, bars, [&](const StepBar& bar) {
      double sum = 0;
      for (const TimeStep& step : bar) sum += static_cast<double>(get(step));
      return std::round(sum / static_cast<double>(bar.size()));
    });
  };
  const auto device_mean = [&](std::string_view name, int64_t TimeBreakdown::*member) {
    mean(name, [&](const TimeStep& step) { return step.device.*member; });
  };
  const auto cause_mean = [&](std::string_view name, int64_t report::IdleCauses::*member) {
    mean(name, [&](const TimeStep& step) { return step.device.idle_by_cause.*member; });
  };
  json.Field("step_count", report.steps.size());
  json.Key("steps").BeginObject();
  WriteColumn(json, "first", bars, [](const StepBar& bar) { return bar.front().index; });
  WriteColumn(json, "last", bars, [](const StepBar& bar) { return bar.back().index; });
  WriteColumn(json, "longest", bars, [](const StepBar& bar) { return LongestOf(bar).index; });
  WriteColumn(json, "longest_ns", bars,
              [](const StepBar& bar) { return LongestOf(bar).duration_ns; });
  mean("duration_ns", [](const TimeStep& step) { return step.duration_ns; });
  if (report.has_device) {
    device_mean("compute_ns", &TimeBreakdown::compute_ns);
    device_mean("communication_ns", &TimeBreakdown::communication_ns);
    device_mean("exposed_communication_ns", &TimeBreakdown::exposed_communication_ns);
    device_mean("exposed_copy_ns", &TimeBreakdown::exposed_copy_ns);
    cause_mean("host_wait_ns", &report::IdleCauses::host_wait_ns);
    cause_mean("kernel_wait_ns", &report::IdleCauses::kernel_wait_ns);
    cause_mean("other_ns", &report::IdleCauses::other_ns);
    mean("launch_count", [](const TimeStep& step) { return step.launch_count; });
    mean("sync_count", [](const TimeStep& step) { return step.sync_count; });
    mean("sync_ns", [](const TimeStep& step) { return step.sync_ns; });
  }
  mean("data_loader_ns", [](const TimeStep& step) { return step.data_loader_ns; });
  mean("compile_ns", [](const TimeStep& step) { return step.compile_ns; });
  if (report.host_needs.empty()) {
    const auto host_mean = [&](std::string_view name, int64_t report::HostSplit::*member) {
      mean(name, [&](const TimeStep& step) { return step.host.*member; });
    };
    host_mean("host_operators_ns", &report::HostSplit::operators_ns);
    host_mean("host_collectives_ns", &report::HostSplit::collectives_ns);
    host_mean("host_data_loader_ns", &report::HostSplit::data_loader_ns);
    host_mean("host_gpu_wait_ns", &report::HostSplit::gpu_wait_ns);
    host_mean("host_outside_ns", &report::HostSplit::outside_ns);
    host_mean("host_other_ns", &report::HostSplit::other_ns);
  }
  json.EndObject();
}

void WriteStreams(const TimeReport& report, JsonWriter& json) {
  using Row = report::StreamIdleRow;
  const auto rows = FirstRows(report.streams);
  json.Key("streams").BeginObject();
  WriteColumn(json, "stream", rows, &Row::stream);
  WriteColumn(json, "activity_count", rows, &Row::activity_count);
  WriteColumn(json, "busy_ns", rows, &Row::busy_ns);
  WriteColumn(json, "idle_ns", rows, &Row::idle_ns);
  WriteColumn(json, "host_wait_ns", rows, &Row::host_wait_ns);
  WriteColumn(json, "kernel_wait_ns", rows, &Row::kernel_wait_ns);
  WriteColumn(json, "other_ns", rows, &Row::other_ns);
  json.EndObject();
}

void WriteLaunches(const TimeReport& report, JsonWriter& json) {
  const report::LaunchStatistics& launches = report.launches;
  json.Key("launches").BeginObject();
  json.Field("count", launches.count);
  json.Field("call_ns", launches.call_ns);
  json.Field("device_ns", launches.device_ns);
  json.Field("median_delay_ns", launches.median_delay_ns);
  json.Field("shorter_than_call_count", launches.shorter_than_call_count);
  json.Field("late_count", launches.late_count);
  json.Field("kernel_count", launches.kernel_count);
  json.Field("short_kernel_count", launches.short_kernel_count);
  json.Field("short_kernel_ns", launches.short_kernel_ns);
  json.EndObject();
  using Row = report::LaunchingOpRow;
  const auto rows = FirstRows(report.launching_ops);
  json.Field("launching_op_count", report.launching_ops.size());
  json.Key("launching_ops").BeginObject();
  WriteColumn(json, "name", rows, &Row::name);
  WriteColumn(json, "launch_count", rows, &Row::launch_count);
  WriteColumn(json, "call_ns", rows, &Row::call_ns);
  WriteColumn(json, "device_ns", rows, &Row::device_ns);
  WriteColumn(json, "host_wait_ns", rows, &Row::host_wait_ns);
  WriteColumn(json, "short_kernel_count", rows, &Row::short_kernel_count);
  WriteColumn(json, "launch_bound", rows, &Row::launch_bound);
  json.EndObject();
}

void WriteDevice(const TimeReport& report, JsonWriter& json) {
  json.BeginObject();
  json.Field("device", report.device);
  json.Field("has_device", report.has_device);
  json.Field("overlap", report.overlap);
  json.Key("whole").BeginObject();
  WriteBreakdown(report.whole, json);
  json.EndObject();
  WriteSteps(report, json);
  if (report.has_device) {
    WriteStreams(report, json);
    WriteLaunches(report, json);
  }
  json.EndObject();
}

void WriteCollectives(const TimeReport& report, JsonWriter& json) {
  using Row = report::CollectiveSumRow;
  const auto rows = FirstRows(report.collectives);
  json.Key("collectives").BeginObject();
  WriteColumn(json, "name", rows, [](const Row& row) { return ToString(row.kind); });
  WriteColumn(json, "group_size", rows, &Row::group_size);
  WriteColumn(json, "bytes", rows, &Row::bytes);
  WriteColumn(json, "count", rows, &Row::count);
  WriteColumn(json, "total_ns", rows, &Row::total_ns);
  WriteColumn(json, "max_ns", rows, &Row::max_ns);
  WriteColumn(json, "exposed_ns", rows, &Row::exposed_ns);
  WriteColumn(json, "bus_gb_per_s", rows, &Row::bus_gb_per_s);
  json.EndObject();
}

void WriteSyncs(const TimeReport& report, JsonWriter& json) {
  using Row = report::SyncCallRow;
  const auto rows = FirstRows(report.syncs);
  json.Field("sync_row_count", report.syncs.size());
  json.Key("syncs").BeginObject();
  WriteColumn(json, "name", rows, &Row::call);
  WriteColumn(json, "cause", rows, [](const Row& row) { return ToString(row.cause); });
  WriteColumn(json, "op", rows, &Row::op);
  WriteColumn(json, "where", rows, &Row::where);
  WriteColumn(json, "count", rows, &Row::count);
  WriteColumn(json, "per_step", rows, &Row::per_step);
  WriteColumn(json, "total_ns", rows, &Row::total_ns);
  WriteColumn(json, "max_ns", rows, &Row::max_ns);
  json.EndObject();
}

void WriteCompile(const report::CompileReport& compile, JsonWriter& json) {
  json.Key("compile").BeginObject();
  const auto regions = FirstRows(compile.regions);
  json.Key("regions").BeginObject();
  WriteColumn(json, "name", regions, &report::CompiledRegionRow::id);
  WriteColumn(json, "code", regions, &report::CompiledRegionRow::code);
  WriteColumn(json, "calls", regions, &report::CompiledRegionRow::calls);
  WriteColumn(json, "total_ns", regions, &report::CompiledRegionRow::total_ns);
  WriteColumn(json, "after_graph_break", regions, &report::CompiledRegionRow::after_graph_break);
  json.EndObject();
  const auto breaks = FirstRows(compile.graph_breaks);
  json.Key("graph_breaks").BeginObject();
  WriteColumn(json, "name", breaks, &report::GraphBreakRow::where);
  WriteColumn(json, "reason", breaks, &report::GraphBreakRow::reason);
  WriteColumn(json, "count", breaks, &report::GraphBreakRow::count);
  json.EndObject();
  const auto recompiles = FirstRows(compile.recompiles);
  json.Key("recompiles").BeginObject();
  WriteColumn(json, "name", recompiles, &report::RecompileRow::where);
  WriteColumn(json, "reason", recompiles, &report::RecompileRow::reason);
  WriteColumn(json, "count", recompiles, &report::RecompileRow::count);
  WriteColumn(json, "compile_ns", recompiles, &report::RecompileRow::compile_ns);
  json.EndObject();
  json.EndObject();
}

void WriteOfAllDevices(const TimeReport& report, JsonWriter& json) {
  WriteCollectives(report, json);
  WriteSyncs(report, json);
  json.Key("data_loader").BeginObject();
  json.Field("count", report.data_loader.count);
  json.Field("total_ns", report.data_loader.total_ns);
  json.Field("max_ns", report.data_loader.max_ns);
  json.EndObject();
  if (report.compile.has_compiled) WriteCompile(report.compile, json);
}

// Those with most work, without the one that is there already.
std::vector<int64_t> OtherDevices(const TimeReport& report) {
  std::vector<report::TimeDevice> devices = report.devices;
  std::stable_sort(devices.begin(), devices.end(),
                   [](const report::TimeDevice& a, const report::TimeDevice& b) {
                     return a.busy_ns > b.busy_ns;
                   });
  std::vector<int64_t> numbers;
  for (const report::TimeDevice& device : devices) {
    if (numbers.size() + 1 == kMostDevices) break;
    if (device.number != report.device) numbers.push_back(device.number);
  }
  return numbers;
}

}  // namespace

absl::Status WriteTimeData(store::CaptureReader& reader, JsonWriter& json) {
  ASSIGN_OR_RETURN(const TimeReport report, report::SummarizeTime(reader, {}));
  WriteOfAllDevices(report, json);
  json.Field("device_count", report.devices.size());
  json.Key("time").BeginArray();
  WriteDevice(report, json);
  for (const int64_t device : OtherDevices(report)) {
    ASSIGN_OR_RETURN(const TimeReport other, report::SummarizeTime(reader, {.device = device}));
    WriteDevice(other, json);
  }
  json.EndArray();
  return absl::OkStatus();
}

}  // namespace profd::exporter
