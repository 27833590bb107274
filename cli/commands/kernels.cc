
#include "cli/base/row_limit.h"
#include "cli/captures/capture_source.h"
#include "cli/commands/command.h"
#include "cli/render/capture.h"
#include "cli/render/gpu.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {
namespace {

absl::StatusOr<report::KernelOptions> ParseOptions(const Invocation& invocation) {
  const ParsedFlags& flags = invocation.flags();
  report::KernelOptions options;
  if (const auto sort = flags.Get("sort")) {
    options.sort = report::KernelSortFromString(*sort).value_or(options.sort);
  }
  ASSIGN_OR_RETURN(options.step, flags.Int("step", 0));
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, flags.Int("limit", 0));
  options.limit = limit.value_or(invocation.json() ? 0 : kRowsForPeople);
  return options;
}

absl::StatusOr<int> RunKernels(Invocation& invocation) {
  ASSIGN_OR_RETURN(const report::KernelOptions options, ParseOptions(invocation));
  ASSIGN_OR_RETURN(const std::unique_ptr<CaptureSource> source,
                   OpenCaptureSource(invocation, invocation.arguments().front()));
  ASSIGN_OR_RETURN(const report::KernelTable table, source->Kernels(options));
  if (invocation.json()) {
    JsonWriter json;
    WriteKernelsJson(source->view(), table, json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderReportHeader(source->view(), invocation.style()));
    invocation.Print(RenderKernels(table, StyleFor(source->view(), invocation.style())));
  }
  return 0;
}

}  // namespace

Command KernelsCommand() {
  return {.name = "kernels",
          .summary = "Show the GPU kernels: times, launch configuration, who launched them",
          .arguments = "ID|FILE.profd",
          .description =
              "Shows what ran on GPUs, by the kernel's name: times with exact percentiles, the "
              "launch configuration that took most of the time, and how many warps of it fit a "
              "multiprocessor at once (an estimate, with what limits it). Latency is from the "
              "start of the CUDA call to the kernel's; queue is what of it the kernel waited "
              "although its stream was free. Op is the range that launched most of its time. "
              "Copies and memsets are in `profctl copies`.",
          .flags = {{.name = "sort",
                     .value_name = "KEY",
                     .help = "Order rows by total (default), count, mean, max or name",
                     .completes = Completes::kChoice,
                     .choices = {"total", "count", "mean", "max", "name"}},
                    {.name = "limit",
                     .value_name = "N",
                     .help = "At most N rows; 0 is all (default: 50, all with --json)"},
                    {.name = "step",
                     .value_name = "K",
                     .help = "Only kernels that step K launched, whenever they ran"}},
          .examples = {{"profctl kernels 01J9ZK", "What the GPU did"},
                       {"profctl kernels run.profd --step 120 --json", "One step, for a script"}},
          .min_arguments = 1,
          .max_arguments = 1,
          .completes = Completes::kCapture,
          .takes_nodes = true,
          .run = &RunKernels};
}

}  // namespace profd::cli
