#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands/command.h"
#include "cli/render/answers.h"
#include "cli/render/column_docs.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

std::vector<const ColumnDoc*> AllOf(std::string_view table) {
  std::vector<const ColumnDoc*> all = AllColumnDocs();
  if (!table.empty()) {
    std::erase_if(all, [&](const ColumnDoc* doc) { return !IsOfTable(*doc, table); });
  }
  return all;
}

absl::Status NothingFound(const std::string& column, const std::string& table) {
  if (!table.empty() && AllOf(table).empty()) {
    return UsageError(StrCat("no table is called '", ForDisplay(table, 80),
                             "'; a table has the name of the command that shows it"));
  }
  std::set<std::string_view> titles;
  for (const ColumnDoc* doc : AllOf(table)) {
    if (doc->column.find('|') == std::string_view::npos) titles.insert(doc->column);
  }
  for (const ColumnDoc& doc : KeyDocs()) {
    if (table.empty() || IsOfTable(doc, table)) {
      titles.insert(doc.column.substr(0, doc.column.find('|')));
    }
  }
  const std::vector<std::string_view> candidates(titles.begin(), titles.end());
  const std::string_view near = NearestMatch(column, candidates);
  return UsageError(StrCat(
      "no column, JSON key, finding, or grade is called '", ForDisplay(column, 80), "'",
      near.empty() ? "; `profctl explain` lists them" : StrCat("; did you mean '", near, "'?")));
}

std::string RenderColumnDocs(const std::vector<const ColumnDoc*>& docs, const Style& style) {
  std::string text;
  for (const ColumnDoc* doc : docs) {
    StrAppend(&text, style.Paint(Colour::kBold, Listed(doc->column, '|')), "  (",
              Listed(doc->tables, ' '), ")\n  ", doc->definition, ".\n");
    if (!doc->formula.empty()) StrAppend(&text, "  = ", doc->formula, "\n");
  }
  return text;
}

std::string ColumnDocsJson(const std::vector<const ColumnDoc*>& docs) {
  JsonWriter json;
  ExplainObject().Write({docs}, json);
  return json.TakeLine();
}

absl::StatusOr<int> RunExplain(Invocation& invocation) {
  const std::string table = invocation.flags().Get("table").value_or("");
  std::vector<const ColumnDoc*> docs;
  if (invocation.arguments().empty()) {
    docs = AllOf(table);
  } else {
    docs = FindColumnDocs(invocation.arguments().front(), table);
  }
  if (docs.empty()) {
    return NothingFound(invocation.arguments().empty() ? "" : invocation.arguments().front(),
                        table);
  }
  invocation.Print(invocation.json() ? ColumnDocsJson(docs)
                                     : RenderColumnDocs(docs, invocation.style()));
  return 0;
}

}  // namespace

Command ExplainCommand() {
  return {.name = "explain",
          .summary = "Explain a column, a key of --json, a finding, or a grade",
          .arguments = "[TERM]",
          .description =
              "Explains what a column means and how it is computed, for every table that has it, "
              "or a finding, verdict, or grade of `profctl report`; without an argument, all of "
              "them. A key of --json can be given by itself or with the keys around it "
              "(steps.busy_ns); `profctl schema` lists the keys of a command. Case is ignored.",
          .flags = {{.name = "table",
                     .value_name = "COMMAND",
                     .help = "Only columns and keys of what this command shows",
                     .completes = Completes::kCommand}},
          .examples = {{"profctl explain 'CUDA busy'", "What is CUDA busy"},
                       {"profctl explain kernel_time_ns", "What is this key of --json"},
                       {"profctl explain HOST_BOUND", "What does this finding mean"},
                       {"profctl explain --table ops", "All columns of the operator table"}},
          .max_arguments = 1,
          .uses_daemon = false,
          .run = &RunExplain};
}

}  // namespace profd::cli
