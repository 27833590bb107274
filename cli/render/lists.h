// The lists that are not reports: targets, captures, nodes, schedules, and audited calls. Their
// descriptions provide the text of `profctl explain` and `profctl schema`.
//
// How do I add one?  Write an ObjectDescription (cli/base/object.h) next to the code that shows it,
// and a row in lists.cc.
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
  std::string_view name;     // For `profctl schema`: the words after profctl, joined by "_".
  std::string_view command;  // The command that prints it.
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
