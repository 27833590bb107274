// What every column of every table and every key of --json means, and every verdict, finding, and
// grade: `profctl explain`.
//
// Columns of reports that are described where their rows are filled (daemon/base/table/column.h)
// are here by themselves. Of the others: an entry in column_docs_reports.cc or
// column_docs_lists.cc; a test (tests/cli/render/column_docs_test.cc) finds titles that have none.
//
// Threads: any. Errors: none.
#ifndef PROFD_CLI_RENDER_COLUMN_DOCS_H_
#define PROFD_CLI_RENDER_COLUMN_DOCS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace profd::cli {

struct ColumnDoc {
  std::string_view tables;      // The commands that show it, separated by spaces: "ops kernels".
  std::string_view column;      // As its title; several of one meaning are separated by "|".
  std::string_view definition;  // A sentence without its full stop.
  std::string_view formula;     // Empty: it is as it was recorded.
};

std::span<const ColumnDoc> ReportColumnDocs();
std::span<const ColumnDoc> ListColumnDocs();
std::span<const ColumnDoc> FindingDocs();
// Those of reports.h and lists.h.
std::span<const ColumnDoc> DescribedColumnDocs();

// Keys of the schemas of --json, each also with where it is: "steps.busy_ns".
std::span<const ColumnDoc> KeyDocs();

// All but KeyDocs(), of which `profctl schema` gives an overview.
std::vector<const ColumnDoc*> AllColumnDocs();

// Those of `column`, a title or a key, whatever its case; of `table` only, if not empty.
std::vector<const ColumnDoc*> FindColumnDocs(std::string_view column, std::string_view table = "");
// "Min|Median" as "Min, Median".
std::string Listed(std::string_view parts, char separator);
// Whether `doc` is of `table`.
bool IsOfTable(const ColumnDoc& doc, std::string_view table);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_COLUMN_DOCS_H_
