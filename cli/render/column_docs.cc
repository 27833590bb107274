#include "cli/render/column_docs.h"

#include <algorithm>
#include <array>

#include "cli/render/lists.h"
#include "daemon/base/table/table.h"
#include "daemon/report/reports.h"

namespace profd::cli {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool IsSame(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return Lower(x) == Lower(y); });
}

// Whether `item` is one of `list`, whose items are separated by `separator`.
bool IsOneOf(std::string_view item, std::string_view list, char separator) {
  while (true) {
    const size_t end = std::min(list.find(separator), list.size());
    if (IsSame(item, list.substr(0, end))) return true;
    if (end == list.size()) return false;
    list.remove_prefix(end + 1);
  }
}

}  // namespace

bool IsOfTable(const ColumnDoc& doc, std::string_view table) {
  return IsOneOf(table, doc.tables, ' ');
}

std::span<const ColumnDoc> DescribedColumnDocs() {
  static const std::vector<table::Report> shapes = [] {
    std::vector<table::Report> all;
    for (const report::ReportKind& kind : report::ReportKinds()) all.push_back(kind.shape());
    return all;
  }();
  static const std::vector<std::vector<table::Column>> lists = [] {
    std::vector<std::vector<table::Column>> all;
    for (const ListKind& kind : ListKinds()) {
      all.push_back(kind.columns == nullptr ? std::vector<table::Column>() : kind.columns());
    }
    return all;
  }();
  // The texts are those of `shapes` and `lists`.
  static const std::vector<ColumnDoc> docs = [] {
    std::vector<ColumnDoc> all;
    for (size_t i = 0; i < lists.size(); ++i) {
      for (const table::Column& column : lists[i]) {
        if (column.title.empty()) continue;
        all.push_back({ListKinds()[i].command, column.title, column.doc, column.formula});
      }
    }
    for (size_t i = 0; i < shapes.size(); ++i) {
      const report::ReportKind& kind = report::ReportKinds()[i];
      const std::string_view shown_by = kind.command.empty() ? kind.name : kind.command;
      for (const table::Table& table : shapes[i].tables) {
        for (const table::Column& column : table.columns) {
          all.push_back({shown_by, column.title, column.doc, column.formula});
        }
      }
    }
    return all;
  }();
  return docs;
}

std::vector<const ColumnDoc*> AllColumnDocs() {
  std::vector<const ColumnDoc*> all;
  for (const std::span<const ColumnDoc> docs : std::array<std::span<const ColumnDoc>, 4>{
           ReportColumnDocs(), DescribedColumnDocs(), ListColumnDocs(), FindingDocs()}) {
    for (const ColumnDoc& doc : docs) all.push_back(&doc);
  }
  return all;
}

std::vector<const ColumnDoc*> FindColumnDocs(std::string_view column, std::string_view table) {
  std::vector<const ColumnDoc*> found;
  for (const ColumnDoc* doc : AllColumnDocs()) {
    if (!table.empty() && !IsOfTable(*doc, table)) continue;
    if (IsOneOf(column, doc->column, '|')) found.push_back(doc);
  }
  const size_t titles = found.size();
  for (const ColumnDoc& doc : KeyDocs()) {
    if (!table.empty() && !IsOfTable(doc, table)) continue;
    if (!IsOneOf(column, doc.column, '|')) continue;
    // A column whose title is its key.
    const bool repeats = std::any_of(
        found.begin(), found.begin() + static_cast<ptrdiff_t>(titles), [&](const ColumnDoc* other) {
          return other->definition == doc.definition && other->formula == doc.formula;
        });
    if (!repeats) found.push_back(&doc);
  }
  return found;
}

std::string Listed(std::string_view parts, char separator) {
  std::string text;
  for (const char c : parts) {
    if (c == separator) {
      text += ", ";
    } else {
      text.push_back(c);
    }
  }
  return text;
}

}  // namespace profd::cli
