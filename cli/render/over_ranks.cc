#include "cli/render/over_ranks.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/render/group_reports.h"
#include "cli/render/group_view.h"
#include "cli/render/report_tables.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/over_ranks.h"
#include "daemon/base/text.h"
#include "daemon/report/reports.h"

namespace profd::cli {
namespace {

constexpr std::array<std::string_view, 1> kDevices = {"devices"};
constexpr std::array<std::string_view, 2> kDevicesAndFailures = {"devices", "out_of_memory"};
constexpr std::array<std::string_view, 2> kPointsInTime = {"peak_blocks", "samples"};

constexpr std::array kKinds = {
    OverRanksKind{.report = "kernels", .figure = "total_ns"},
    OverRanksKind{.report = "copies", .figure = "total_ns"},
    OverRanksKind{.report = "syncs", .figure = "total_ns"},
    OverRanksKind{.report = "idle", .figure = "idle_ns"},
    OverRanksKind{.report = "compile", .figure = ""},
    OverRanksKind{.report = "modules", .figure = "total_ns"},
    OverRanksKind{.report = "time", .figure = "", .of_each_rank = kDevices},
    OverRanksKind{.report = "memory",
                  .figure = "peak_bytes",
                  .left_out = kPointsInTime,
                  .of_each_rank = kDevicesAndFailures}};

// Keys that number what a rank has: its first GPU is another one than that of the next rank.
constexpr std::array<std::string_view, 1> kOwnNumbers = {"device"};

constexpr std::string_view kRanks = "ranks";  // The table of totals.

bool Has(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

struct RankReport {
  std::string rank;
  const table::Report* report;
};

std::vector<RankReport> PresentReports(const CaptureSet& set,
                                       std::span<const table::Report* const> reports) {
  std::vector<RankReport> present;
  present.reserve(reports.size());
  for (size_t i = 0; i < reports.size(); ++i) {
    if (reports[i] != nullptr) present.push_back({LabelOf(set.members()[i]), reports[i]});
  }
  return present;
}

// The table of this key of each rank that has it.
std::vector<table::RankTable> TablesNamed(std::span<const RankReport> ranks, std::string_view key) {
  std::vector<table::RankTable> tables;
  tables.reserve(ranks.size());
  for (const RankReport& rank : ranks) {
    const table::Table* const found = rank.report->Find(key);
    if (found != nullptr) tables.push_back({.rank = rank.rank, .table = found});
  }
  return tables;
}

// Totals without a title are for scripts; the others fit a terminal from the first on.
void MakeTotalsOptional(std::vector<table::Column>& columns) {
  int priority = 1;
  for (table::Column& column : columns) {
    if (column.key == "rank" || column.priority < 0) continue;
    column.priority = column.title.empty() ? table::Column::kOnlyInData : priority++;
    column.only_if_set = true;
  }
}

// A row for each rank; without columns if the report has no totals.
table::Table TotalsOfRanks(std::span<const RankReport> ranks) {
  std::vector<table::RankTable> totals;
  totals.reserve(ranks.size());
  for (const RankReport& rank : ranks) {
    totals.push_back({.rank = rank.rank, .table = &rank.report->totals});
  }
  table::Table rows = table::OfEachRank(totals);
  rows.key = std::string(kRanks);
  MakeTotalsOptional(rows.columns);
  return rows;
}

bool HasFigures(std::string_view note) {
  return std::ranges::any_of(note, [](char c) { return c >= '0' && c <= '9'; });
}

// Notes with figures are totals in words, which the table of ranks has.
std::vector<std::string> NotesOf(std::span<const RankReport> ranks) {
  std::vector<std::pair<std::string, std::vector<std::string>>> notes;  // The note, and its ranks.
  for (const RankReport& rank : ranks) {
    for (const std::string& note : rank.report->notes) {
      if (HasFigures(note)) continue;
      auto found = std::ranges::find(notes, note, [](const auto& each) { return each.first; });
      if (found == notes.end()) found = notes.insert(notes.end(), {note, {}});
      found->second.push_back(rank.rank);
    }
  }
  std::vector<std::string> texts;
  texts.reserve(notes.size());
  for (auto& [note, of] : notes) {
    if (of.size() == ranks.size()) {
      texts.push_back(std::move(note));
      continue;
    }
    constexpr size_t kMostNamed = 8;
    std::string names;
    for (size_t i = 0; i < of.size() && i < kMostNamed; ++i) {
      StrAppend(&names, i > 0 ? ", " : "", of[i]);
    }
    if (of.size() > kMostNamed) StrAppend(&names, " and ", of.size() - kMostNamed, " more");
    texts.push_back(StrCat(of.size() == 1 ? "Rank " : "Ranks ", names, ": ", note));
  }
  return texts;
}

// Empty: all have the same number of steps, so that their totals are of as much.
std::string NoteOnSteps(const CaptureSet& set, std::span<const table::Report* const> reports) {
  constexpr int kMostNamed = 8;
  std::set<int64_t> counts;
  std::string text;
  int named = 0;
  for (size_t i = 0; i < reports.size(); ++i) {
    if (reports[i] == nullptr) continue;
    const int64_t steps = set.members()[i].view.record.covered_steps;
    counts.insert(steps);
    if (named++ == kMostNamed) text += ", ...";
    if (named > kMostNamed) continue;
    StrAppend(&text, text.empty() ? "" : ", ", LabelOf(set.members()[i]), ": ", steps);
  }
  if (counts.size() < 2) return "";
  return StrCat("The captures have different numbers of steps (", text,
                "): compare means, not totals.");
}

// One cell: what the ranks are compared by, as far as one name says it.
table::Table FigureTotals(std::string figure) {
  table::Column column = table::PlainColumn(
      "figure", "Figure",
      "The column of the first table that min_over_ranks, median_over_ranks, and max_over_ranks "
      "are of; empty: none, the rows are those of each rank");
  column.type = table::Type::kText;
  return {.key = "totals",
          .columns = {std::move(column)},
          .cells = {std::vector<std::string>{std::move(figure)}},
          .row_count = 1};
}

std::string KeyOfFigure(const table::Table& rows, std::string_view wanted) {
  const size_t at = table::FigureOf(rows.columns, wanted);
  return at == table::Table::npos || !table::HasKey(rows.columns) ? "" : rows.columns[at].key;
}

bool IsOfEachRank(const OverRanksKind& kind, const table::Table& shape) {
  return !table::HasKey(shape.columns) || Has(kind.of_each_rank, shape.key);
}

template <typename Merge>
table::Report Combine(const OverRanksKind& kind, std::span<const RankReport> ranks, Merge merge) {
  const table::Report& first = *ranks.front().report;
  table::Report combined = {.name = first.name, .version = first.version, .notes = NotesOf(ranks)};
  for (const table::Table& shape : first.tables) {
    if (Has(kind.left_out, shape.key)) continue;
    combined.tables.push_back(merge(TablesNamed(ranks, shape.key)));
  }
  if (!first.totals.columns.empty()) combined.tables.push_back(TotalsOfRanks(ranks));
  return combined;
}

// The columns of the tables, whatever the figure: its unit and type are not said.
table::Report ShapeOf(const OverRanksKind& kind, bool of_each_rank) {
  const table::Report one = report::FindReportKind(kind.report)->shape();
  const std::array<RankReport, 1> ranks = {RankReport{.report = &one}};
  table::Report shape =
      Combine(kind, ranks, [&](const std::vector<table::RankTable>& tables) -> table::Table {
        const table::Table& of_one = *tables.front().table;
        if (of_each_rank || IsOfEachRank(kind, of_one)) return table::OfEachRank(tables);
        const size_t figure = table::FigureOf(of_one.columns, kind.figure);
        table::Table merged = {.key = of_one.key};
        merged.columns =
            table::MergedColumns(of_one.columns, figure, table::Type::kReal, kOwnNumbers);
        for (table::Column& column : merged.columns) {
          if (column.key.ends_with("_over_ranks")) column.unit = table::Unit::kNone;
        }
        return merged;
      });
  shape.totals = FigureTotals("");
  return shape;
}

// Whether people would see the ranks and nothing else.
bool HasNoTotals(const table::Table& ranks) {
  for (size_t i = 1; i < ranks.columns.size(); ++i) {
    const table::Column& column = ranks.columns[i];
    if (column.priority >= 0 && !table::IsUnset(column, ranks.cells[i])) return false;
  }
  return true;
}

// "host_gaps": "Host gaps".
std::string HeadingOf(std::string_view key) {
  std::string heading(key);
  std::ranges::replace(heading, '_', ' ');
  if (!heading.empty() && heading[0] >= 'a' && heading[0] <= 'z') {
    heading[0] = static_cast<char>(heading[0] - 'a' + 'A');
  }
  return heading;
}

}  // namespace

const OverRanksKind* FindOverRanksKind(std::string_view report) {
  const auto* const found = std::ranges::find(kKinds, report, &OverRanksKind::report);
  return found == kKinds.end() ? nullptr : found;
}

table::Report ReportOverRanks(const CaptureSet& set, const OverRanksKind& kind,
                              std::span<const table::Report* const> reports,
                              std::string_view figure) {
  const std::vector<RankReport> ranks = PresentReports(set, reports);
  if (figure.empty()) figure = kind.figure;
  table::Report combined = Combine(kind, ranks, [&](const std::vector<table::RankTable>& tables) {
    if (IsOfEachRank(kind, *tables.front().table)) return table::OfEachRank(tables);
    return table::MergeRanks(tables, figure, kOwnNumbers);
  });
  if (std::string note = NoteOnSteps(set, reports); !note.empty()) {
    combined.notes.push_back(std::move(note));
  }
  combined.totals = FigureTotals(KeyOfFigure(ranks.front().report->tables.front(), figure));
  return combined;
}

table::Report ReportOfEachRank(const CaptureSet& set, const OverRanksKind& kind,
                               std::span<const table::Report* const> reports) {
  const std::vector<RankReport> ranks = PresentReports(set, reports);
  table::Report combined = Combine(kind, ranks, [](const std::vector<table::RankTable>& tables) {
    return table::OfEachRank(tables);
  });
  combined.totals = FigureTotals("");
  return combined;
}

std::string RenderOverRanks(const table::Report& report, const Style& style) {
  std::string text;
  for (const table::Table& rows : report.tables) {
    if (rows.size() == 0 || (rows.key == kRanks && HasNoTotals(rows))) continue;
    const std::string body = RenderTable(rows, style);
    if (rows.key != "rows") {
      StrAppend(&text, text.empty() ? "" : "\n", style.Paint(Colour::kBold, HeadingOf(rows.key)),
                "\n");
    }
    text += body;
  }
  for (const std::string& note : report.notes) StrAppend(&text, ForDisplay(note, 8192), "\n");
  if (text.empty()) text = "No rank recorded any of it.\n";
  return text;
}

std::vector<table::Column> OverRanksColumns() {
  const table::Report shape = ShapeOf(kKinds.front(), /*of_each_rank=*/false);
  std::vector<table::Column> compared;
  for (const table::Column& column : shape.tables.front().columns) {
    const bool is_figure = column.key.ends_with("_over_ranks");
    if (is_figure || column.key == table::kMaxRank || column.key == table::kRankCount) {
      compared.push_back(column);
    }
  }
  return compared;
}

void WriteOverRanksSchema(std::string_view report, JsonWriter& json) {
  WriteSetReportSchema(ShapeOf(*FindOverRanksKind(report), /*of_each_rank=*/false), json);
}

void WriteOfEachRankSchema(std::string_view report, JsonWriter& json) {
  WriteSetReportSchema(ShapeOf(*FindOverRanksKind(report), /*of_each_rank=*/true), json);
}

}  // namespace profd::cli
