// The commands that show one report as it is, of one capture or over ranks: kernels, copies, syncs,
// idle, compile, modules.
// Their options, columns, and sort keys are the report's (daemon/report/reports.h).
//
// How do I add one?  A PlainReport below, its function, and its row in command_table.cc.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/numbers.h"
#include "cli/base/row_limit.h"
#include "cli/captures/capture_set.h"
#include "cli/commands/command.h"
#include "cli/commands/commands.h"
#include "cli/commands/plain_report.h"
#include "cli/commands/show_over_ranks.h"
#include "cli/render/capture.h"
#include "cli/render/report_tables.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/json.h"
#include "daemon/report/reports.h"

namespace profd::cli {
namespace {

struct PlainReport {
  std::string_view name;
  std::string_view summary;
  std::string_view description;
  int64_t rows_for_people = kRowsForPeople;
  // The rows of the first table have a "depth", by which text indents their names.
  bool is_tree = false;
};

constexpr PlainReport kKernelsReport = {
    .name = "kernels",
    .summary = "Show GPU kernels: times, launch configurations, launching ranges",
    .description =
        "Shows what ran on GPUs, by the kernel's name: times with exact percentiles, the launch "
        "configuration that took most of the time, and how many warps of it fit a multiprocessor "
        "at once (an estimate, with what limits it). Latency is from the start of the CUDA call "
        "to the kernel's; queue is what of it the kernel waited although its stream was free. Op "
        "is the range that launched most of its time. Copies and memsets are in `profctl copies`."};
constexpr PlainReport kCopiesReport = {
    .name = "copies",
    .summary = "Show copies and memsets on the GPU, with their bandwidth",
    .description =
        "Shows copies to, from, and within GPUs, memsets, by direction and memory kinds, and "
        "decompression by the GPU (\"Memcpy Decompress\"; bytes: of its compressed input): "
        "times, bytes, bandwidth (bytes over the time of the copies themselves), how many were "
        "asynchronous, and the range that launched most of them."};
constexpr PlainReport kSyncsReport = {
    .name = "syncs",
    .summary = "Show where the host waited for the GPU",
    .description =
        "Shows waits for GPUs by kind, by the CUDA call that waited, and by the range around the "
        "call. With Stream Wait Event, a stream waits, not the host."};
constexpr PlainReport kIdleReport = {
    .name = "idle",
    .summary = "Show busy and idle time of each GPU per step, with idle causes",
    .description =
        "Shows, for the whole capture and for each step, how long each GPU was busy, with what, "
        "and why it was idle. Idle time before a kernel, copy or memset is host wait if that was "
        "launched only after what ran before it had ended; else kernel wait if it is shorter than "
        "30 us; else other. Communication (NCCL) and copies are exposed while no computing "
        "kernel, or no kernel at all, overlapped them. Then the same gaps by stream, each stream "
        "by itself."};
constexpr PlainReport kCompileReport = {
    .name = "compile",
    .summary = "Show torch.compile activity: regions, graph breaks, recompilations",
    .description =
        "Shows which compiled regions ran, what kept torch.compile from compiling more (graph "
        "breaks), and what caused recompilation. For each step: how many regions ran, how many "
        "continued after a graph break, and the time of compilation and of guard checks (cache "
        "lookups). Events inside compilations are counted, not kept.",
    .rows_for_people = 20};

constexpr PlainReport kModulesReport = {
    .name = "modules",
    .summary = "Show the model's modules as a tree: host time, GPU work, memory, FLOPs",
    .description =
        "Shows which layers the time of the steps went to, a row for each torch.nn.Module after "
        "the "
        "one that calls it. Total is with the modules that it calls, self without them; backward "
        "operators belong to the module whose forward operator they follow. What belongs to no "
        "module (optimizer, data loading, loss) is a row of its own, so that self times add up to "
        "the time of the steps. A module's time is from its first operator to its last one; Python "
        "before and after belongs to its caller. Captures do not count calls without an operator. "
        "Needs a capture with `trace --with modules` (or stacks,modules), or a trace of "
        "torch.profiler "
        "with with_stack. --sort orders rows without regard to the tree. `profctl ops --group-by "
        "module` has the operators of each module.",
    .is_tree = true};

int64_t LimitOf(const report::ReportRequest& request) {
  const auto limit = request.options.find("limit");
  int64_t rows = 0;
  if (limit != request.options.end() && !absl::SimpleAtoi(limit->second, &rows)) return 0;
  return rows;
}

// `table` has its rows in the order of the tree.
void IndentNames(table::Table& table) {
  constexpr int64_t kMostDepth = 20;
  const size_t at = table.Find("depth");
  const size_t name = table.Find("name");
  if (at == table::Table::npos || name == table::Table::npos) return;
  auto* const names = std::get_if<std::vector<std::string>>(&table.cells[name]);
  const auto* const depths = std::get_if<std::vector<int64_t>>(&table.cells[at]);
  if (names == nullptr || depths == nullptr) return;
  for (size_t row = 0; row < names->size(); ++row) {
    const int64_t depth = std::clamp<int64_t>((*depths)[row], 0, kMostDepth);
    (*names)[row].insert(0, static_cast<size_t>(2 * depth), ' ');
  }
}

absl::StatusOr<int> RunPlainReport(Invocation& invocation, const PlainReport& plain) {
  ASSIGN_OR_RETURN(const report::ReportRequest request,
                   ParseReportRequest(invocation, plain.name, plain.rows_for_people));
  ASSIGN_OR_RETURN(CaptureSet set, CaptureSet::Open(invocation));
  const bool is_in_order = !invocation.flags().Has("sort");
  const auto indent = [&](table::Report& report) {
    if (plain.is_tree && is_in_order && !report.tables.empty()) IndentNames(report.tables.front());
  };
  if (set.is_group() || invocation.flags().Has("group-by")) {
    return ShowOverRanks(invocation, set, {.request = request, .limit = LimitOf(request)}, indent);
  }
  ASSIGN_OR_RETURN(table::Report report, set.Only().Report(request));
  if (!invocation.json() && !invocation.flags().Has("csv")) indent(report);
  PrintReport(invocation, set.Only().view(), report);
  return 0;
}

template <const PlainReport& kPlain>
Command CommandOf(const std::vector<Example>& examples) {
  static const std::string description = StrCat(kPlain.description, kOverRanksHelp);
  std::vector<Flag> flags = ReportFlags(kPlain.name, kPlain.rows_for_people);
  AddComparedColumns(*std::ranges::find(flags, "sort", &Flag::name));
  std::ranges::move(OverRanksFlags(), std::back_inserter(flags));
  return {.name = kPlain.name,
          .summary = kPlain.summary,
          .arguments = "ID|GROUP|FILES.profd",
          .description = description,
          .flags = std::move(flags),
          .examples = examples,
          .min_arguments = 1,
          .max_arguments = 4096,
          .completes = Completes::kCapture,
          .takes_nodes = true,
          .run = [](Invocation& invocation) { return RunPlainReport(invocation, kPlain); }};
}

// Help lives as long as the program, so it is not put together.
std::string_view LimitHelp(int64_t rows_for_people) {
  if (rows_for_people == 0)
    return "At most N rows of each table; 0 is all (default: all, also with --json)";
  if (rows_for_people == 20) {
    return "At most N rows of each table; 0 is all (default: 20, all with --json and --csv)";
  }
  return "At most N rows of each table; 0 is all (default: 50, all with --json and --csv)";
}

}  // namespace

// The strings live as long as the program.
std::vector<std::string_view> SortChoicesOf(std::string_view report) {
  return SortChoicesOf(report::FindReportKind(report)->shape().tables.front().columns);
}

std::vector<std::string_view> SortChoicesOf(const std::vector<table::Column>& columns) {
  static auto* const keys = new std::vector<std::unique_ptr<std::string>>();
  std::vector<std::string_view> choices;
  for (std::string& key : table::SortKeys(columns)) {
    keys->push_back(std::make_unique<std::string>(std::move(key)));
    choices.emplace_back(*keys->back());
  }
  return choices;
}

std::vector<Flag> ReportFlags(std::string_view report, int64_t rows_for_people) {
  const report::ReportKind& kind = *report::FindReportKind(report);
  std::vector<Flag> flags = {
      {.name = "sort",
       .value_name = "KEY",
       .help = "Order rows by a column: numbers descending, names "
               "ascending; `profctl explain` has the columns",
       .completes = Completes::kChoice,
       .choices = SortChoicesOf(report)},
      {.name = "limit", .value_name = "N", .help = LimitHelp(rows_for_people)}};
  for (const report::ReportOption& option : kind.options) {
    flags.push_back({.name = option.name, .value_name = option.value, .help = option.doc});
  }
  flags.push_back(
      {.name = "csv", .help = "Print the first table as comma-separated values, times in ns"});
  return flags;
}

absl::StatusOr<report::ReportRequest> ParseReportRequest(const Invocation& invocation,
                                                         std::string_view report,
                                                         int64_t rows_for_people) {
  const ParsedFlags& flags = invocation.flags();
  if (invocation.json() && flags.Has("csv")) return UsageError("--csv does not go with --json");
  report::ReportRequest request = {.report = std::string(report)};
  if (const auto sort = flags.Get("sort")) request.options["sort"] = *sort;
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, flags.Int("limit", 0));
  const bool is_for_people = !invocation.json() && !flags.Has("csv");
  request.options["limit"] = StrCat(limit.value_or(is_for_people ? rows_for_people : 0));
  for (const report::ReportOption& option : report::FindReportKind(report)->options) {
    ASSIGN_OR_RETURN(const std::optional<int64_t> value, flags.Int(option.name, 0));
    if (value.has_value()) request.options[std::string(option.name)] = StrCat(*value);
  }
  return request;
}

void PrintReport(Invocation& invocation, const CaptureView& view, const table::Report& report) {
  if (invocation.json()) {
    JsonWriter json;
    WriteReportJson(view, report, json);
    invocation.Print(json.TakeLine());
    return;
  }
  if (invocation.flags().Has("csv")) {
    invocation.Note(RenderReportHeader(view, invocation.error_style()));
    // A daemon's answer may have none.
    if (!report.tables.empty()) invocation.Print(table::ToCsv(report.tables.front()));
    return;
  }
  invocation.Print(RenderReportHeader(view, invocation.style()));
  invocation.Print(RenderReport(report, StyleFor(view, invocation.style())));
}

Command KernelsCommand() {
  return CommandOf<kKernelsReport>(
      {{"profctl kernels 01J9ZK", "What the GPU did"},
       {"profctl kernels run.profd --step 120 --json", "One step, for a script"},
       {"profctl kernels 01J9ZM --sort p95", "A group: whose kernels are slow"}});
}

Command CopiesCommand() {
  return CommandOf<kCopiesReport>({{"profctl copies 01J9ZK", "What was moved, and how fast"}});
}

Command SyncsCommand() {
  return CommandOf<kSyncsReport>({{"profctl syncs 01J9ZK", "Who waits for the GPU"}});
}

Command IdleCommand() {
  return CommandOf<kIdleReport>({{"profctl idle 01J9ZK", "Whether the GPU waits for the program"}});
}

Command ModulesCommand() {
  return CommandOf<kModulesReport>(
      {{"profctl modules 01J9ZK", "Which layers take the time"},
       {"profctl modules run.profd --sort self_device_ns", "Which ones keep the GPU busy"},
       {"profctl modules 01J9ZK --step 120 --csv", "One step, for a spreadsheet"}});
}

Command CompileCommand() {
  return CommandOf<kCompileReport>(
      {{"profctl compile 01J9ZK", "Why the model was compiled again"}});
}

}  // namespace profd::cli
