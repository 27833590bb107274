// The columns of torch.profiler's operator table.
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/description.h"
#include "daemon/report/ops/torch_table.h"

namespace profd::report {
namespace {

using table::Column;
using table::OverRanks;
using table::Unit;
using TorchField = table::Field<TorchRow>;

TorchField KeyColumn(auto TorchRow::*member, Column column) {
  column.over_ranks = OverRanks::kKey;
  return {member, std::move(column)};
}

TorchField SumColumn(int64_t TorchRow::*member, Unit unit, Column column) {
  column.unit = unit;
  column.only_if_set = true;
  column.over_ranks = OverRanks::kSum;
  return {member, std::move(column)};
}

// What torch prints: its double, from which all digits of its text follow.
TorchField UsColumn(auto source, Column column) {
  column.priority = Column::kOnlyInData;
  return {source, std::move(column)};
}

const table::Description<TorchRow>& TorchColumns() {
  static const table::Description<TorchRow> columns = {
      KeyColumn(&TorchRow::name,
                {.key = "name",
                 .title = "Name",
                 .doc = "Name of the operator, annotation, CUDA call, kernel, or copy; steps are "
                        "ProfilerStep*",
                 .flexible = true}),
      KeyColumn(&TorchRow::shapes,
                {.key = "shapes",
                 .title = "Input Shapes",
                 .doc = "Sizes of each input as Python writes them, with --group-by input_shape",
                 .only_if_set = true,
                 .max_width = 48}),
      KeyColumn(&TorchRow::is_device,
                {.key = "is_device",
                 .title = "On GPU",
                 .doc = "Whether the row is work of GPUs: a kernel, a copy, or an annotation there",
                 .only_if_set = true}),
      KeyColumn(&TorchRow::is_annotation,
                {.key = "is_annotation",
                 .title = "Annotation on GPU",
                 .doc = "Whether the row is the time that an annotation kept a stream busy",
                 .only_if_set = true}),
      SumColumn(&TorchRow::calls, Unit::kCount,
                {.key = "calls",
                 .title = "# of Calls",
                 .doc = "Number of calls as torch counts them: one that is the only one inside "
                        "another of its name is not counted"}),
      SumColumn(&TorchRow::self_cpu_ns, Unit::kNs,
                {.key = "self_cpu_ns",
                 .title = "Self CPU",
                 .doc = "As torch nests events, by time alone: CPU total without that of direct "
                        "children. May be negative",
                 .formula = "CPU total - sum of CPU total of direct children"}),
      SumColumn(&TorchRow::cpu_total_ns, Unit::kNs,
                {.key = "cpu_total_ns",
                 .title = "CPU total",
                 .doc = "As torch counts calls: time from begin to end, summed",
                 .formula = "sum of end - begin"}),
      SumColumn(&TorchRow::self_device_ns, Unit::kNs,
                {.key = "self_device_ns",
                 .title = "Self CUDA",
                 .doc = "As torch attributes it: GPU time of work launched while the row was the "
                        "innermost operator; of a row on GPUs, its own time",
                 .formula = "sum of end - start"}),
      SumColumn(&TorchRow::device_total_ns, Unit::kNs,
                {.key = "device_total_ns",
                 .title = "CUDA total",
                 .doc = "Self CUDA of the row and, as torch nests events, its children",
                 .formula = "Self CUDA + sum of CUDA total of direct children"}),
      UsColumn(&TorchRow::self_cpu_us,
               {.key = "self_cpu_us",
                .title = "Self CPU in us",
                .doc = "Self CPU in microseconds, in torch's floating point, as its table prints "
                       "it"}),
      UsColumn(&TorchRow::cpu_total_us,
               {.key = "cpu_total_us",
                .title = "CPU total in us",
                .doc = "CPU total in microseconds, in torch's floating point"}),
      UsColumn([](const TorchRow& row) { return AverageUs(row.cpu_total_us, row.calls); },
               {.key = "average_us",
                .title = "CPU time avg in us",
                .doc = "Mean CPU total per call, in microseconds, in torch's floating point",
                .formula = "CPU total / # of Calls"}),
      UsColumn(&TorchRow::self_device_us,
               {.key = "self_device_us",
                .title = "Self CUDA in us",
                .doc = "Self CUDA in microseconds, in torch's floating point"}),
      UsColumn(&TorchRow::device_total_us,
               {.key = "device_total_us",
                .title = "CUDA total in us",
                .doc = "CUDA total in microseconds, in torch's floating point"}),
      UsColumn([](const TorchRow& row) { return AverageUs(row.device_total_us, row.calls); },
               {.key = "device_average_us",
                .title = "CUDA time avg in us",
                .doc = "Mean CUDA total per call, in microseconds, in torch's floating point",
                .formula = "CUDA total / # of Calls"}),
      SumColumn(&TorchRow::cpu_memory_bytes, Unit::kBytes,
                {.key = "cpu_memory_bytes",
                 .title = "CPU Mem",
                 .doc = "CPU memory allocated minus freed between begin and end, on any thread",
                 .formula = "sum of allocations - sum of frees"}),
      SumColumn(&TorchRow::self_cpu_memory_bytes, Unit::kBytes,
                {.key = "self_cpu_memory_bytes",
                 .title = "Self CPU Mem",
                 .doc = "CPU Mem without that of the direct children that torch sees",
                 .formula = "CPU Mem - sum of CPU Mem of direct children"}),
      SumColumn(&TorchRow::device_memory_bytes, Unit::kBytes,
                {.key = "device_memory_bytes",
                 .title = "CUDA Mem",
                 .doc = "GPU memory allocated minus freed between begin and end, on any thread",
                 .formula = "sum of allocations - sum of frees"}),
      SumColumn(&TorchRow::self_device_memory_bytes, Unit::kBytes,
                {.key = "self_device_memory_bytes",
                 .title = "Self CUDA Mem",
                 .doc = "CUDA Mem without that of the direct children that torch sees",
                 .formula = "CUDA Mem - sum of CUDA Mem of direct children"})};
  return columns;
}

constexpr char kRelease[] = "torch";

const table::Description<TorchTable>& TorchTotals() {
  static const table::Description<TorchTable> totals = {
      {[](const TorchTable& table) {
         return StrCat(table.version.major, ".", table.version.minor);
       },
       {.key = kRelease,
        .title = "PyTorch",
        .doc = "The release of PyTorch whose table it is: releases count differently"}},
      {&TorchTable::self_cpu_total_ns,
       {.key = "self_cpu_total_ns",
        .title = "Self CPU",
        .doc = "Self CPU of all rows",
        .unit = Unit::kNs}},
      {&TorchTable::self_device_total_ns,
       {.key = "self_device_total_ns",
        .title = "Self CUDA",
        .doc = "Self CUDA of the rows on GPUs; before PyTorch 2.5 with that of annotations",
        .unit = Unit::kNs}},
      {&TorchTable::has_memory,
       {.key = "has_memory",
        .title = "Memory",
        .doc = "Whether the capture has events of allocators"}}};
  return totals;
}

}  // namespace

table::Report ToReport(const TorchTable& torch) {
  return {.name = std::string(kTorchReport),
          .totals = TorchTotals().ToTable("totals", std::span(&torch, 1)),
          .tables = {TorchColumns().ToTable("rows", torch.rows)}};
}

absl::StatusOr<TorchTable> TorchTableOf(const table::Report& report) {
  const size_t at = report.totals.Find(kRelease);
  if (report.name != kTorchReport || report.version != table::Report().version ||
      at == table::Table::npos) {
    return absl::DataLossError("the answer is not a table of torch's that this version reads");
  }
  ASSIGN_OR_RETURN(std::vector<TorchTable> torch, TorchTotals().FromTable(report.totals));
  const auto* const releases = std::get_if<std::vector<std::string>>(&report.totals.cells[at]);
  if (torch.size() != 1 || releases == nullptr) return table::DoNotFitTogether();
  const std::optional<TorchVersion> version = TorchVersionFromString(releases->front());
  if (!version.has_value()) return absl::DataLossError("the table is of no release of PyTorch");
  torch.front().version = *version;
  ASSIGN_OR_RETURN(torch.front().rows, table::RowsOf(report, "rows", TorchColumns()));
  return std::move(torch.front());
}

}  // namespace profd::report
