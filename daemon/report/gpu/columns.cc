// The columns of the tables of this folder, and what the reports say below them.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/units.h"
#include "daemon/report/gpu/copy_table.h"
#include "daemon/report/gpu/idle_table.h"
#include "daemon/report/gpu/kernel_table.h"
#include "daemon/report/gpu/sync_table.h"

namespace profd::report {
namespace {

using table::Column;
using table::OverRanks;
using table::Unit;

constexpr std::string_view kKernelReport = "kernels";

// ---- columns that several tables have ----

template <typename Row>
table::Field<Row> TotalColumn() {
  return {&Row::total_ns,
          {.key = "total_ns",
           .title = "Total",
           .doc = "Sum of durations",
           .formula = "sum of end - start",
           .unit = Unit::kNs,
           .over_ranks = OverRanks::kSum}};
}

template <typename Row>
table::Field<Row> CountColumn(const char* doc) {
  return {&Row::count,
          {.key = "count",
           .title = "Count",
           .doc = doc,
           .unit = Unit::kCount,
           .over_ranks = OverRanks::kSum}};
}

template <typename Row>
table::Field<Row> MeanColumn(int priority) {
  return {&Row::mean_ns,
          {.key = "mean_ns",
           .title = "Mean",
           .doc = "Mean duration",
           .formula = "Total / Count",
           .unit = Unit::kNs,
           .priority = priority}};
}

template <typename Row>
table::Field<Row> PercentileColumn(int64_t Row::*member, int percent, int priority) {
  return {member,
          {.key = StrCat("p", percent, "_ns"),
           .title = StrCat("p", percent),
           .doc = StrCat("The duration that ", percent, " % of the durations do not exceed"),
           .formula = StrCat("the ceil(0.", percent, " n)th of the n durations, shortest first"),
           .unit = Unit::kNs,
           .priority = priority}};
}

template <typename Row>
table::Field<Row> MaxColumn(int priority) {
  return {&Row::max_ns,
          {.key = "max_ns",
           .title = "Max",
           .doc = "The longest duration",
           .unit = Unit::kNs,
           .priority = priority,
           .over_ranks = OverRanks::kMax}};
}

template <typename Row>
table::Field<Row> OpColumn(int priority) {
  return {&Row::op,
          {.key = "op",
           .title = "Op",
           .doc = "The range around the CUDA calls that launched most of it",
           .priority = priority,
           .max_width = 32}};  // The name next to it needs the width.
}

template <typename Row>
table::Field<Row> DeviceColumn() {
  return {&Row::device,
          {.key = "device", .title = "GPU", .doc = "Device number", .over_ranks = OverRanks::kKey}};
}

template <typename Row>
table::Field<Row> HostWaitColumn() {
  return {&Row::host_wait_ns,
          {.key = "host_wait_ns",
           .title = "Host wait",
           .doc = "Idle time before work whose CUDA call began after the previous work had ended",
           .unit = Unit::kNs}};
}

template <typename Row>
table::Field<Row> KernelWaitColumn() {
  return {&Row::kernel_wait_ns,
          {.key = "kernel_wait_ns",
           .title = "Kernel wait",
           .doc = "Other idle time in gaps below 30 us: the launch overhead",
           .unit = Unit::kNs}};
}

template <typename Row>
table::Field<Row> OtherIdleColumn() {
  return {&Row::other_ns,
          {.key = "other_ns", .title = "Other", .doc = "All other idle time", .unit = Unit::kNs}};
}

// ---- totals ----

const table::Description<KernelTable>& KernelTotals() {
  static const table::Description<KernelTable> totals = {
      {&KernelTable::busy_ns,
       {.key = "busy_ns",
        .title = "GPU busy",
        .doc = "Time in which the GPUs ran kernels, copies, memsets, or graphs",
        .formula = "length of the union over streams; devices added",
        .unit = Unit::kNs}},
      {&KernelTable::kernel_busy_ns,
       {.key = "kernel_busy_ns",
        .title = "Kernels busy",
        .doc = "Time in which the GPUs ran kernels",
        .formula = "length of the union over streams; devices added",
        .unit = Unit::kNs}},
      {&KernelTable::total_ns,
       {.key = "total_ns",
        .title = "Total",
        .doc = "Sum of the durations of all kernels",
        .formula = "sum of end - start",
        .unit = Unit::kNs}},
      {&KernelTable::kernel_count,
       {.key = "kernel_count",
        .title = "Kernels",
        .doc = "Number of kernels that the window launched; without launch calls, that ran",
        .unit = Unit::kCount}},
      {&KernelTable::graph_launch_count,
       {.key = "graph_launch_count",
        .title = "Graphs",
        .doc = "Launches of CUDA graphs whose kernels were not recorded",
        .unit = Unit::kCount}},
      {&KernelTable::graph_launch_ns,
       {.key = "graph_launch_ns",
        .title = "Graph time",
        .doc = "Sum of the durations of CUDA graphs whose kernels were not recorded",
        .formula = "sum of end - start",
        .unit = Unit::kNs}},
      {&KernelTable::earlier_kernel_count,
       {.key = "earlier_kernel_count",
        .title = "Earlier",
        .doc = "Kernels that ran in the window but were launched before it; in no row and no total",
        .unit = Unit::kCount}},
      {&KernelTable::earlier_kernel_ns,
       {.key = "earlier_kernel_ns",
        .title = "Earlier time",
        .doc = "Sum of the durations of kernels that were launched before the window",
        .formula = "sum of end - start",
        .unit = Unit::kNs}}};
  return totals;
}

const table::Description<CopyTable>& CopyTotals() {
  static const table::Description<CopyTable> totals = {
      {&CopyTable::total_ns,
       {.key = "total_ns",
        .title = "Total",
        .doc = "Sum of the durations of all copies, memsets, and decompressions",
        .formula = "sum of end - start",
        .unit = Unit::kNs}},
      {&CopyTable::busy_ns,
       {.key = "busy_ns",
        .title = "Busy",
        .doc = "Time in which a copy, memset, or decompression ran",
        .formula = "length of the union over streams; devices added",
        .unit = Unit::kNs}},
      {&CopyTable::earlier_count,
       {.key = "earlier_count",
        .title = "Earlier",
        .doc = "Copies and memsets that ran in the window but were launched before it; in no row",
        .unit = Unit::kCount}},
      {&CopyTable::earlier_ns,
       {.key = "earlier_ns",
        .title = "Earlier time",
        .doc = "Sum of the durations of copies and memsets that were launched before the window",
        .formula = "sum of end - start",
        .unit = Unit::kNs}}};
  return totals;
}

const table::Description<SyncTable>& SyncTotals() {
  static const table::Description<SyncTable> totals = {{&SyncTable::total_ns,
                                                        {.key = "total_ns",
                                                         .title = "Total",
                                                         .doc = "Sum of the durations of all waits",
                                                         .formula = "sum of end - start",
                                                         .unit = Unit::kNs}}};
  return totals;
}

// "3 kernels, 1.234ms; GPU busy 2.000ms, with kernels 1.100ms"
std::string KernelTotalsText(const KernelTable& kernels) {
  return StrCat(FormatCountOf(kernels.kernel_count, "kernel", "kernels"), ", ",
                FormatNs(kernels.total_ns), "; GPU busy ", FormatNs(kernels.busy_ns),
                ", with kernels ", FormatNs(kernels.kernel_busy_ns));
}

}  // namespace

// ---- kernels ----

const table::Description<KernelRow>& KernelColumns() {
  static const table::Description<KernelRow> columns = {
      {&KernelRow::display_name,
       {.key = "display_name",
        .title = "Kernel",
        .doc = "The kernel's name, demangled",
        .flexible = true}},
      {&KernelRow::name,
       {.key = "name",
        .title = "Recorded name",
        .doc = "The kernel's name, as it was recorded",
        .priority = Column::kOnlyInData,
        .over_ranks = OverRanks::kKey}},
      TotalColumn<KernelRow>(),
      {&KernelRow::share,
       {.key = "share",
        .title = "%",
        .doc =
            "Total as a share of the total of all rows. In all tables, shares are marked (~12%) if "
            "more than 0.1 % of the events were lost, and withheld (-) from 10 % on",
        .formula = "Total / sum of Total",
        .unit = Unit::kShare}},
      CountColumn<KernelRow>("Number of launches"),
      MeanColumn<KernelRow>(1),
      {&KernelRow::min_ns,
       {.key = "min_ns",
        .title = "Min",
        .doc = "The shortest duration",
        .unit = Unit::kNs,
        .priority = Column::kOnlyInData,
        .over_ranks = OverRanks::kMin}},
      PercentileColumn(&KernelRow::p50_ns, 50, 6),
      PercentileColumn(&KernelRow::p95_ns, 95, 4),
      PercentileColumn(&KernelRow::p99_ns, 99, 7),
      MaxColumn<KernelRow>(5),
      {&KernelRow::mean_launch_latency_ns,
       {.key = "mean_launch_latency_ns",
        .title = "Latency",
        .doc = "Mean time from the start of the CUDA call to the start of the kernel",
        .formula = "mean of kernel start - call start",
        .unit = Unit::kNs,
        .priority = 8,
        .nullable = true}},
      {&KernelRow::mean_queue_ns,
       {.key = "mean_queue_ns",
        .title = "Queue",
        .doc = "Mean time in which the kernel was ready but did not run",
        .formula = "mean of kernel start - max(end of the call, end of what its stream ran before)",
        .unit = Unit::kNs,
        .priority = 9,
        .nullable = true}},
      {&KernelRow::grid,
       {.key = "grid",
        .title = "Grid",
        .doc = "Blocks of the launch, of the configuration that took most time; null: not known",
        .priority = 10,
        .nullable = true}},
      {&KernelRow::block,
       {.key = "block",
        .title = "Block",
        .doc = "Threads of a block, of the configuration that took most time; null: not known",
        .priority = 11,
        .nullable = true}},
      {&KernelRow::configuration_count,
       {.key = "configuration_count",
        .title = "Configurations",
        .doc = "Number of different launch configurations",
        .unit = Unit::kCount,
        .priority = Column::kOnlyInData}},
      {&KernelRow::registers_per_thread,
       {.key = "registers_per_thread",
        .title = "Registers",
        .doc = "Registers per thread; null: not known",
        .priority = 12,
        .nullable = true}},
      {&KernelRow::static_shared_bytes,
       {.key = "static_shared_bytes",
        .title = "Static shared",
        .doc = "Shared memory per block that the kernel's code asks for",
        .unit = Unit::kBytes,
        .priority = 14,
        .nullable = true}},
      {&KernelRow::dynamic_shared_bytes,
       {.key = "dynamic_shared_bytes",
        .title = "Dynamic shared",
        .doc = "Shared memory per block that the launch asks for",
        .unit = Unit::kBytes,
        .priority = 13,
        .nullable = true}},
      {&KernelRow::local_bytes_per_thread,
       {.key = "local_bytes_per_thread",
        .title = "Local",
        .doc = "Local memory per thread, where registers do not suffice",
        .unit = Unit::kBytes,
        .priority = Column::kOnlyInData,
        .nullable = true}},
      {&KernelRow::occupancy,
       {.key = "occupancy",
        .title = "Occupancy",
        .doc = "Estimate: resident warps per SM over the maximum",
        .formula = "by registers, shared memory, threads, and blocks, as NVIDIA's occupancy "
                   "calculator has it",
        .unit = Unit::kRatio,
        .priority = 3,
        .nullable = true}},
      {&KernelRow::occupancy_limit,
       {.key = "occupancy_limit",
        .title = "Limited by",
        .doc = "What limits the occupancy: registers, shared memory, threads, blocks, or grid",
        .priority = 15}},
      {&KernelRow::uses_tensor_cores,
       {.key = "uses_tensor_cores",
        .title = "Tensor",
        .doc = "Whether the kernel uses tensor cores, inferred from its name",
        .priority = 7}},
      {&KernelRow::is_communication,
       {.key = "is_communication",
        .title = "Communication",
        .doc =
            "Whether the kernel exchanges data with other GPUs, by its name: NCCL, RCCL, NVSHMEM, "
            "symmetric memory, and collectives of vLLM, TensorRT-LLM, DeepEP, and the like",
        .priority = Column::kOnlyInData}},
      OpColumn<KernelRow>(2),
      {&KernelRow::orphan_count,
       {.key = "orphan_count",
        .title = "Orphans",
        .doc = "Launches whose CUDA call is not in the capture",
        .unit = Unit::kCount,
        .priority = Column::kOnlyInData,
        .over_ranks = OverRanks::kSum}},
      {&KernelRow::graph_count,
       {.key = "graph_count",
        .title = "In graphs",
        .doc = "Launches as nodes of a CUDA graph",
        .unit = Unit::kCount,
        .priority = Column::kOnlyInData,
        .over_ranks = OverRanks::kSum}},
  };
  return columns;
}

table::Report ToReport(const KernelTable& kernels) {
  table::Report report = {.name = std::string(kKernelReport),
                          .totals = KernelTotals().ToTable("totals", std::span(&kernels, 1)),
                          .tables = {KernelColumns().ToTable("rows", kernels.rows)}};
  if (kernels.rows.empty() && kernels.graph_launch_count == 0 && kernels.launch_count > 0) {
    report.notes.push_back(
        StrCat("No kernels were recorded, but ",
               FormatCountOf(kernels.launch_count, "call that launches", "calls that launch"),
               " GPU work: what the GPU did is unknown."));
  } else if (kernels.rows.empty() && kernels.lacks_gpu_events) {
    report.notes.emplace_back(
        "No kernels are here: the trace is cut off, and its GPU events were left out, because "
        "others are missing.");
  } else if (kernels.rows.empty() && !kernels.unread_devices.empty()) {
    report.notes.push_back(
        StrCat("No kernels are here: ", kernels.unread_devices, ", and may be kernels."));
  } else if (kernels.rows.empty()) {
    report.notes.emplace_back(
        "No kernels were recorded: the program launched none, uses no CUDA, or was captured with "
        "--gpu off.");
  }
  report.notes.push_back(KernelTotalsText(kernels));
  if (kernels.graph_launch_count > 0) {
    report.notes.push_back(
        StrCat(FormatCountOf(kernels.graph_launch_count, "CUDA graph", "CUDA graphs"), " took ",
               FormatNs(kernels.graph_launch_ns),
               "; they were recorded as a whole, so their kernels are not in the table"));
  }
  if (kernels.earlier_kernel_count > 0) {
    report.notes.push_back(
        StrCat(FormatCountOf(kernels.earlier_kernel_count, "kernel", "kernels"), " (",
               FormatNs(kernels.earlier_kernel_ns),
               ") ran in the window but were launched before it; they are not in the table"));
  }
  int64_t orphans = 0;
  for (const KernelRow& row : kernels.rows) orphans += row.orphan_count;
  if (orphans > 0) {
    report.notes.push_back(StrCat(FormatCountOf(orphans, "kernel has", "kernels have"),
                                  " no launch call in the capture"));
  }
  return report;
}

absl::StatusOr<KernelTable> KernelsFrom(const table::Report& report) {
  if (report.name != kKernelReport) return table::DoNotFitTogether();
  ASSIGN_OR_RETURN(std::vector<KernelTable> totals, KernelTotals().FromTable(report.totals));
  if (totals.size() != 1) return table::DoNotFitTogether();
  ASSIGN_OR_RETURN(totals.front().rows, table::RowsOf(report, "rows", KernelColumns()));
  return std::move(totals.front());
}

// ---- copies ----

const table::Description<CopyRow>& CopyColumns() {
  static const table::Description<CopyRow> columns = {
      {&CopyRow::name,
       {.key = "name",
        .title = "Copy",
        .doc = "Direction and kinds of memory of a copy or memset; Memcpy Decompress: "
               "decompression by the GPU",
        .flexible = true,
        .over_ranks = OverRanks::kKey}},
      TotalColumn<CopyRow>(),
      CountColumn<CopyRow>("Number of copies"),
      MeanColumn<CopyRow>(3),
      PercentileColumn(&CopyRow::p50_ns, 50, 6),
      PercentileColumn(&CopyRow::p95_ns, 95, 5),
      PercentileColumn(&CopyRow::p99_ns, 99, 7),
      MaxColumn<CopyRow>(4),
      {&CopyRow::bytes,
       {.key = "bytes",
        .title = "Bytes",
        .doc = "Total bytes of the copies whose size is known; of decompression, the "
               "compressed bytes that it reads",
        .unit = Unit::kBytes,
        .nullable = true,
        .over_ranks = OverRanks::kSum}},
      {&CopyRow::min_bytes,
       {.key = "min_bytes",
        .title = "Min bytes",
        .doc = "Size of the smallest copy",
        .unit = Unit::kBytes,
        .priority = Column::kOnlyInData,
        .nullable = true,
        .over_ranks = OverRanks::kMin}},
      {&CopyRow::max_bytes,
       {.key = "max_bytes",
        .title = "Max bytes",
        .doc = "Size of the largest copy",
        .unit = Unit::kBytes,
        .priority = Column::kOnlyInData,
        .nullable = true,
        .over_ranks = OverRanks::kMax}},
      {&CopyRow::bandwidth_gb_per_s,
       {.key = "bandwidth_gb_per_s",
        .title = "GB/s",
        .doc = "Bandwidth; of decompression, of its compressed input; of traces in whole "
               "microseconds, that which they have of each copy",
        .formula = "Bytes / Total",
        .unit = Unit::kGbPerS,
        .nullable = true}},
      {&CopyRow::async_count,
       {.key = "async_count",
        .title = "Async",
        .doc = "Number of asynchronous copies",
        .unit = Unit::kCount,
        .priority = 2,
        .over_ranks = OverRanks::kSum}},
      OpColumn<CopyRow>(1)};
  return columns;
}

table::Report ToReport(const CopyTable& copies) {
  table::Report report = {.name = "copies",
                          .totals = CopyTotals().ToTable("totals", std::span(&copies, 1)),
                          .tables = {CopyColumns().ToTable("rows", copies.rows)}};
  if (copies.rows.empty())
    report.notes.emplace_back("No copies, memsets, or decompressions were recorded.");
  report.notes.push_back(StrCat("Total ", FormatNs(copies.total_ns), "; a copy or memset ran for ",
                                FormatNs(copies.busy_ns)));
  if (copies.earlier_count > 0) {
    report.notes.push_back(
        StrCat(FormatCountOf(copies.earlier_count, "copy or memset", "copies and memsets"), " (",
               FormatNs(copies.earlier_ns),
               ") ran in the window but were launched before it; they are not in the table"));
  }
  return report;
}

// ---- syncs ----

const table::Description<SyncRow>& SyncColumns() {
  static const table::Description<SyncRow> columns = {
      {&SyncRow::name,
       {.key = "name",
        .title = "Wait",
        .doc = "What the host, or a stream, waited for",
        .over_ranks = OverRanks::kKey}},
      {&SyncRow::api,
       {.key = "api",
        .title = "Call",
        .doc = "The CUDA call that waited",
        .priority = 1,
        .over_ranks = OverRanks::kKey}},
      {&SyncRow::op,
       {.key = "op",
        .title = "Op",
        .doc = "The innermost range around the call",
        .flexible = true,
        .over_ranks = OverRanks::kKey}},
      TotalColumn<SyncRow>(),
      CountColumn<SyncRow>("Number of waits"),
      MeanColumn<SyncRow>(3),
      MaxColumn<SyncRow>(2)};
  return columns;
}

table::Report ToReport(const SyncTable& syncs) {
  table::Report report = {.name = "syncs",
                          .totals = SyncTotals().ToTable("totals", std::span(&syncs, 1)),
                          .tables = {SyncColumns().ToTable("rows", syncs.rows)}};
  if (!syncs.has_records && !syncs.has_calls) {
    report.notes.emplace_back(
        "Waits for the GPU are unknown: the capture has neither synchronization records nor CUDA "
        "API calls.");
  } else if (syncs.rows.empty()) {
    report.notes.emplace_back("No waits for the GPU were recorded.");
  } else if (!syncs.has_records) {
    report.notes.emplace_back(
        "The capture has no synchronization records. Times are those of the calls.");
  }
  report.notes.push_back(StrCat("Total ", FormatNs(syncs.total_ns)));
  return report;
}

// ---- idle time ----

const table::Description<IdleRow>& IdleColumns() {
  static const table::Description<IdleRow> columns = {
      DeviceColumn<IdleRow>(),
      {&IdleRow::step,
       {.key = "step",
        .title = "Step",
        .doc = "The step, on the host, from mark to mark; \"all\" is the whole capture",
        .unknown_text = "all",
        .nullable = true,
        .over_ranks = OverRanks::kKey}},
      {&IdleRow::duration_ns,
       {.key = "duration_ns",
        .title = "Duration",
        .doc = "Duration of the step on the host",
        .unit = Unit::kNs}},
      {&IdleRow::busy_ns,
       {.key = "busy_ns",
        .title = "Busy",
        .doc = "Time in which the device ran anything",
        .formula = "length of the union of its work",
        .unit = Unit::kNs}},
      {[](const IdleRow& row) {
         return row.duration_ns == 0
                    ? 0.0
                    : static_cast<double>(row.busy_ns) / static_cast<double>(row.duration_ns);
       },
       {.key = "busy_share",
        .title = "Busy %",
        .doc = "Busy as a share of the duration",
        .formula = "Busy / Duration",
        .unit = Unit::kShare}},
      {&IdleRow::compute_ns,
       {.key = "compute_ns",
        .title = "Compute",
        .doc = "Time in which a non-communication kernel ran",
        .formula = "length of the union of such kernels",
        .unit = Unit::kNs,
        .priority = 3}},
      {&IdleRow::communication_ns,
       {.key = "communication_ns",
        .title = "Comm",
        .doc = "Time in which a communication kernel (NCCL, RCCL) ran",
        .formula = "length of the union of such kernels",
        .unit = Unit::kNs,
        .priority = 5}},
      {&IdleRow::exposed_communication_ns,
       {.key = "exposed_communication_ns",
        .title = "Comm exposed",
        .doc = "Communication time while no compute ran",
        .unit = Unit::kNs,
        .priority = 2}},
      {&IdleRow::copy_ns,
       {.key = "copy_ns",
        .title = "Copies",
        .doc = "Time in which a copy or memset ran",
        .formula = "length of their union",
        .unit = Unit::kNs,
        .priority = 6}},
      {&IdleRow::exposed_copy_ns,
       {.key = "exposed_copy_ns",
        .title = "Copies exposed",
        .doc = "Copy time while no kernel ran",
        .unit = Unit::kNs,
        .priority = 4}},
      {&IdleRow::idle_ns,
       {.key = "idle_ns",
        .title = "Idle",
        .doc = "Time in which nothing ran",
        .formula = "Duration - Busy",
        .unit = Unit::kNs,
        .priority = 1}},
      {&IdleRow::gap_count,
       {.key = "gap_count",
        .title = "Gaps",
        .doc = "Gaps of the GPU that begin in it: times between two activities in which no stream "
               "did anything. Time before the first and after the last work is idle, but no gap",
        .unit = Unit::kCount,
        .priority = 6}},
      HostWaitColumn<IdleRow>(),
      KernelWaitColumn<IdleRow>(),
      OtherIdleColumn<IdleRow>()};
  return columns;
}

const table::Description<StreamIdleRow>& StreamIdleColumns() {
  static const table::Description<StreamIdleRow> columns = {
      DeviceColumn<StreamIdleRow>(),
      {&StreamIdleRow::context,
       {.key = "context",
        .title = "Context",
        .doc = "CUDA context of the stream",
        .priority = Column::kOnlyInData,
        .over_ranks = OverRanks::kKey}},
      {&StreamIdleRow::stream,
       {.key = "stream",
        .title = "Stream",
        .doc = "The stream's number",
        .over_ranks = OverRanks::kKey}},
      {&StreamIdleRow::activity_count,
       {.key = "activity_count",
        .title = "Ran",
        .doc = "Kernels, copies, memsets, and graphs that ran on the stream",
        .unit = Unit::kCount,
        .priority = 2}},
      {&StreamIdleRow::busy_ns,
       {.key = "busy_ns",
        .title = "Busy",
        .doc = "Time in which the stream ran anything",
        .unit = Unit::kNs}},
      {&StreamIdleRow::gap_count,
       {.key = "gap_count",
        .title = "Gaps",
        .doc = "Number of idle gaps",
        .unit = Unit::kCount,
        .priority = 1}},
      {&StreamIdleRow::idle_ns,
       {.key = "idle_ns",
        .title = "Idle",
        .doc = "Idle time between the first and the last activity of the stream",
        .unit = Unit::kNs}},
      HostWaitColumn<StreamIdleRow>(),
      KernelWaitColumn<StreamIdleRow>(),
      OtherIdleColumn<StreamIdleRow>()};
  return columns;
}

table::Report ToReport(const IdleTable& idle) {
  table::Report report = {.name = "idle",
                          .tables = {IdleColumns().ToTable("rows", idle.rows),
                                     StreamIdleColumns().ToTable("streams", idle.streams)}};
  if (idle.rows.empty()) {
    report.notes.push_back(
        idle.unread_devices.empty()
            ? "No GPU work was recorded."
            : StrCat("When a GPU was idle is unknown: ", idle.unread_devices, "."));
  }
  if (idle.unknown_ns > 0) {
    report.notes.push_back(StrCat("The first ", FormatNs(idle.unknown_ns),
                                  " of the window are left out: a GPU was doing work that was "
                                  "launched before the recording began"));
  }
  return report;
}

}  // namespace profd::report
