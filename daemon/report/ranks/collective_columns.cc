// The columns of the collectives of one capture. profctl reads them to compare ranks.
#include <algorithm>
#include <string>

#include "daemon/base/status_macros.h"
#include "daemon/base/table/description.h"
#include "daemon/report/ranks/collectives.h"

namespace profd::report {
namespace {

using table::Unit;

const table::Description<CollectiveTable>& CollectiveTotals() {
  static const table::Description<CollectiveTable> totals = {
      {&CollectiveTable::left_out_count,
       {.key = "left_out_count",
        .title = "Left out",
        .doc = "Later collectives, left out by the limit",
        .unit = Unit::kCount}}};
  return totals;
}

const table::Description<Communicator>& CommunicatorColumns() {
  static const table::Description<Communicator> columns = {
      {&Communicator::number,
       {.key = "number",
        .title = "Communicator",
        .doc = "Number of the communicator in the table of collectives"}},
      {&Communicator::name,
       {.key = "name",
        .title = "Name",
        .doc = "Description that the program gave the process group; empty: none, or unknown"}},
      {&Communicator::id,
       {.key = "id",
        .title = "Group",
        .doc = "Name that torch gave the process group; empty: unknown"}},
      {&Communicator::size,
       {.key = "size", .title = "Ranks", .doc = "Ranks that take part; 0: not known"}},
      {&Communicator::first_rank,
       {.key = "first_rank",
        .title = "First rank",
        .doc = "Lowest rank that takes part",
        .nullable = true}},
      {&Communicator::rank_stride,
       {.key = "rank_stride",
        .title = "Stride",
        .doc = "Distance between consecutive ranks",
        .nullable = true}}};
  return columns;
}

const table::Description<CollectiveRow>& CollectiveColumns() {
  static const table::Description<CollectiveRow> columns = {
      {&CollectiveRow::kind,
       {.key = "kind", .title = "Collective", .doc = "Operation; other: unknown"}},
      {&CollectiveRow::communicator,
       {.key = "communicator",
        .title = "Communicator",
        .doc = "Which ranks take part: the number of a row in the communicators' table"}},
      {&CollectiveRow::sequence,
       {.key = "sequence",
        .title = "Sequence",
        .doc = "Sequence number in the communicator",
        .nullable = true}},
      {&CollectiveRow::step,
       {.key = "step",
        .title = "Step",
        .doc = "The step that it ended in; on the host, the one that it began in",
        .nullable = true}},
      {&CollectiveRow::start_ns,
       {.key = "start_ns",
        .title = "Start",
        .doc = "On the device, if it ran there; else of the range on the host",
        .unit = Unit::kNs}},
      {&CollectiveRow::duration_ns,
       {.key = "duration_ns",
        .title = "Duration",
        .doc = "From its start to its end",
        .formula = "end - start",
        .unit = Unit::kNs}},
      {&CollectiveRow::exposed_ns,
       {.key = "exposed_ns",
        .title = "Exposed",
        .doc = "Part that no compute overlapped",
        .unit = Unit::kNs}},
      {&CollectiveRow::elements,
       {.key = "elements",
        .title = "Elements",
        .doc = "Elements of the first input",
        .unit = Unit::kCount,
        .nullable = true}},
      {&CollectiveRow::bytes,
       {.key = "bytes",
        .title = "Bytes",
        .doc = "Bytes of the first input",
        .unit = Unit::kBytes,
        .nullable = true}},
      {&CollectiveRow::on_device,
       {.key = "on_device", .title = "On device", .doc = "Whether kernels of NCCL or RCCL ran it"}},
      {&CollectiveRow::has_completion,
       {.key = "has_completion",
        .title = "Completed",
        .doc = "Whether its end is known; if not, only the call that issued it is"}}};
  return columns;
}

const table::Description<StepWorkRow>& StepWorkColumns() {
  static const table::Description<StepWorkRow> columns = {
      {&StepWorkRow::step,
       {.key = "step",
        .title = "Step",
        .doc = "The step; not known: the capture has none, and this is one of its windows",
        .nullable = true}},
      {&StepWorkRow::duration_ns,
       {.key = "duration_ns", .title = "Duration", .doc = "Of the step", .unit = Unit::kNs}},
      {&StepWorkRow::exposed_ns,
       {.key = "exposed_ns",
        .title = "Exposed",
        .doc = "Part of the step in collectives that nothing overlapped",
        .unit = Unit::kNs}},
      {&StepWorkRow::cpu_wait_ns,
       {.key = "cpu_wait_ns",
        .title = "CPU wait",
        .doc = "How long the threads that work on the step waited for a CPU, with a GPU at most as "
               "long as that idled; null: not known",
        .unit = Unit::kNs,
        .nullable = true}}};
  return columns;
}

absl::Status DoNotFit() {
  return absl::DataLossError("the list of collectives does not fit together");
}

// nullptr becomes an empty table: an older daemon may not know it.
template <typename Row>
absl::StatusOr<std::vector<Row>> RowsIfAny(const table::Report& report, std::string_view key,
                                           const table::Description<Row>& description) {
  const table::Table* const rows = report.Find(key);
  if (rows == nullptr) return std::vector<Row>();
  return description.FromTable(*rows);
}

}  // namespace

void ForgetImpossibleCpuWaits(std::vector<StepWorkRow>& steps) {
  for (StepWorkRow& step : steps) {
    if (step.cpu_wait_ns < 0 || step.cpu_wait_ns > step.duration_ns) step.cpu_wait_ns = -1;
  }
}

table::Report ToReport(const CollectiveTable& collectives) {
  return {.name = "collectives",
          .totals = CollectiveTotals().ToTable("totals", std::span(&collectives, 1)),
          .tables = {CollectiveColumns().ToTable("rows", collectives.rows),
                     CommunicatorColumns().ToTable("communicators", collectives.communicators),
                     StepWorkColumns().ToTable("steps", collectives.steps)}};
}

absl::StatusOr<CollectiveTable> CollectivesFrom(const table::Report& report) {
  CollectiveTable collectives;
  const table::Table* const rows = report.Find("rows");
  if (report.name != "collectives" || rows == nullptr) return DoNotFit();
  ASSIGN_OR_RETURN(std::vector<CollectiveTable> totals,
                   CollectiveTotals().FromTable(report.totals));
  if (totals.size() == 1) collectives.left_out_count = totals.front().left_out_count;
  ASSIGN_OR_RETURN(collectives.rows, CollectiveColumns().FromTable(*rows));
  ASSIGN_OR_RETURN(collectives.communicators,
                   RowsIfAny(report, "communicators", CommunicatorColumns()));
  ASSIGN_OR_RETURN(collectives.steps, RowsIfAny(report, "steps", StepWorkColumns()));
  const bool fits = std::ranges::all_of(collectives.rows, [&](const CollectiveRow& row) {
    return row.communicator < collectives.communicators.size() && row.duration_ns >= 0 &&
           row.exposed_ns >= 0;
  });
  if (!fits) return DoNotFit();
  ForgetImpossibleCpuWaits(collectives.steps);
  return collectives;
}

}  // namespace profd::report
