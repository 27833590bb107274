#include "cli/command.h"
#include "cli/render_reports.h"
#include "cli/show_report.h"

namespace profd::cli {
namespace {

constexpr int64_t kRowsForPeople = 20;

absl::StatusOr<int> Run(Invocation& invocation) {
  const auto write_json = [](const CaptureView& view, const report::CompileReport& report, int64_t,
                             JsonWriter& json) { WriteCompileJson(view, report, json); };
  return ShowReport(
      invocation, kRowsForPeople, [](CaptureSource& source) { return source.Compile(); },
      write_json, &RenderCompile);
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
