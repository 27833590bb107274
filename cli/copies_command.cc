#include <limits>

#include "cli/capture_source.h"
#include "cli/command.h"
#include "cli/render_capture.h"
#include "cli/render_gpu.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {
namespace {

constexpr int64_t kRowsForPeople = 50;

absl::StatusOr<int> Run(Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit,
                   invocation.flags().Int("limit", 0, std::numeric_limits<int64_t>::max()));
  ASSIGN_OR_RETURN(const std::unique_ptr<CaptureSource> source,
                   OpenCaptureSource(invocation, invocation.arguments().front()));
  ASSIGN_OR_RETURN(const report::CopyTable table, source->Copies());
  if (invocation.json()) {
    JsonWriter json;
    WriteCopiesJson(source->view(), table, limit.value_or(0), json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderReportHeader(source->view(), invocation.style()));
    invocation.Print(RenderCopies(table, limit.value_or(kRowsForPeople), invocation.style()));
  }
  return 0;
}

}  // namespace

Command CopiesCommand() {
  return {
      .name = "copies",
      .summary = "Show copies and memsets on the GPU, with their bandwidth",
      .arguments = "ID|FILE.profd",
      .description =
          "Shows what was copied to, from and within GPUs, and what was set, by direction and "
          "kinds of memory: times, bytes, bandwidth (bytes over the time that the copies "
          "themselves took), how many were asynchronous, and the range that launched most of them.",
      .flags = {{.name = "limit",
                 .value_name = "N",
                 .help = "At most N rows; 0 is all (default: 50, all with --json)"}},
      .examples = {{"profctl copies 01J9ZK", "What was moved, and how fast"}},
      .min_arguments = 1,
      .max_arguments = 1,
      .completes = Completes::kCapture,
      .takes_nodes = true,
      .run = &Run};
}

}  // namespace profd::cli
