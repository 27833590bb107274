#include <limits>
#include <vector>

#include "cli/capture_set.h"
#include "cli/command.h"
#include "cli/render_capture.h"
#include "cli/render_group_reports.h"
#include "cli/render_reports.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {
namespace {

constexpr int64_t kRowsForPeople = 50;

absl::StatusOr<report::OpOptions> ParseOptions(const Invocation& invocation) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const ParsedFlags& flags = invocation.flags();
  report::OpOptions options;
  if (const auto sort = flags.Get("sort")) {
    options.sort = report::OpSortFromString(*sort).value_or(options.sort);
  }
  const std::optional<std::string> by = flags.Get("by");
  options.by_step = flags.Has("by-step") || by == "step";
  options.by_inputs = by == "shape";
  ASSIGN_OR_RETURN(options.step, flags.Int("step", 0, kMax));
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, flags.Int("limit", 0, kMax));
  options.limit = limit.value_or(invocation.json() ? 0 : kRowsForPeople);
  return options;
}

absl::StatusOr<int> RunOnOne(Invocation& invocation, const report::OpOptions& options,
                             CaptureSource& source) {
  ASSIGN_OR_RETURN(const report::OpTable table, source.Ops(options));
  if (invocation.json()) {
    JsonWriter json;
    WriteOpsJson(source.view(), table, options, json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderReportHeader(source.view(), invocation.style()));
    invocation.Print(RenderOps(source.view(), table, options, invocation.style()));
  }
  return 0;
}

absl::StatusOr<int> RunOnGroup(Invocation& invocation, const report::OpOptions& options,
                               CaptureSet& set) {
  // What is a small row of one rank may be a large one of all.
  report::OpOptions whole = options;
  whole.limit = 0;
  std::vector<report::OpTable> tables(set.members().size());
  const absl::Status status =
      set.ForEach([&](size_t member, CaptureSource& source) -> absl::Status {
        ASSIGN_OR_RETURN(tables[member], source.Ops(whole));
        return absl::OkStatus();
      });
  invocation.Note(RenderMissing(set));
  RETURN_IF_ERROR(status);
  std::vector<const report::OpTable*> present;
  for (size_t i = 0; i < tables.size(); ++i) {
    present.push_back(set.members()[i].missing.empty() ? &tables[i] : nullptr);
  }
  const report::GroupOps ops = report::CompareOps(present, options.sort, options.limit);
  if (invocation.json()) {
    JsonWriter json;
    WriteGroupOpsJson(set, ops, options, json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderSetHeader(set, invocation.style()));
    invocation.Print(RenderGroupOps(set, ops, options, invocation.style()));
  }
  return ExitCodeOf(set);
}

absl::StatusOr<int> Run(Invocation& invocation) {
  ASSIGN_OR_RETURN(const report::OpOptions options, ParseOptions(invocation));
  ASSIGN_OR_RETURN(CaptureSet set, CaptureSet::Open(invocation));
  return set.is_group() ? RunOnGroup(invocation, options, set)
                        : RunOnOne(invocation, options, set.Only());
}

}  // namespace

Command OpsCommand() {
  return {
      .name = "ops",
      .summary = "Show the operator table: calls, self and total time on CPU and GPU",
      .arguments = "ID|GROUP|FILES.profd",
      .description =
          "Shows what ran, by name, with the definitions of torch.profiler: CPU total is the "
          "time from begin to end, summed over calls; self CPU is that less the time of the "
          "ranges and CUDA calls directly inside, on the same thread. Self CUDA is what ran on "
          "GPUs "
          "for the row itself, whenever it ran, CUDA total that and what its children launched; "
          "work of several streams counts as often as it ran. CUDA busy counts every moment "
          "once. Where allocators were recorded, memory is what the row allocated less what it "
          "freed; self, less that of the ranges directly inside.\n\n"
          "Of a group, or of several files, it shows the figure that --sort names over the ranks: "
          "minimum, median, maximum and the slowest one. A rank that did not run an operator has "
          "0. "
          "A member that is out of reach is named on stderr, and the exit code is then 4.",
      .flags =
          {{.name = "sort",
            .value_name = "KEY",
            .help = "Order rows by self_cpu (default), cpu_total, calls, average, max, "
                    "name, self_device, device_total or busy_device",
            .completes = Completes::kChoice,
            .choices = {"self_cpu", "cpu_total", "calls", "average", "max", "name", "self_device",
                        "device_total", "busy_device"}},
           {.name = "limit",
            .value_name = "N",
            .help = "At most N rows; 0 is all (default: 50, all with --json)"},
           {.name = "by",
            .value_name = "WHAT",
            .help = "One row for each name (default), for each name and step, or for each "
                    "name and the shapes and types of its inputs: name, step or shape",
            .completes = Completes::kChoice,
            .choices = {"name", "step", "shape"}},
           {.name = "by-step", .help = "As --by step; with --by shape, one row for each of both"},
           {.name = "step", .value_name = "K", .help = "Only ranges that begin inside step K"}},
      .examples = {{"profctl ops 01J9ZK", "Where the time went"},
                   {"profctl ops 01J9ZK --by shape", "Which sizes of an operator took it"},
                   {"profctl ops run.profd --sort cpu_total --step 120",
                    "One step of a fetched capture"},
                   {"profctl ops 01J9ZM --sort busy_device", "A group: operators by rank"}},
      .min_arguments = 1,
      .max_arguments = 4096,
      .completes = Completes::kCapture,
      .takes_nodes = true,
      .run = &Run};
}

}  // namespace profd::cli
