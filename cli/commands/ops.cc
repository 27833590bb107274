#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "cli/base/row_limit.h"
#include "cli/captures/capture_set.h"
#include "cli/captures/one_run.h"
#include "cli/commands/command.h"
#include "cli/commands/plain_report.h"
#include "cli/render/capture.h"
#include "cli/render/group_reports.h"
#include "cli/render/report_tables.h"
#include "cli/render/torch.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/json.h"
#include "daemon/base/text.h"
#include "daemon/report/ops/profile.h"
#include "daemon/report/ops/torch_table.h"
#include "daemon/report/reports.h"

namespace profd::cli {
namespace {

constexpr std::string_view kByRank = "rank";
constexpr int64_t kTorchRowsForPeople = 100;  // As many as torch prints.

// torch's name of a column to sort by, and what it is in our table and in torch's.
struct TorchSortKey {
  std::string_view torch;
  std::string_view ops;
  std::string_view ops_torch;
};
constexpr std::array<TorchSortKey, 16> kTorchSortKeys = {{
    {"self_cpu_time_total", "self_cpu", "self_cpu_us"},
    {"cpu_time_total", "cpu_total", "cpu_total_us"},
    {"cpu_time", "average", "average_us"},
    {"count", "calls", "calls"},
    {"self_device_time_total", "self_device", "self_device_us"},
    {"self_cuda_time_total", "self_device", "self_device_us"},
    {"device_time_total", "device_total", "device_total_us"},
    {"cuda_time_total", "device_total", "device_total_us"},
    {"device_time", "device_average", "device_average_us"},
    {"cuda_time", "device_average", "device_average_us"},
    {"cpu_memory_usage", "cpu_memory", "cpu_memory"},
    {"self_cpu_memory_usage", "self_cpu_memory", "self_cpu_memory"},
    {"device_memory_usage", "device_memory", "device_memory"},
    {"cuda_memory_usage", "device_memory", "device_memory"},
    {"self_device_memory_usage", "self_device_memory", "self_device_memory"},
    {"self_cuda_memory_usage", "self_device_memory", "self_device_memory"},
}};

// The column that --sort means; what is none of torch's names is the report's own.
std::string ColumnToSortBy(const std::string& key, bool of_torch) {
  for (const TorchSortKey& known : kTorchSortKeys) {
    if (key != known.torch && !(of_torch && key == known.ops)) continue;
    return std::string(of_torch ? known.ops_torch : known.ops);
  }
  return key;
}

struct OpsRequest {
  report::ReportRequest report;  // Sorted and limited as --sort and --limit say.
  bool by_rank = false;

  std::string_view Option(std::string_view name) const {
    const auto found = report.options.find(name);
    return found == report.options.end() ? std::string_view() : std::string_view(found->second);
  }
  // Of one rank of several: what is a small row of one may be a large one of all.
  report::ReportRequest Whole() const {
    report::ReportRequest whole = report;
    whole.options.erase("sort");
    whole.options.erase("limit");
    return whole;
  }
};

absl::StatusOr<OpsRequest> ParseOpsRequest(const Invocation& invocation) {
  const ParsedFlags& flags = invocation.flags();
  if (invocation.json() && flags.Has("csv")) return UsageError("--csv does not go with --json");
  const std::optional<std::string> torch = flags.Get("torch");
  OpsRequest wanted = {.report = {.report = torch ? std::string(report::kTorchReport) : "ops"}};
  auto& options = wanted.report.options;
  if (torch.has_value()) {
    for (const std::string_view flag : {"step", "by-step"}) {
      if (flags.Has(flag)) return UsageError(StrCat("--torch does not go with --", flag));
    }
    if (!torch->empty()) options["version"] = *torch;
  }
  if (const auto sort = flags.Get("sort")) {
    options["sort"] = ColumnToSortBy(*sort, torch.has_value());
  }
  if (const auto by = flags.Get("group-by")) {
    wanted.by_rank = *by == kByRank && !torch.has_value();
    if (!wanted.by_rank) options["group_by"] = *by;
  }
  if (flags.Has("by-step")) options["by_step"] = "1";
  ASSIGN_OR_RETURN(const std::optional<int64_t> step, flags.Int("step", 0));
  if (step.has_value()) options["step"] = StrCat(*step);
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, flags.Int("limit", 0));
  const bool is_for_people = !invocation.json() && !flags.Has("csv");
  options["limit"] = StrCat(limit.value_or(is_for_people ? kRowsForPeople : 0));
  return wanted;
}

// Says on stderr why a column of groups is empty.
void NoteMissingPlaces(Invocation& invocation, const table::Report& report,
                       const OpsRequest& wanted) {
  const std::string_view by = wanted.Option("group_by");
  const std::string_view column = by.substr(0, by.find(':'));
  const bool is_arguments = column == "arguments";
  if (column != "module" && column != "source" && column != "stack" && !is_arguments) return;
  if (report.tables.empty()) return;
  const table::Table& rows = report.tables.front();
  const size_t place = rows.Find(column);
  if (place != table::Table::npos && !table::IsUnset(rows.columns[place], rows.cells[place])) {
    return;
  }
  if (is_arguments) {
    const bool is_of_key = by.size() > column.size();
    invocation.Note(StrCat(
        "None of these rows ran inside a range with arguments",
        is_of_key ? StrCat(" named ", ForDisplay(by.substr(column.size() + 1), 80)) : "",
        ". Add them with `profd.annotate(\"forward\", batch=32)`. Those of imported traces, and of "
        "asyncio blocks that overlap, do not count.\n"));
    return;
  }
  invocation.Note(StrCat("No ", column == "module" ? "modules" : "Python lines",
                         " are in this capture: `profctl trace --with ",
                         column == "module" ? "modules" : "stacks",
                         "` records them, and torch.profiler with with_stack=True.\n"));
}

absl::StatusOr<int> ShowOpsOfOne(Invocation& invocation, const OpsRequest& wanted,
                                 CaptureSource& source) {
  ASSIGN_OR_RETURN(const table::Report report, source.Report(wanted.report));
  PrintReport(invocation, source.view(), report);
  NoteMissingPlaces(invocation, report, wanted);
  return 0;
}

absl::StatusOr<int> ShowTorchOps(Invocation& invocation, const OpsRequest& wanted,
                                 CaptureSource& source) {
  const bool is_for_people = !invocation.json() && !invocation.flags().Has("csv");
  report::ReportRequest request = wanted.report;
  // The widths and totals of the text are those of all rows.
  if (is_for_people) request.options["limit"] = "0";
  ASSIGN_OR_RETURN(const table::Report report, DemandingReport(source, request));
  if (!is_for_people) {
    PrintReport(invocation, source.view(), report);
    return 0;
  }
  ASSIGN_OR_RETURN(const report::TorchTable torch, report::TorchTableOf(report));
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, invocation.flags().Int("limit", 0));
  // On stderr: stdout is torch's table and nothing else.
  invocation.Note(RenderReportHeader(source.view(), invocation.error_style()));
  invocation.Print(RenderTorchTable(torch, limit == 0 ? -1 : limit.value_or(kTorchRowsForPeople)));
  return 0;
}

// The rows of `part`, as those of `rank`, go after those of `all`.
void AppendProfile(report::OpProfile part, const std::string& rank, report::OpProfile& all) {
  for (report::OpProfileRow& row : part.rows) {
    row.rank = rank;
    all.rows.push_back(std::move(row));
  }
  all.has_memory |= part.has_memory;
  all.has_device |= part.has_device;
  all.is_simulated |= part.is_simulated;
  all.overlaps_add_up |= part.overlaps_add_up;
  all.self_cpu_total_ns += part.self_cpu_total_ns;
  all.self_device_total_ns += part.self_device_total_ns;
  all.unattributed_device_ns += part.unattributed_device_ns;
  all.busy_device_ns += part.busy_device_ns;
  all.step_count = std::max(all.step_count, part.step_count);
  all.frame_row_count += part.frame_row_count;
}

// Those of members that cannot be had stay empty.
absl::StatusOr<std::vector<report::OpProfile>> ProfilesOf(Invocation& invocation, CaptureSet& set,
                                                          const report::ReportRequest& request) {
  std::vector<report::OpProfile> profiles(set.members().size());
  const absl::Status status =
      set.ForEach([&](size_t member, CaptureSource& source) -> absl::Status {
        ASSIGN_OR_RETURN(const table::Report report, source.Report(request));
        ASSIGN_OR_RETURN(profiles[member], report::OpProfileOf(report));
        return absl::OkStatus();
      });
  invocation.Note(RenderMissing(set));
  RETURN_IF_ERROR(status);
  return profiles;
}

// One row for each name and rank.
absl::StatusOr<int> ShowOpsByRank(Invocation& invocation, const OpsRequest& wanted,
                                  CaptureSet& set) {
  ASSIGN_OR_RETURN(std::vector<report::OpProfile> profiles,
                   ProfilesOf(invocation, set, wanted.Whole()));
  report::OpProfile all = {.busy_device_ns = 0};
  for (size_t i = 0; i < profiles.size(); ++i) {
    const CaptureSet::Member& member = set.members()[i];
    if (member.missing.empty()) AppendProfile(std::move(profiles[i]), LabelOf(member), all);
  }
  report::SortBySelfTime(all);
  table::Report report = report::ToReport(all);
  RETURN_IF_ERROR(report::ApplyView(wanted.report, report));
  if (invocation.json()) {
    JsonWriter json;
    WriteSetReportJson(set, report, json);
    invocation.Print(json.TakeLine());
  } else if (invocation.flags().Has("csv")) {
    invocation.Print(table::ToCsv(report.tables.front()));
  } else {
    invocation.Print(RenderSetHeader(set, invocation.style()));
    invocation.Print(RenderReport(report, StyleFor(set, invocation.style())));
  }
  return ExitCodeOf(set);
}

// "stack" also of "stack:3".
std::optional<report::OpGroup> OpGroupOf(const OpsRequest& wanted) {
  const std::string_view by = wanted.Option("group_by");
  return report::OpGroupFromString(by.substr(0, by.find(':')));
}

// The options of the report that compares ranks: it knows fewer columns and groups.
absl::StatusOr<report::OpOptions> GroupOptions(const Invocation& invocation,
                                               const OpsRequest& wanted) {
  const ParsedFlags& flags = invocation.flags();
  report::OpOptions options;
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, flags.Int("limit", 0));
  const bool is_for_people = !invocation.json() && !flags.Has("csv");
  options.limit = limit.value_or(is_for_people ? kRowsForPeople : 0);
  const report::OpGroup group = OpGroupOf(wanted).value_or(report::OpGroup::kName);
  if (group == report::OpGroup::kModule || group == report::OpGroup::kSource ||
      group == report::OpGroup::kStack || group == report::OpGroup::kArguments ||
      group == report::OpGroup::kThread) {
    return UsageError(
        "a group is compared by name, input_shape, or step, or shown by rank; name one of its "
        "captures "
        "for the rest");
  }
  options.by_step = flags.Has("by-step") || group == report::OpGroup::kStep;
  options.by_inputs = group == report::OpGroup::kInputs;
  const std::string_view key = wanted.Option("sort");
  if (key.empty()) return options;
  const std::optional<report::OpSort> sort = report::OpSortFromString(key);
  if (!sort.has_value()) {
    return UsageError(StrCat("ranks are not compared by ", ForDisplay(key, 80),
                             "; --group-by rank shows it for each"));
  }
  options.sort = *sort;
  return options;
}

// What the comparison of ranks needs of a report.
report::OpTable TableOf(report::OpProfile profile) {
  report::OpTable table = {.has_memory = profile.has_memory,
                           .self_cpu_total_ns = profile.self_cpu_total_ns,
                           .has_device = profile.has_device,
                           .self_device_total_ns = profile.self_device_total_ns,
                           .unattributed_device_ns = profile.unattributed_device_ns,
                           .row_count = static_cast<int64_t>(profile.rows.size()),
                           .step_count = profile.step_count};
  for (report::OpProfileRow& row : profile.rows) {
    table.rows.push_back(std::move(static_cast<report::OpRow&>(row)));
  }
  return table;
}

absl::StatusOr<int> ShowOpsOfGroup(Invocation& invocation, const OpsRequest& wanted,
                                   CaptureSet& set) {
  ASSIGN_OR_RETURN(const report::OpOptions options, GroupOptions(invocation, wanted));
  report::ReportRequest whole = wanted.Whole();
  whole.options["sums_only"] = "1";
  ASSIGN_OR_RETURN(std::vector<report::OpProfile> profiles, ProfilesOf(invocation, set, whole));
  std::vector<report::OpTable> tables;
  tables.reserve(profiles.size());
  for (report::OpProfile& profile : profiles) tables.push_back(TableOf(std::move(profile)));
  std::vector<const report::OpTable*> present;
  for (size_t i = 0; i < tables.size(); ++i) {
    present.push_back(set.members()[i].missing.empty() ? &tables[i] : nullptr);
  }
  const report::GroupOps ops =
      report::CompareOps(present, options.sort, options.limit, options.by_step);
  if (invocation.json()) {
    JsonWriter json;
    WriteGroupOpsJson(set, ops, options, json);
    invocation.Print(json.TakeLine());
  } else if (invocation.flags().Has("csv")) {
    invocation.Note(StrCat(RenderSetHeader(set, invocation.error_style()),
                           RenderGroupOpsBasis(set, ops, options)));
    invocation.Print(GroupOpsCsv(set, ops));
  } else {
    invocation.Print(RenderSetHeader(set, invocation.style()));
    invocation.Print(RenderGroupOps(set, ops, options, invocation.style()));
  }
  return ExitCodeOf(set);
}

// Whether rows are to be sorted by a column by which ranks are not compared.
bool IsOnlyOfEachRank(const OpsRequest& wanted) {
  const std::string_view key = wanted.Option("sort");
  return !key.empty() && wanted.Option("group_by").empty() &&
         !report::OpSortFromString(key).has_value();
}

absl::StatusOr<int> RunOps(Invocation& invocation) {
  ASSIGN_OR_RETURN(const OpsRequest wanted, ParseOpsRequest(invocation));
  ASSIGN_OR_RETURN(CaptureSet set, CaptureSet::Open(invocation));
  if (invocation.flags().Has("torch")) {
    if (set.is_group()) return UsageError("--torch is for one capture, not for a group");
    return ShowTorchOps(invocation, wanted, set.Only());
  }
  if (wanted.by_rank) return ShowOpsByRank(invocation, wanted, set);
  if (set.is_group() && IsOnlyOfEachRank(wanted)) {
    invocation.Note(StrCat("Ranks are not compared by ", wanted.Option("sort"),
                           ": these are the rows of each rank.\n"));
    return ShowOpsByRank(invocation, wanted, set);
  }
  return set.is_group() ? ShowOpsOfGroup(invocation, wanted, set)
                        : ShowOpsOfOne(invocation, wanted, set.Only());
}

std::vector<std::string_view> SortChoices() {
  std::vector<std::string_view> choices = SortChoicesOf("ops");
  for (const TorchSortKey& key : kTorchSortKeys) choices.push_back(key.torch);
  return choices;
}

}  // namespace

Command OpsCommand() {
  return {
      .name = "ops",
      .summary = "Show the operator table: calls, self and total time on CPU and GPU",
      .arguments = "ID|GROUP|FILES.profd",
      .description =
          "Shows what ran, by name. CPU total is the time from begin to end, summed over calls; "
          "self CPU is that less the time of the ranges and CUDA calls directly inside, on the "
          "same thread. Self CUDA is what ran on GPUs for the row itself, whenever it ran, CUDA "
          "total that and what its children launched; work of several streams counts as often as "
          "it ran. CUDA busy counts every moment once. Where allocators were recorded, memory is "
          "what the row allocated less what it freed; self, less that of the ranges directly "
          "inside. TFLOP/s is what matrix products, convolutions and attention computed, by the "
          "sizes of their inputs, over the time that the GPU was busy with them; a causal mask "
          "halves attention. Work of a recursive range counts once in CUDA total. `profctl "
          "explain` "
          "has every column's definition and formula.\n\n"
          "--torch prints torch.profiler's own table of the same events instead, letter for "
          "letter.\n\n"
          "Of a group, or of several files, it shows the figure that --sort names over the ranks, "
          "per step where all of them have steps: "
          "minimum, median, maximum and the slowest one; with --group-by rank, or a --sort that "
          "ranks are not compared by, each rank's rows. A "
          "rank that did not run an operator has 0. A member that is out of reach is named on "
          "stderr, and the exit code is then 4.",
      .flags =
          {{.name = "sort",
            .value_name = "KEY",
            .help = "Order rows by a column (default: self_device where there is a GPU, else "
                    "self_cpu); `profctl explain --table ops` has the columns. torch.profiler's "
                    "names work as well",
            .completes = Completes::kChoice,
            .choices = SortChoices()},
           {.name = "limit",
            .value_name = "N",
            .help = "At most N rows; 0 is all (default: 50, 100 with --torch, all with --json and "
                    "--csv)"},
           {.name = "group-by",
            .value_name = "WHAT",
            .help =
                "One row for each name (default), or for each name and the shapes and types "
                "of its inputs, the module that it ran in, the line of Python that called it, "
                "the stack (stack:N has N lines, default 8), the arguments of annotate() around "
                "it (arguments:KEY only those of that key), the step, thread, or rank: name, "
                "input_shape, module, source, stack, arguments, step, thread, or rank",
            .completes = Completes::kChoice,
            .choices = {"name", "input_shape", "module", "source", "stack", "stack:N", "arguments",
                        "arguments:KEY", "step", "thread", "rank"}},
           {.name = "by-step",
            .help = "One row for each step, too, whatever else rows are grouped by"},
           {.name = "step", .value_name = "K", .help = "Only ranges that begin inside step K"},
           {.name = "csv", .help = "Print all columns as comma-separated values, times in ns"},
           {.name = "torch",
            .value_name = "VERSION",
            .help = "Print the table that torch.profiler prints, as that release of PyTorch does "
                    "(default: the program's own, or the newest that is known)",
            .value_is_optional = true},
           ForceGroupFlag()},
      .examples = {{"profctl ops 01J9ZK", "Where the time went"},
                   {"profctl ops 01J9ZK --group-by input_shape",
                    "Which sizes of an operator took it"},
                   {"profctl ops 01J9ZK --group-by source",
                    "Which lines of the program, also of compiled code (`trace --with stacks`)"},
                   {"profctl ops 01J9ZK --group-by arguments:batch",
                    "By the batch that annotate(\"forward\", batch=32) names"},
                   {"profctl ops run.profd --sort cpu_total --step 120",
                    "One step of a fetched capture"},
                   {"profctl ops run.profd --torch=2.6 --sort cuda_time_total",
                    "As torch 2.6 prints prof.key_averages().table()"},
                   {"profctl ops 01J9ZM --sort busy_device", "A group: operators by rank"}},
      .min_arguments = 1,
      .max_arguments = 4096,
      .completes = Completes::kCapture,
      .takes_nodes = true,
      .run = &RunOps};
}

}  // namespace profd::cli
