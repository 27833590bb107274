// Where the time went, as a report: what `profctl time --json` prints, what a daemon answers, and
// what `profctl time` makes of the answer.
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/description.h"
#include "daemon/base/units.h"
#include "daemon/report/time/time_report.h"

namespace profd::report {
namespace {

using table::Column;
using table::CountColumn;
using table::NsColumn;
using table::OverRanks;
using table::Path;
using table::PlainColumn;
using table::RowsOf;
using table::Unit;

constexpr std::string_view kName = "time";

Column Share(std::string key, std::string title, std::string doc, std::string formula) {
  return {.key = std::move(key),
          .title = std::move(title),
          .doc = std::move(doc),
          .formula = std::move(formula),
          .unit = Unit::kShare};
}

// Ranks that have it in common share the row.
Column Key(std::string key, std::string title, std::string doc) {
  Column column = PlainColumn(std::move(key), std::move(title), std::move(doc));
  column.over_ranks = OverRanks::kKey;
  return column;
}

// The columns of TimeBreakdown, for the member `kBreakdown` of Row, followed by `more`.
template <typename Row, auto kBreakdown>
std::vector<table::Field<Row>> WithBreakdown(std::vector<table::Field<Row>> fields,
                                             std::vector<table::Field<Row>> more) {
  const std::vector<table::Field<Row>> breakdown = {
      {Path<kBreakdown, &TimeBreakdown::kernel_time_ns>(),
       NsColumn(
           "kernel_time_ns", "Kernel time",
           "The time that busy and idle add up to, not a sum of kernels (that is kernel_ns). Of "
           "the whole: from the start of the GPU's first work to the end of its last. Of a step: "
           "its duration on the host, from mark to mark. Both without what was not recorded")},
      {Path<kBreakdown, &TimeBreakdown::busy_ns>(),
       NsColumn("busy_ns", "Busy", "Time in which the GPU did anything")},
      {Path<kBreakdown, &TimeBreakdown::idle_ns>(),
       NsColumn("idle_ns", "Idle", "Time in which the GPU did nothing")},
      {Path<kBreakdown, &TimeBreakdown::gap_count>(),
       CountColumn("gap_count", "Gaps",
                   "Gaps of the GPU that begin in it: times between two activities in which no "
                   "stream did anything")},
      {Path<kBreakdown, &TimeBreakdown::compute_ns>(),
       NsColumn("compute_ns", "Compute", "Time in which a kernel ran that is not communication")},
      {Path<kBreakdown, &TimeBreakdown::communication_ns>(),
       NsColumn("communication_ns", "Communication",
                "Time in which a kernel of communication (NCCL, RCCL) ran")},
      {Path<kBreakdown, &TimeBreakdown::exposed_communication_ns>(),
       NsColumn("exposed_communication_ns", "Comm exposed",
                "Time in which communication ran and nothing was computed")},
      {Path<kBreakdown, &TimeBreakdown::overlapped_communication_ns>(),
       NsColumn("overlapped_communication_ns", "overlapped",
                "Time in which communication ran while something was computed")},
      {Path<kBreakdown, &TimeBreakdown::copy_ns>(),
       NsColumn("copy_ns", "Copies", "Time in which a copy, memset, or decompression ran")},
      {Path<kBreakdown, &TimeBreakdown::exposed_copy_ns>(),
       NsColumn("exposed_copy_ns", "Copies exposed",
                "Time in which a copy or memset ran and no kernel")},
      {Path<kBreakdown, &TimeBreakdown::host_only_ns>(),
       NsColumn("host_only_ns", "Host only",
                "Idle time in which nothing was launched that had yet to run")},
      {Path<kBreakdown, &TimeBreakdown::idle_by_cause, &IdleCauses::host_wait_ns>(),
       NsColumn("host_wait_ns", "Host wait",
                "Idle time before work that was launched only after what ran before it had ended")},
      {Path<kBreakdown, &TimeBreakdown::idle_by_cause, &IdleCauses::kernel_wait_ns>(),
       NsColumn("kernel_wait_ns", "Kernel wait",
                "Other idle time in gaps below 30 us: the cost of launching")},
      {Path<kBreakdown, &TimeBreakdown::idle_by_cause, &IdleCauses::other_ns>(),
       NsColumn("other_ns", "Other", "Idle time that is neither host wait nor kernel wait")}};
  fields.insert(fields.end(), breakdown.begin(), breakdown.end());
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

const table::Description<TimeReport>& Totals() {
  using Launches = LaunchStatistics;
  constexpr auto kLaunches = &TimeReport::launches;
  constexpr auto kLoader = &TimeReport::data_loader;
  constexpr auto kGaps = &TimeReport::host_gap_table;
  static const table::Description<TimeReport> columns(WithBreakdown<TimeReport, &TimeReport::whole>(
      {{&TimeReport::has_device,
        {.key = "has_device", .doc = "Whether a GPU did anything; else its times are 0"}},
       {&TimeReport::device,
        {.key = "device", .doc = "The GPU whose time it is", .nullable = true}}},
      {{&TimeReport::unrecorded_ns,
        NsColumn("unrecorded_ns", "", "Time between windows, in which nothing was recorded")},
       {&TimeReport::overlap,
        {.key = "overlap",
         .doc = "Share of communication that ran while the GPU computed; unknown: there was none",
         .formula = "overlapped_communication_ns / communication_ns",
         .unit = Unit::kShare,
         .nullable = true}},
       {Path<kLaunches, &Launches::count>(),
        CountColumn("launch_count", "", "Launches whose work is in the capture")},
       {Path<kLaunches, &Launches::call_ns>(),
        NsColumn("launch_call_ns", "", "Time of the host in the calls that launched work, summed")},
       {Path<kLaunches, &Launches::device_ns>(),
        NsColumn("launched_ns", "", "Time of the launched work, summed")},
       {Path<kLaunches, &Launches::delay_ns>(),
        NsColumn("launch_delay_ns", "", "Time from the end of the calls to the work, summed")},
       {Path<kLaunches, &Launches::median_delay_ns>(),
        NsColumn("median_launch_delay_ns", "",
                 "Median time from the end of a launching call to its work")},
       {Path<kLaunches, &Launches::shorter_than_call_count>(),
        CountColumn("shorter_than_call_count", "",
                    "Launches whose work took less time than their call")},
       {Path<kLaunches, &Launches::slow_call_count>(),
        CountColumn("slow_call_count", "", "Launches whose call took over 50 us")},
       {Path<kLaunches, &Launches::late_count>(),
        CountColumn("late_count", "", "Launches whose work began over 100 us after their call")},
       {Path<kLaunches, &Launches::kernel_count>(),
        CountColumn("kernel_count", "", "Kernels of the GPU, launched in the capture or not")},
       {Path<kLaunches, &Launches::kernel_ns>(),
        NsColumn("kernel_ns", "",
                 "Durations of the kernels of the GPU, summed: more than its busy time where they "
                 "overlap")},
       {Path<kLaunches, &Launches::short_kernel_count>(),
        CountColumn("short_kernel_count", "", "Kernels below 10 us")},
       {Path<kLaunches, &Launches::short_kernel_ns>(),
        NsColumn("short_kernel_ns", "", "Durations of the kernels below 10 us, summed")},
       {Path<kLoader, &DataLoaderTime::count>(),
        CountColumn("data_loader_count", "", "Waits of the program for a batch of data")},
       {Path<kLoader, &DataLoaderTime::total_ns>(),
        NsColumn("data_loader_ns", "", "Time of the program in waits for a batch, summed")},
       {Path<kLoader, &DataLoaderTime::max_ns>(),
        NsColumn("data_loader_max_ns", "", "The longest wait for a batch")},
       {Path<kLoader, &DataLoaderTime::in_steps_ns>(),
        NsColumn("data_loader_in_steps_ns", "",
                 "Time in waits for a batch that began in steps, on the thread of the steps")},
       {&TimeReport::compiled_region_count,
        CountColumn("compiled_region_count", "", "Regions of torch.compile that ran")},
       {&TimeReport::graph_break_count,
        CountColumn("graph_break_count", "", "Graph breaks that it met")},
       {&TimeReport::host_needs,
        {.key = "host_needs",
         .doc = "What is missing to say how the host spent the steps; empty: nothing"}},
       {Path<kGaps, &HostGapTable::long_ns>(),
        NsColumn("long_gap_ns", "",
                 "Time outside operators in gaps of 100 us or more; of a program without a "
                 "framework, outside its ranges")},
       {Path<kGaps, &HostGapTable::short_count>(),
        CountColumn("short_gap_count", "",
                    "Gaps of the host outside operators that are shorter than 100 us")},
       {Path<kGaps, &HostGapTable::short_ns>(),
        NsColumn("short_gap_ns", "", "Time in gaps of the host that are shorter than 100 us")}}));
  return columns;
}

const table::Description<TimeStep>& StepColumns() {
  static const table::Description<TimeStep> columns(WithBreakdown<TimeStep, &TimeStep::device>(
      {{&TimeStep::index, Key("index", "Step", "Number of the step")},
       {&TimeStep::duration_ns, NsColumn("duration_ns", "Duration", "From its mark to the next")}},
      {{&TimeStep::device_step_ns,
        {.key = "device_step_ns",
         .title = "On the GPU",
         .doc =
             "How long it takes on the GPU, from the first work that it launched to that of the "
             "next step, where the host runs ahead of the GPU; null: it does not, or this is the "
             "last step",
         .unit = table::Unit::kNs,
         .priority = table::Column::kOnlyInData,
         .nullable = true}},
       {&TimeStep::launch_count,
        CountColumn("launch_count", "Launches", "Calls that launched work of the GPU")},
       {&TimeStep::launch_ns,
        NsColumn("launch_ns", "Launching", "Time of the host in these calls")},
       {&TimeStep::sync_count, CountColumn("sync_count", "Syncs", "Calls that wait for a GPU")},
       {&TimeStep::sync_ns, NsColumn("sync_ns", "Sync", "Time of the host in these calls")},
       {&TimeStep::data_loader_ns,
        NsColumn("data_loader_ns", "Data loader",
                 "Time in which the thread of the steps waited for data")},
       {&TimeStep::compiled_regions,
        CountColumn("compiled_regions", "Regions", "Regions of torch.compile that ran")},
       {&TimeStep::after_graph_breaks, CountColumn("after_graph_breaks", "after breaks",
                                                   "Regions that continue after a graph break")},
       {&TimeStep::compile_ns, NsColumn("compile_ns", "Compiling", "Time of torch.compile")}}));
  return columns;
}

// How the host spent each step.
const table::Description<TimeStep>& HostColumns() {
  static const table::Description<TimeStep> columns = {
      {&TimeStep::index, Key("index", "Step", "Number of the step")},
      {&TimeStep::duration_ns, NsColumn("duration_ns", "Duration", "From its mark to the next")},
      {Path<&TimeStep::host, &HostSplit::operators_ns>(),
       NsColumn(
           "operators_ns", "Operators",
           "In operators, and in calls outside them that do not wait. Each instant of a step is in "
           "the first of these parts that applies: data loading, GPU wait, collectives, compiling, "
           "operators")},
      {Path<&TimeStep::host, &HostSplit::collectives_ns>(),
       NsColumn("collectives_ns", "Collectives",
                "In collectives on the host, or waiting for them")},
      {Path<&TimeStep::host, &HostSplit::data_loader_ns>(),
       NsColumn("data_loader_ns", "Data loading", "Waiting for data")},
      {Path<&TimeStep::host, &HostSplit::compile_ns>(),
       NsColumn("compile_ns", "Compiling", "In compilations of torch.compile")},
      {Path<&TimeStep::host, &HostSplit::gpu_wait_ns>(),
       NsColumn("gpu_wait_ns", "GPU wait", "In calls that wait for a GPU")},
      {Path<&TimeStep::host, &HostSplit::outside_ns>(),
       NsColumn("outside_ns", "Outside operators",
                "In none of these: Python, or waiting unrecorded. The program's own ranges count "
                "as operators if no framework has any")},
      {Path<&TimeStep::host, &HostSplit::other_ns>(),
       NsColumn("other_ns", "Other", "The same, while the profiler itself worked")}};
  return columns;
}

const table::Description<HostGapRow>& HostGapColumns() {
  static const table::Description<HostGapRow> columns = {
      {&HostGapRow::after, Key("after", "After", "The operator that ended before the gaps")},
      {&HostGapRow::before, Key("before", "Before", "The operator that began after them")},
      {&HostGapRow::where,
       {.key = "where", .title = "In", .doc = "The range or function around most of the longest"}},
      {&HostGapRow::lines,
       {.key = "lines", .title = "Lines", .doc = "Lines of Python around it, where recorded"}},
      {&HostGapRow::count, CountColumn("count", "Count", "Number of gaps")},
      {&HostGapRow::step_count, CountColumn("step_count", "Steps", "Steps that have one")},
      {&HostGapRow::total_ns, NsColumn("total_ns", "Total", "Time in these gaps, summed")},
      {&HostGapRow::median_ns, NsColumn("median_ns", "Median", "Median length of these gaps")},
      {&HostGapRow::max_ns, NsColumn("max_ns", "Max", "The longest of these gaps")},
      {&HostGapRow::longest_start_ns,
       NsColumn("longest_start_ns", "Begin of the longest", "When the longest began")},
      {&HostGapRow::longest_step,
       {.key = "longest_step",
        .title = "Step of the longest",
        .doc = "The step that the longest is in",
        .nullable = true}}};
  return columns;
}

const table::Description<TimeDevice>& DeviceColumns() {
  static const table::Description<TimeDevice> columns = {
      {&TimeDevice::number, Key("device", "GPU", "A GPU that did anything")},
      {&TimeDevice::busy_ns, NsColumn("busy_ns", "Busy", "Time in which this GPU did anything")}};
  return columns;
}

const table::Description<KernelTypeTime>& KernelTypeColumns() {
  static const table::Description<KernelTypeTime> columns = {
      {[](const KernelTypeTime& row) { return ToString(row); },
       Key("type", "Type", "Kinds of work that ran at once")},
      {&KernelTypeTime::compute,
       {.key = "compute", .title = "Compute", .doc = "Whether kernels computed"}},
      {&KernelTypeTime::communication,
       {.key = "communication", .title = "Communication", .doc = "Whether kernels communicated"}},
      {&KernelTypeTime::copy, {.key = "copy", .title = "Copy", .doc = "Whether copies ran"}},
      {&KernelTypeTime::total_ns, NsColumn("total_ns", "Time", "Time in which these ran at once")},
      {&KernelTypeTime::share,
       Share("share", "%", "Its share of all rows", "total_ns / their sum")}};
  return columns;
}

const table::Description<LaunchingOpRow>& LaunchingOpColumns() {
  static const table::Description<LaunchingOpRow> columns = {
      {&LaunchingOpRow::name,
       Key("name", "Launched in", "The innermost range around the launches; empty: none")},
      {&LaunchingOpRow::launch_count,
       CountColumn("launch_count", "Launches", "Number of launches")},
      {&LaunchingOpRow::call_ns,
       NsColumn("call_ns", "Host", "Time of the host in these launching calls")},
      {&LaunchingOpRow::device_ns,
       NsColumn("device_ns", "GPU", "Time of the launched work, summed")},
      {&LaunchingOpRow::short_kernel_count,
       CountColumn("short_kernel_count", "Short", "Kernels below 10 us")},
      {&LaunchingOpRow::shorter_than_call_count,
       CountColumn("shorter_than_call_count", "Below the call",
                   "Kernels that took less than their call")},
      {&LaunchingOpRow::host_wait_ns,
       NsColumn("host_wait_ns", "GPU waited", "Idle time of the GPU before its late launches")},
      {&LaunchingOpRow::launch_bound,
       {.key = "launch_bound",
        .title = "Launch bound",
        .doc = "Whether launching took longer than the launched work"}}};
  return columns;
}

const table::Description<QueueRow>& QueueColumns() {
  static const table::Description<QueueRow> columns = {
      {&QueueRow::stream, Key("stream", "Stream", "The stream's number")},
      {&QueueRow::change_count,
       CountColumn("change_count", "Changes", "Launches, and begins of launched work")},
      {&QueueRow::mean,
       PlainColumn("mean", "Mean", "Launched work that has not begun, on average")},
      {&QueueRow::standard_deviation,
       PlainColumn("standard_deviation", "Std dev",
                   "Standard deviation of launched work that has not begun")},
      {&QueueRow::min, PlainColumn("min", "Min", "Least launched work that has not begun")},
      {&QueueRow::p25,
       PlainColumn("p25", "25%", "First quartile of launched work that has not begun")},
      {&QueueRow::p50, PlainColumn("p50", "50%", "Median of launched work that has not begun")},
      {&QueueRow::p75,
       PlainColumn("p75", "75%", "Third quartile of launched work that has not begun")},
      {&QueueRow::max, PlainColumn("max", "Max", "Most launched work that has not begun")},
      {&QueueRow::full_ns, NsColumn("full_ns", "Full for",
                                    "Time in which the queue was full, so that launches waited")}};
  return columns;
}

const table::Description<CollectiveSumRow>& CollectiveSumColumns() {
  static const table::Description<CollectiveSumRow> columns = {
      {&CollectiveSumRow::kind, Key("kind", "Collective", "Operation; other: unknown")},
      {&CollectiveSumRow::group_size,
       Key("group_size", "Ranks", "Ranks of the group; 0: not known")},
      {&CollectiveSumRow::on_device,
       Key("on_device", "On GPU", "Whether a GPU did it, not the host")},
      {&CollectiveSumRow::bytes,
       {.key = "bytes",
        .title = "Bytes",
        .doc = "Size of each input",
        .unit = Unit::kBytes,
        .nullable = true,
        .over_ranks = OverRanks::kKey}},
      {&CollectiveSumRow::count, CountColumn("count", "Count", "Number of collectives")},
      {&CollectiveSumRow::total_ns,
       NsColumn("total_ns", "Total", "Durations of the collectives, summed")},
      {&CollectiveSumRow::min_ns, NsColumn("min_ns", "Min", "The shortest collective")},
      {&CollectiveSumRow::max_ns, NsColumn("max_ns", "Max", "The longest collective")},
      {&CollectiveSumRow::exposed_ns, NsColumn("exposed_ns", "Exposed", "Time that nothing hid")},
      {&CollectiveSumRow::algorithm_gb_per_s,
       {.key = "algorithm_gb_per_s",
        .title = "GB/s",
        .doc = "Bytes over time, of the fastest",
        .unit = Unit::kGbPerS,
        .nullable = true}},
      {&CollectiveSumRow::bus_gb_per_s,
       {.key = "bus_gb_per_s",
        .title = "Bus GB/s",
        .doc = "What each link carried, of the fastest, as nccl-tests defines it",
        .formula = "GB/s x a factor of the operation and the ranks, all-reduce: 2 (n - 1) / n",
        .unit = Unit::kGbPerS,
        .nullable = true}}};
  return columns;
}

const table::Description<SyncCallRow>& SyncCallColumns() {
  static const table::Description<SyncCallRow> columns = {
      {&SyncCallRow::call, Key("call", "Call", "The call that waited")},
      {&SyncCallRow::cause, Key("cause", "Cause", "explicit, item, copy, operator, or allocator")},
      {&SyncCallRow::op, Key("op", "Op", "The outermost operator around it; empty: none")},
      {&SyncCallRow::where, Key("where", "In", "The innermost range around that; empty: none")},
      {&SyncCallRow::count, CountColumn("count", "Count", "Number of calls")},
      {&SyncCallRow::total_ns,
       NsColumn("total_ns", "Total", "Time of the host in these calls, summed")},
      {&SyncCallRow::max_ns, NsColumn("max_ns", "Max", "The longest of these calls")},
      {&SyncCallRow::per_step,
       PlainColumn("per_step", "Per step", "Calls that began in steps, over the steps")}};
  return columns;
}

// `steps` may be in another order, and some of them left out, but each has its row in `host_steps`
// if there are any.
absl::Status AddHost(const std::vector<TimeStep>& host_steps, std::vector<TimeStep>& steps) {
  if (host_steps.empty()) return absl::OkStatus();
  // Some traces have two steps of one number.
  absl::flat_hash_map<std::pair<int64_t, int64_t>, const TimeStep*> known;
  for (const TimeStep& step : host_steps) known[{step.index, step.duration_ns}] = &step;
  for (TimeStep& step : steps) {
    const auto found = known.find({step.index, step.duration_ns});
    if (found == known.end()) return table::DoNotFitTogether();
    step.host = found->second->host;
  }
  return absl::OkStatus();
}

}  // namespace

table::Report ToReport(const TimeReport& time) {
  const bool has_split = time.host_needs.empty();
  return {.name = std::string(kName),
          .totals = Totals().ToTable("totals", std::span(&time, 1)),
          .tables = {
              StepColumns().ToTable("steps", time.steps),
              HostColumns().ToTable("host_steps", has_split ? time.steps : std::vector<TimeStep>()),
              HostGapColumns().ToTable("host_gaps", time.host_gap_table.rows),
              DeviceColumns().ToTable("devices", time.devices),
              StreamIdleColumns().ToTable("streams", time.streams),
              KernelTypeColumns().ToTable("kernel_types", time.kernel_types),
              LaunchingOpColumns().ToTable("launching_ops", time.launching_ops),
              QueueColumns().ToTable("queues", time.queues),
              CollectiveSumColumns().ToTable("collectives", time.collectives),
              SyncCallColumns().ToTable("syncs", time.syncs)}};
}

absl::StatusOr<TimeReport> TimeFrom(const table::Report& report) {
  if (report.name != kName) return table::DoNotFitTogether();
  ASSIGN_OR_RETURN(std::vector<TimeReport> totals, Totals().FromTable(report.totals));
  if (totals.size() != 1) return table::DoNotFitTogether();
  TimeReport time = std::move(totals.front());
  ASSIGN_OR_RETURN(time.steps, RowsOf(report, "steps", StepColumns()));
  ASSIGN_OR_RETURN(const std::vector<TimeStep> host_steps,
                   RowsOf(report, "host_steps", HostColumns()));
  RETURN_IF_ERROR(AddHost(host_steps, time.steps));
  ASSIGN_OR_RETURN(time.host_gap_table.rows, RowsOf(report, "host_gaps", HostGapColumns()));
  ASSIGN_OR_RETURN(time.devices, RowsOf(report, "devices", DeviceColumns()));
  ASSIGN_OR_RETURN(time.streams, RowsOf(report, "streams", StreamIdleColumns()));
  ASSIGN_OR_RETURN(time.kernel_types, RowsOf(report, "kernel_types", KernelTypeColumns()));
  ASSIGN_OR_RETURN(time.launching_ops, RowsOf(report, "launching_ops", LaunchingOpColumns()));
  ASSIGN_OR_RETURN(time.queues, RowsOf(report, "queues", QueueColumns()));
  ASSIGN_OR_RETURN(time.collectives, RowsOf(report, "collectives", CollectiveSumColumns()));
  ASSIGN_OR_RETURN(time.syncs, RowsOf(report, "syncs", SyncCallColumns()));
  return time;
}

}  // namespace profd::report
