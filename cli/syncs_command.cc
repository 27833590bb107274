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
  ASSIGN_OR_RETURN(const report::SyncTable table, source->Syncs());
  if (invocation.json()) {
    JsonWriter json;
    WriteSyncsJson(source->view(), table, limit.value_or(0), json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderReportHeader(source->view(), invocation.style()));
    invocation.Print(RenderSyncs(table, limit.value_or(kRowsForPeople), invocation.style()));
  }
  return 0;
}

}  // namespace

Command SyncsCommand() {
  return {.name = "syncs",
          .summary = "Show where the host waited for the GPU",
          .arguments = "ID|FILE.profd",
          .description =
              "Shows waits for GPUs, by kind, by the CUDA call that waited and by the range it was "
              "made in. A Stream Wait Event makes a stream wait, not the host.",
          .flags = {{.name = "limit",
                     .value_name = "N",
                     .help = "At most N rows; 0 is all (default: 50, all with --json)"}},
          .examples = {{"profctl syncs 01J9ZK", "Who waits for the GPU"}},
          .min_arguments = 1,
          .max_arguments = 1,
          .completes = Completes::kCapture,
          .takes_nodes = true,
          .run = &Run};
}

}  // namespace profd::cli
