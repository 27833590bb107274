#include "cli/commands/command.h"
#include "cli/commands/show_report.h"
#include "cli/render/reports.h"

namespace profd::cli {
namespace {

constexpr int64_t kCompileRowsForPeople = 20;

absl::StatusOr<int> RunCompile(Invocation& invocation) {
  const auto write_json = [](const CaptureView& view, const report::CompileReport& report, int64_t,
                             JsonWriter& json) { WriteCompileJson(view, report, json); };
  return ShowReport(
      invocation, kCompileRowsForPeople, [](CaptureSource& source) { return source.Compile(); },
      write_json, &RenderCompile);
}

}  // namespace

Command CompileCommand() {
  return {.name = "compile",
          .summary = "Show what torch.compile did: regions, graph breaks, recompilations",
          .arguments = "ID|FILE.profd",
          .description =
              "Shows which compiled regions ran, what kept torch.compile from compiling more "
              "(graph breaks), and what caused recompilation. For each step: how many regions ran, "
              "how many continued after a graph break, and the time of compilation and of guard "
              "checks (cache lookups). Events inside compilations are counted, not kept.",
          .flags = {{.name = "limit",
                     .value_name = "N",
                     .help = "At most N rows of each table; 0 is all (default: 20); --json prints "
                             "all"}},
          .examples = {{"profctl compile 01J9ZK", "Why the model was compiled again"}},
          .min_arguments = 1,
          .max_arguments = 1,
          .completes = Completes::kCapture,
          .takes_nodes = true,
          .run = &RunCompile};
}

}  // namespace profd::cli
