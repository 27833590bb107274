// The answers that are no report: lists of targets, captures, nodes, schedules, and calls. What
// `profctl explain` and `profctl schema` say of them comes from their descriptions.
//
// How do I add one?  An ObjectDescription (cli/base/object.h) next to the code that shows it, and a
// row in lists.cc.
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
  std::string_view command;  // That shows it.
  // The columns of its text table; nullptr: it has none that is described.
  std::vector<table::Column> (*columns)();
  // Type, properties, and what is required, into the object that is open.
  void (*write_schema)(JsonWriter& json);
};

std::span<const ListKind> ListKinds();

// The JSON Schema (draft 2020-12) of what the command prints with --json.
void WriteListSchema(const ListKind& kind, JsonWriter& json);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_LISTS_H_
