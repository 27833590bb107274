#include <limits>

#include "cli/capture_source.h"
#include "cli/command.h"
#include "cli/render_capture.h"
#include "cli/render_reports.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {
namespace {

constexpr int64_t kRowsForPeople = 20;

absl::StatusOr<int> Run(Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit,
                   invocation.flags().Int("limit", 0, std::numeric_limits<int64_t>::max()));
  ASSIGN_OR_RETURN(const std::unique_ptr<CaptureSource> source,
                   OpenCaptureSource(invocation, invocation.arguments().front()));
  ASSIGN_OR_RETURN(const report::CompileReport report, source->Compile());
  if (invocation.json()) {
    JsonWriter json;
    WriteCompileJson(source->view(), report, json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderReportHeader(source->view(), invocation.style()));
    invocation.Print(RenderCompile(report, limit.value_or(kRowsForPeople), invocation.style()));
  }
  return 0;
}

}  // namespace

Command CompileCommand() {
  return {.name = "compile",
          .summary = "Show what torch.compile did: regions, graph breaks, recompilations",
          .arguments = "ID|FILE.profd",
          .description =
              "Shows which compiled regions ran, what stopped torch.compile from compiling more "
              "(graph breaks) and what made it compile again, and for each step how many regions "
              "ran, how many of them continued behind a graph break, and what compilations and the "
              "checks of guards (cache lookups) took. Events inside of compilations are counted, "
              "not kept.",
          .flags = {{.name = "limit",
                     .value_name = "N",
                     .help = "At most N rows of each table; 0 is all (default: 20); --json prints "
                             "all"}},
          .examples = {{"profctl compile 01J9ZK", "Why the model was compiled again"}},
          .min_arguments = 1,
          .max_arguments = 1,
          .completes = Completes::kCapture,
          .takes_nodes = true,
          .run = &Run};
}

}  // namespace profd::cli
