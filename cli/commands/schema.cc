#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/errors.h"
#include "cli/commands/command.h"
#include "cli/commands/commands.h"
#include "cli/render/lists.h"
#include "cli/render/schemas.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/report/reports.h"

namespace profd::cli {
namespace {

std::vector<std::string_view> Names() {
  std::vector<std::string_view> names;
  for (const report::ReportKind& kind : report::ReportKinds()) {
    if (!kind.schema.empty()) names.push_back(kind.schema);
  }
  for (const ListKind& kind : ListKinds()) names.push_back(kind.name);
  return names;
}

// False: it has none.
bool WriteSchemaNamed(std::string_view name, JsonWriter& json) {
  const auto report = std::ranges::find(report::ReportKinds(), name, &report::ReportKind::schema);
  if (report != report::ReportKinds().end() && !name.empty()) {
    WriteSchemaOf(*report, json);
    return true;
  }
  const auto list = std::ranges::find(ListKinds(), name, &ListKind::name);
  if (list == ListKinds().end()) return false;
  WriteListSchema(*list, json);
  return true;
}

absl::Status NoSchema(const std::string& name) {
  std::string known;
  for (const std::string_view each : Names()) {
    StrAppend(&known, known.empty() ? "" : ", ", each);
  }
  return UsageError(
      StrCat("there is no schema of '", ForDisplay(name, 80), "'; there is one of: ", known));
}

absl::StatusOr<int> RunSchema(Invocation& invocation) {
  JsonWriter json;
  if (!invocation.arguments().empty()) {
    const std::string& name = invocation.arguments().front();
    if (!WriteSchemaNamed(name, json)) return NoSchema(name);
  } else {
    json.BeginObject();
    for (const std::string_view name : Names()) {
      json.Key(name);
      WriteSchemaNamed(name, json);
    }
    json.EndObject();
  }
  invocation.Print(json.TakeLine());
  return 0;
}

}  // namespace

Command SchemaCommand() {
  return {
      .name = "schema",
      .summary = "Print the JSON Schema of a --json output",
      .arguments = "[NAME]",
      .description =
          "Prints the JSON Schema (draft 2020-12) of what a command prints with --json: every "
          "field with its type, unit, meaning, and formula. NAME is the command, with its "
          "action (`schedule_list`, `context_show`). For a group's ID, it begins with `group_` "
          "(`group_ops`: `ops GROUP`). Others are `ops_torch` (`ops --torch`), "
          "`group_ops_by_rank`, `trace_nodes` (`trace --nodes` and `--job`), `nodes` (`node "
          "--nodes`), `quotas` (`node --quotas`), and `history_stragglers`. Without NAME it "
          "prints an object with all schemas; \"title\" is the command line. They are made from "
          "the same descriptions as the output.",
      .examples = {{"profctl schema kernels", "What a script can rely on"},
                   {"profctl schema schedule_list", "The same of `profctl schedule list`"}},
      .max_arguments = 1,
      .completes = Completes::kChoice,
      .choices = Names(),
      .uses_daemon = false,
      .run = &RunSchema};
}

}  // namespace profd::cli
