#include "cli/render/time.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "cli/captures/capture_source.h"
#include "cli/commands/command.h"
#include "cli/render/capture.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/status_macros.h"
#include "daemon/report/time/time_report.h"

namespace profd::cli {
namespace {

constexpr int64_t kTimeRowsForPeople = 10;

absl::StatusOr<int> RunTime(Invocation& invocation) {
  const ParsedFlags& flags = invocation.flags();
  report::TimeOptions options = {.as_hta = flags.Get("as") == "hta"};
  options.launched_only = flags.Has("launched-only");
  ASSIGN_OR_RETURN(options.device, flags.Int("device", 0, std::numeric_limits<uint16_t>::max()));
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, flags.Int("limit", 0));
  ASSIGN_OR_RETURN(const std::unique_ptr<CaptureSource> source,
                   OpenCaptureSource(invocation, invocation.arguments().front()));
  ASSIGN_OR_RETURN(store::CaptureReader* const reader, source->Reader());
  ASSIGN_OR_RETURN(const report::TimeReport time, report::SummarizeTime(*reader, options));
  if (invocation.json()) {
    JsonWriter json;
    WriteTimeJson(source->view(), time, limit.value_or(0), json);
    invocation.Print(json.TakeLine());
  } else {
    const Style style = StyleFor(source->view(), invocation.style());
    invocation.Print(RenderReportHeader(source->view(), invocation.style()));
    invocation.Print(RenderTime(time, limit.value_or(kTimeRowsForPeople), style));
  }
  return 0;
}

}  // namespace

Command TimeCommand() {
  return {.name = "time",
          .summary = "Show where the time went: steps, idle time, launches, collectives, waits",
          .arguments = "ID|FILE.profd",
          .description =
              "Shows what one GPU did from its first work to its last, and in each step: compute, "
              "communication (exposed while nothing computed, overlapped otherwise), copies, and "
              "idle time by cause as in `profctl idle`; host-only is idle time in which nothing "
              "was launched that had yet to run. Then what held it up: gaps by stream, launches "
              "and the operators whose launches came late, launch queues, NCCL collectives with "
              "sizes and bandwidth, calls that made the host wait (.item(), .cpu()), waits for "
              "the data loader, and compiled regions. With --as hta the figures are those of "
              "Holistic Trace Analysis: whole microseconds, the last step left out, only work "
              "launched before it.",
          .flags = {{.name = "device",
                     .value_name = "N",
                     .help = "GPU to show (default: the one with the most work)"},
                    {.name = "as",
                     .value_name = "TOOL",
                     .help = "Compute the figures as another tool does: hta",
                     .completes = Completes::kChoice,
                     .choices = {"hta"}},
                    {.name = "launched-only", .help = "Only work whose launch is in the capture"},
                    {.name = "limit",
                     .value_name = "N",
                     .help = "At most N rows of each table; 0 is all (default: 10, all with "
                             "--json)"}},
          .examples = {{"profctl time 01J9ZK", "What the GPU did, and what it waited for"},
                       {"profctl time 01J9ZK --as hta --json", "To compare with HTA"}},
          .min_arguments = 1,
          .max_arguments = 1,
          .completes = Completes::kCapture,
          .takes_nodes = true,
          .run = &RunTime};
}

}  // namespace profd::cli
