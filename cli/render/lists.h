// What commands print with --json that is not a report of one capture: lists, answers, and reports
// that compare ranks. Their descriptions provide the text of `profctl explain` and `profctl
// schema`.
//
// How do I add one?  Write an ObjectDescription (cli/base/object.h), with which the command writes
// its --json, and a row in lists.cc. A command that prints the object of another one has a row with
// the same function. tests/cli/commands/schema_test.cc then asks for an example of its output.
//
// Threads: any. Errors: none.
#ifndef PROFD_CLI_RENDER_LISTS_H_
#define PROFD_CLI_RENDER_LISTS_H_

#include <span>
#include <string_view>
#include <vector>

#include "daemon/base/json_writer.h"
#include "daemon/base/table/column.h"

namespace profd::cli {

struct ListKind {
  // For `profctl schema`: the words after profctl, joined by "_"; "group_ops" is `ops GROUP`.
  std::string_view name;
  std::string_view command;  // The command that prints it.
  std::string_view usage;    // What prints it: "ops GROUP".
  // Columns of its text table; nullptr: none is described.
  std::vector<table::Column> (*columns)();
  // Writes type, properties, and required members into the open object.
  void (*write_schema)(JsonWriter& json);
};

std::span<const ListKind> ListKinds();

// The JSON Schema (draft 2020-12) of the command's --json.
void WriteListSchema(const ListKind& kind, JsonWriter& json);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_LISTS_H_
