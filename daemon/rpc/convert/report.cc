#include "daemon/rpc/convert/report.h"

#include <cstdint>
#include <string_view>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/text.h"
#include "daemon/report/ranks/rank_summary.h"

namespace profd::rpc {
namespace {

void ColumnToProto(const table::Column& column, v1::Column& message) {
  message.set_key(column.key);
  message.set_title(column.title);
  message.set_doc(column.doc);
  message.set_formula(column.formula);
  message.set_type(static_cast<v1::Column::Type>(column.type));
  message.set_unit(static_cast<v1::Column::Unit>(column.unit));
  message.set_priority(column.priority);
  message.set_unknown_text(column.unknown_text);
  message.set_nullable(column.nullable);
  message.set_only_if_set(column.only_if_set);
  message.set_flexible(column.flexible);
  message.set_max_width(column.max_width);
  message.set_highlight(column.highlight);
  message.set_over_ranks(static_cast<v1::Column::OverRanks>(column.over_ranks));
}

struct CellsToProto {
  v1::Cells& message;

  void operator()(const std::vector<int64_t>& ints) const {
    message.mutable_int_deltas()->Reserve(static_cast<int>(ints.size()));
    uint64_t before = 0;
    // Neighbors are mostly near each other, and small numbers are short on the wire.
    for (const int64_t value : ints) {
      message.add_int_deltas(static_cast<int64_t>(static_cast<uint64_t>(value) - before));
      before = static_cast<uint64_t>(value);
    }
  }
  void operator()(const std::vector<double>& reals) const {
    message.mutable_reals()->Add(reals.begin(), reals.end());
  }
  void operator()(const std::vector<uint8_t>& bools) const {
    for (const uint8_t value : bools) message.add_bools(value != 0);
  }
  void operator()(const std::vector<std::string>& texts) const {
    absl::flat_hash_map<std::string_view, uint32_t> words;
    for (const std::string& text : texts) {
      const auto [at, is_new] = words.try_emplace(text, static_cast<uint32_t>(words.size()));
      if (is_new) message.add_words(text);
      message.add_texts(at->second);
    }
  }
  void operator()(const std::vector<table::Sizes>& rows) const {
    for (const table::Sizes& sizes : rows) message.mutable_sizes()->Add(sizes.begin(), sizes.end());
  }
};

void TableToProto(const table::Table& table, v1::Table& message) {
  message.set_key(table.key);
  for (const table::Column& column : table.columns) ColumnToProto(column, *message.add_columns());
  for (const table::Cells& cells : table.cells) {
    std::visit(CellsToProto{*message.add_cells()}, cells);
  }
  message.set_row_count(table.row_count);
}

}  // namespace

void ReportToProto(const table::Report& report, v1::Report& message) {
  message.set_name(report.name);
  message.set_version(report.version);
  TableToProto(report.totals, *message.mutable_totals());
  for (const table::Table& table : report.tables) TableToProto(table, *message.add_tables());
  for (const std::string& note : report.notes) message.add_notes(ToValidUtf8(note));
}

absl::Status RankSummaryToProto(std::string_view summary, v1::RankSummary& message) {
  ASSIGN_OR_RETURN(const report::RankSummary kept, report::DecodeRankSummary(summary));
  ReportToProto(report::ToReport(kept.collectives), *message.mutable_collectives());
  message.set_left_out_step_count(kept.left_out_step_count);
  return absl::OkStatus();
}

}  // namespace profd::rpc
