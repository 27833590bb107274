// The columns of the operator table, and what the report says below it.
#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/description.h"
#include "daemon/base/text.h"
#include "daemon/base/units.h"
#include "daemon/report/ops/profile.h"

namespace profd::report {
namespace {

using table::Column;
using table::OverRanks;
using table::Unit;
using OpField = table::Field<OpProfileRow>;

double MeanOf(int64_t total_ns, const OpProfileRow& row) {
  return row.calls > 0 ? static_cast<double>(total_ns) / static_cast<double>(row.calls) : 0;
}
int64_t AverageNs(const OpProfileRow& row) {
  return static_cast<int64_t>(MeanOf(row.cpu_total_ns, row));
}
int64_t DeviceAverageNs(const OpProfileRow& row) {
  return static_cast<int64_t>(MeanOf(row.device_total_ns, row));
}

// What identifies a row. Columns that no row has are not shown.
OpField KeyColumn(std::string OpProfileRow::*member, const char* key, const char* title,
                  const char* doc, int priority = 0) {
  return {member,
          {.key = key,
           .title = title,
           .doc = doc,
           .priority = priority,
           .only_if_set = true,
           .over_ranks = OverRanks::kKey}};
}

OpField PercentileColumn(int64_t OpProfileRow::*member, int percent, int priority) {
  return {member,
          {.key = StrCat("p", percent, "_ns"),
           .title = StrCat("CPU p", percent),
           .doc = StrCat("The duration that ", percent, " % of the calls do not exceed"),
           .formula = StrCat("the ceil(0.", percent, " n)th of the n durations, shortest first"),
           .unit = Unit::kNs,
           .priority = priority,
           .nullable = true,
           .only_if_set = true}};
}

OpField DeviceTimeColumn(int64_t OpProfileRow::*member, Column column) {
  column.unit = Unit::kNs;
  column.only_if_set = true;
  column.over_ranks = OverRanks::kSum;
  return {member, std::move(column)};
}

OpField MemoryColumn(int64_t OpProfileRow::*member, Column column) {
  column.unit = Unit::kBytes;
  column.only_if_set = true;
  column.over_ranks = OverRanks::kSum;
  return {member, std::move(column)};
}

const table::Description<OpProfileRow>& OpColumns() {
  static const table::Description<OpProfileRow> columns = {
      {&OpProfileRow::name,
       {.key = "name",
        .title = "Name",
        .doc = "Name of the range, operator, or CUDA call",
        .flexible = true,
        .over_ranks = OverRanks::kKey}},
      KeyColumn(&OpProfileRow::rank, "rank", "Rank", "Rank, from the program's metadata"),
      KeyColumn(&OpProfileRow::module, "module", "Module",
                "The innermost torch.nn.Module around the row's calls, on their thread"),
      KeyColumn(
          &OpProfileRow::source, "source", "Source",
          "The line of Python that the row's calls came from: the innermost one that is not in "
          "torch or in Python's own library"),
      KeyColumn(&OpProfileRow::stack, "stack", "Stack",
                "The lines of Python that the row's calls came from, the innermost first"),
      KeyColumn(
          &OpProfileRow::arguments, "arguments", "Arguments",
          "The key-value arguments of the ranges around the row's calls (annotate(\"request\", "
          "id=17)), on their thread: the outermost first, of one key the innermost. Those "
          "of asyncio blocks that overlap do not count"),
      KeyColumn(&OpProfileRow::thread, "thread", "Thread",
                "The thread that the row's calls began on: its number and name"),
      {&OpProfileRow::step,
       {.key = "step",
        .title = "Step",
        .doc = "The step that the row's calls began in",
        .nullable = true,
        .only_if_set = true,
        .over_ranks = OverRanks::kKey}},
      {&OpProfileRow::dims,
       {.key = "dims",
        .title = "Input shapes",
        .doc = "Sizes of each input; [] where it is not a tensor",
        .only_if_set = true,
        .max_width = 48,
        .over_ranks = OverRanks::kKey}},
      {&OpProfileRow::types,
       {.key = "types",
        .title = "Input types",
        .doc = "Type of each input",
        .priority = 16,
        .only_if_set = true,
        .max_width = 48,
        .over_ranks = OverRanks::kKey}},
      DeviceTimeColumn(
          &OpProfileRow::busy_device_ns,
          {.key = "busy_device_ns",
           .title = "CUDA busy",
           .doc = "Time in which the GPUs ran work launched by the row or its children; every "
                  "moment counts once, however many streams ran",
           .formula = "length of the union over streams of [start, end) of its GPU work; devices "
                      "added",
           .priority = 3}),
      {&OpProfileRow::share,
       {.key = "share",
        .title = "Busy %",
        .doc = "CUDA busy as a share of all time in which the GPUs were busy; without a GPU, Self "
               "CPU %",
        .formula = "CUDA busy / union over all GPU work",
        .unit = Unit::kShare,
        .nullable = true,
        .only_if_set = true}},
      DeviceTimeColumn(
          &OpProfileRow::self_device_ns,
          {.key = "self_device_ns",
           .title = "Self CUDA",
           .doc = "GPU time of the work that the row itself launched, whenever it ran; parallel "
                  "streams count separately",
           .formula = "sum of end - start of kernels, copies, and memsets whose CUDA call is in "
                      "the row but in none of its children"}),
      {&OpProfileRow::self_device_share,
       {.key = "self_device_share",
        .title = "Self CUDA %",
        .doc = "Self CUDA as a share of all GPU work",
        .formula = "Self CUDA / sum of end - start of all GPU work",
        .unit = Unit::kShare,
        .priority = 5,
        .nullable = true,
        .only_if_set = true}},
      DeviceTimeColumn(&OpProfileRow::device_total_ns,
                       {.key = "device_total_ns",
                        .title = "CUDA total",
                        .doc = "Self CUDA of the row and its children",
                        .formula = "Self CUDA + sum of CUDA total of direct children",
                        .priority = 4}),
      {&DeviceAverageNs,
       {.key = "device_average_ns",
        .title = "CUDA time avg",
        .doc = "Mean CUDA total per call",
        .formula = "CUDA total / # of Calls",
        .unit = Unit::kNs,
        .priority = Column::kOnlyInData}},
      {&OpProfileRow::self_cpu_share,
       {.key = "self_cpu_share",
        .title = "Self CPU %",
        .doc = "Self CPU as a share of that of all rows",
        .formula = "Self CPU / sum of Self CPU",
        .unit = Unit::kShare,
        .priority = 6}},
      {&OpProfileRow::self_cpu_ns,
       {.key = "self_cpu_ns",
        .title = "Self CPU",
        .doc = "CPU total minus the time of the row's children (ranges and CUDA calls on the same "
               "thread); of ranges that overlap without nesting, each instant counts for the one "
               "that began last",
        .formula = "CPU total - sum of CPU total of direct children",
        .unit = Unit::kNs,
        .over_ranks = OverRanks::kSum}},
      {&OpProfileRow::cpu_total_ns,
       {.key = "cpu_total_ns",
        .title = "CPU total",
        .doc = "Time from begin to end, summed over calls; one inside another of the same name "
               "counts twice, unless it is its only child (a redispatch)",
        .formula = "sum of end - begin",
        .unit = Unit::kNs,
        .priority = 2,
        .over_ranks = OverRanks::kSum}},
      {&AverageNs,
       {.key = "average_ns",
        .title = "CPU time avg",
        .doc = "Mean CPU total per call",
        .formula = "CPU total / # of Calls",
        .unit = Unit::kNs,
        .priority = 7}},
      {&OpProfileRow::min_ns,
       {.key = "min_ns",
        .title = "CPU min",
        .doc = "The shortest call",
        .formula = "min of end - begin",
        .unit = Unit::kNs,
        .priority = Column::kOnlyInData,
        .over_ranks = OverRanks::kMin}},
      PercentileColumn(&OpProfileRow::p50_ns, 50, 8),
      PercentileColumn(&OpProfileRow::p95_ns, 95, 9),
      PercentileColumn(&OpProfileRow::p99_ns, 99, 11),
      {&OpProfileRow::max_ns,
       {.key = "max_ns",
        .title = "CPU max",
        .doc = "The longest call",
        .formula = "max of end - begin",
        .unit = Unit::kNs,
        .priority = 10,
        .over_ranks = OverRanks::kMax}},
      {&OpProfileRow::flops,
       {.key = "flops",
        .title = "GFLOP",
        .doc = "Floating-point operations, in 1e9, of matrix products, convolutions and "
               "attention, by the sizes of their inputs; a multiplication and an addition are two. "
               "The "
               "addition of a bias is not counted",
        .formula =
            "m x k by k x n: 2 m n k; convolution: 2 outputs x weights of an output "
            "channel; attention: 2 b h q k (d + dv), backward 2 b h q k (3 d + 2 dv), with a "
            "causal mask half of both",
        .unit = Unit::kOperations,
        .priority = 13,
        .nullable = true,
        .only_if_set = true,
        .over_ranks = OverRanks::kSum}},
      {&OpProfileRow::flops_per_s,
       {.key = "flops_per_s",
        .title = "TFLOP/s",
        .doc = "Their rate, if the sizes of every call are known",
        .formula = "FLOPs / CUDA busy; without a GPU FLOPs / CPU total",
        .unit = Unit::kOperationsPerS,
        .priority = 11,
        .nullable = true,
        .only_if_set = true}},
      {&OpProfileRow::peak_share,
       {.key = "peak_share",
        .title = "Peak %",
        .doc = "TFLOP/s as a share of the GPU's published dense peak for the data type; fp32 "
               "above the fp32 peak counts as tf32",
        .formula = "TFLOP/s / peak of the device and type",
        .unit = Unit::kRatio,
        .priority = 12,
        .nullable = true,
        .only_if_set = true}},
      {&OpProfileRow::dtype,
       {.key = "dtype",
        .title = "Type",
        .doc = "Data type whose peak rate is 100% in Peak %",
        .priority = 12,
        .only_if_set = true}},
      {&OpProfileRow::top_source,
       {.key = "top_source",
        .title = "Top source",
        .doc = "The line of Python that most of the row's calls came from, without its folder, and "
               "how many other lines did; `--group-by source` has all of them",
        .priority = 9,
        .only_if_set = true,
        .max_width = 40}},
      MemoryColumn(&OpProfileRow::cpu_memory_bytes,
                   {.key = "cpu_memory_bytes",
                    .title = "CPU Mem",
                    .doc = "CPU memory allocated minus freed between begin and end, on the thread",
                    .formula = "sum of allocations - sum of frees",
                    .priority = 18}),
      MemoryColumn(&OpProfileRow::self_cpu_memory_bytes,
                   {.key = "self_cpu_memory_bytes",
                    .title = "Self CPU Mem",
                    .doc = "CPU Mem without that of direct children",
                    .formula = "CPU Mem - sum of CPU Mem of direct children",
                    .priority = 17}),
      MemoryColumn(&OpProfileRow::device_memory_bytes,
                   {.key = "device_memory_bytes",
                    .title = "CUDA Mem",
                    .doc = "Like CPU Mem, for GPU memory",
                    .formula = "sum of allocations - sum of frees",
                    .priority = 15}),
      MemoryColumn(&OpProfileRow::self_device_memory_bytes,
                   {.key = "self_device_memory_bytes",
                    .title = "Self CUDA Mem",
                    .doc = "CUDA Mem without that of direct children",
                    .formula = "CUDA Mem - sum of CUDA Mem of direct children",
                    .priority = 14}),
      {&OpProfileRow::calls,
       {.key = "calls",
        .title = "# of Calls",
        .doc = "Number of calls",
        .unit = Unit::kCount,
        .over_ranks = OverRanks::kSum}},
      {&OpProfileRow::overlapping_calls,
       {.key = "overlapping_calls",
        .title = "Overlapping",
        .doc = "Calls that overlap other ranges of their thread without nesting: asyncio tasks, "
               "NVTX ranges with a start and an end",
        .unit = Unit::kCount,
        .priority = Column::kOnlyInData,
        .over_ranks = OverRanks::kSum}},
      {&OpProfileRow::calls_per_step,
       {.key = "calls_per_step",
        .title = "Calls/step",
        .doc = "Mean number of calls per step",
        .formula = "calls that began in a step / steps",
        .priority = 7,
        .nullable = true,
        .only_if_set = true}},
      {&OpProfileRow::first_step,
       {.key = "first_step",
        .title = "First step",
        .doc = "How the first step of the window differs, as with warm-up: \"only\" ran in no "
               "other step, \"slower\" took more than twice its average of the later steps",
        .formula = "slower: CPU total in the first step > 2 x CPU total in later steps / later "
                   "steps",
        .priority = 1,
        .only_if_set = true}},
  };
  return columns;
}

const table::Description<OpProfile>& OpTotals() {
  static const table::Description<OpProfile> totals = {
      {&OpProfile::self_cpu_total_ns,
       {.key = "self_cpu_total_ns",
        .title = "Self CPU",
        .doc = "Self CPU of all rows",
        .unit = Unit::kNs}},
      {&OpProfile::has_memory,
       {.key = "has_memory",
        .title = "Memory",
        .doc = "Whether the capture has events of allocators"}},
      {&OpProfile::has_device,
       {.key = "has_device", .title = "CUDA", .doc = "Whether the capture has work of GPUs"}},
      {&OpProfile::self_device_total_ns,
       {.key = "self_device_total_ns",
        .title = "Self CUDA",
        .doc = "Time of all GPU work, including that of no row",
        .formula = "sum of end - start",
        .unit = Unit::kNs}},
      {&OpProfile::unattributed_device_ns,
       {.key = "unattributed_device_ns",
        .title = "Of no row",
        .doc = "GPU work that was launched outside any range or by no call in the capture",
        .unit = Unit::kNs}},
      {&OpProfile::busy_device_ns,
       {.key = "busy_device_ns",
        .title = "CUDA busy",
        .doc = "Time in which the GPUs ran work",
        .formula = "length of the union over streams; devices added",
        .unit = Unit::kNs,
        .nullable = true}},
      {&OpProfile::step_count,
       {.key = "step_count",
        .title = "Steps",
        .doc = "Steps in the window; 1 with --step",
        .unit = Unit::kCount}},
      {&OpProfile::frame_row_count,
       {.key = "frame_row_count",
        .title = "Python functions",
        .doc = "Python functions, which are not rows",
        .unit = Unit::kCount}},
      {&OpProfile::is_simulated,
       {.key = "is_simulated", .title = "Simulated", .doc = "Whether the GPU is simulated"}},
      {&OpProfile::overlaps_add_up,
       {.key = "overlaps_add_up",
        .title = "Overlaps add up",
        .doc = "Whether self times of ranges that overlap without nesting are added up, because "
               "there are too many ranges to share out the time"}},
  };
  return totals;
}

// Names the rows with most such calls; empty: there are none.
std::string OverlapsText(const OpProfile& profile) {
  constexpr size_t kMostNames = 3;
  constexpr size_t kMostNameBytes = 40;
  std::vector<const OpProfileRow*> rows;
  int64_t call_count = 0;
  for (const OpProfileRow& row : profile.rows) {
    if (row.overlapping_calls == 0) continue;
    call_count += row.overlapping_calls;
    const auto has_name = [&row](const OpProfileRow* other) { return other->name == row.name; };
    if (std::ranges::none_of(rows, has_name)) rows.push_back(&row);
  }
  if (rows.empty()) return "";
  std::ranges::stable_sort(rows, std::greater<>(), &OpProfileRow::overlapping_calls);
  std::string names;
  for (size_t i = 0; i < std::min(rows.size(), kMostNames); ++i) {
    StrAppend(&names, i == 0 ? "" : ", ", ForDisplay(rows[i]->name, kMostNameBytes));
  }
  if (rows.size() > kMostNames) StrAppend(&names, ", ...");
  return StrCat(FormatCountOf(call_count, "call overlaps", "calls overlap"),
                " others of the same thread without nesting (", names,
                profile.overlaps_add_up
                    ? "): there are too many ranges to share out their time, so that self times "
                      "add up to more than passed"
                    : "): each instant is self time of the range that began last");
}

std::string DeviceTotalsText(const OpProfile& profile) {
  std::string text = StrCat("Self CUDA time total: ", FormatNs(profile.self_device_total_ns),
                            profile.is_simulated ? " (simulated)" : "");
  if (profile.unattributed_device_ns > 0) {
    StrAppend(&text, ", of which ", FormatNs(profile.unattributed_device_ns),
              " launched outside any range or by no call in the capture");
  }
  if (profile.busy_device_ns >= 0) {
    StrAppend(&text, "; CUDA busy: ", FormatNs(profile.busy_device_ns));
  }
  return text;
}

constexpr std::string_view kNoRanges =
    "No ranges were recorded. Annotate the program (`with profd.annotate(...)`, PROFD_RANGE) "
    "to see what its steps are made of.";
constexpr std::string_view kOperatorsOff =
    "No ranges were recorded: PyTorch's operators were switched off (--ops off). Trace again with "
    "--ops names or --ops shapes.";

}  // namespace

table::Report ToReport(const OpProfile& profile) {
  table::Report report = {.name = "ops",
                          .totals = OpTotals().ToTable("totals", std::span(&profile, 1)),
                          .tables = {OpColumns().ToTable("rows", profile.rows)}};
  if (profile.rows.empty()) {
    report.notes.emplace_back(profile.operators_are_off ? kOperatorsOff : kNoRanges);
  }
  if (profile.frame_row_count > 0) {
    report.notes.push_back(
        StrCat("(", FormatCountOf(profile.frame_row_count, "Python function", "Python functions"),
               profile.frame_row_count == 1 ? " is" : " are", " around these and not shown)"));
  }
  if (std::string text = OverlapsText(profile); !text.empty()) {
    report.notes.push_back(std::move(text));
  }
  report.notes.push_back(StrCat("Self CPU time total: ", FormatNs(profile.self_cpu_total_ns)));
  if (profile.has_device) report.notes.push_back(DeviceTotalsText(profile));
  return report;
}

absl::StatusOr<OpProfile> OpProfileOf(const table::Report& report) {
  const table::Table* const rows = report.Find("rows");
  if (report.name != "ops" || report.version != table::Report().version || rows == nullptr) {
    return absl::DataLossError("the answer is not an operator table that this version reads");
  }
  ASSIGN_OR_RETURN(std::vector<OpProfile> profile, OpTotals().FromTable(report.totals));
  if (profile.size() != 1) return absl::DataLossError("the operator table has no totals");
  ASSIGN_OR_RETURN(profile.front().rows, OpColumns().FromTable(*rows));
  return std::move(profile.front());
}

}  // namespace profd::report
