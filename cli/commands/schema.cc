#include <string>
#include <vector>

#include "cli/base/errors.h"
#include "cli/commands/command.h"
#include "cli/commands/commands.h"
#include "cli/render/report_tables.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/report/reports.h"

namespace profd::cli {
namespace {

std::vector<std::string_view> ReportNames() {
  std::vector<std::string_view> names;
  for (const report::ReportKind& kind : report::ReportKinds()) names.push_back(kind.name);
  return names;
}

absl::Status NoSchema(const std::string& name) {
  std::string known;
  for (const std::string_view each : ReportNames()) {
    StrAppend(&known, known.empty() ? "" : ", ", each);
  }
  return UsageError(
      StrCat("there is no schema of '", ForDisplay(name, 80), "'; there is one of: ", known));
}

absl::StatusOr<int> RunSchema(Invocation& invocation) {
  JsonWriter json;
  if (invocation.arguments().empty()) {
    json.BeginObject();
    for (const report::ReportKind& kind : report::ReportKinds()) {
      json.Key(kind.name);
      WriteReportSchema(kind.shape(), json);
    }
    json.EndObject();
  } else {
    const std::string& name = invocation.arguments().front();
    const report::ReportKind* const kind = report::FindReportKind(name);
    if (kind == nullptr) return NoSchema(name);
    WriteReportSchema(kind->shape(), json);
  }
  invocation.Print(json.TakeLine());
  return 0;
}

}  // namespace

Command SchemaCommand() {
  return {.name = "schema",
          .summary = "Print the JSON Schema of a report's --json output",
          .arguments = "[REPORT]",
          .description =
              "Prints the JSON Schema (draft 2020-12) of what a report prints with --json: every "
              "field with its type, unit, meaning, and formula. Without an argument it prints an "
              "object with the schema of every report that has one. The schema is made from the "
              "same description as the report.",
          .examples = {{"profctl schema kernels", "What a script can rely on"}},
          .max_arguments = 1,
          .completes = Completes::kChoice,
          .choices = ReportNames(),
          .uses_daemon = false,
          .run = &RunSchema};
}

}  // namespace profd::cli
