#include <limits>

#include "cli/capture_source.h"
#include "cli/command.h"
#include "cli/render_capture.h"
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

absl::StatusOr<int> Run(Invocation& invocation) {
  ASSIGN_OR_RETURN(const report::OpOptions options, ParseOptions(invocation));
  ASSIGN_OR_RETURN(const std::unique_ptr<CaptureSource> source,
                   OpenCaptureSource(invocation, invocation.arguments().front()));
  ASSIGN_OR_RETURN(const report::OpTable table, source->Ops(options));
  if (invocation.json()) {
    JsonWriter json;
    WriteOpsJson(source->view(), table, options, json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderReportHeader(source->view(), invocation.style()));
    invocation.Print(RenderOps(source->view(), table, options, invocation.style()));
  }
  return 0;
}

}  // namespace

Command OpsCommand() {
  return {
      .name = "ops",
      .summary = "Show the operator table: calls, self and total time on CPU and GPU",
      .arguments = "ID|FILE.profd",
      .description =
          "Shows what ran, by name, with the definitions of torch.profiler: CPU total is the "
          "time from begin to end, summed over calls; self CPU is that less the time of the "
          "ranges and CUDA calls directly inside, on the same thread. Self CUDA is what ran on "
          "GPUs "
          "for the row itself, whenever it ran, CUDA total that and what its children launched; "
          "work of several streams counts as often as it ran. CUDA busy counts every moment "
          "once. Where allocators were recorded, memory is what the row allocated less what it "
          "freed; self, less that of the ranges directly inside.",
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
                    "One step of a fetched capture"}},
      .min_arguments = 1,
      .max_arguments = 1,
      .completes = Completes::kCapture,
      .run = &Run};
}

}  // namespace profd::cli
