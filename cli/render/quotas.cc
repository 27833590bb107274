#include "cli/render/quotas.h"

#include "absl/strings/str_format.h"
#include "cli/base/object.h"
#include "cli/render/report_tables.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/units.h"

namespace profd::cli {
namespace {

std::string Amount(QuotaView::Unit unit, int64_t amount) {
  switch (unit) {
    case QuotaView::Unit::kBytes:
      return FormatBytes(amount);
    case QuotaView::Unit::kMilliseconds:
      return absl::StrFormat("%.1f s", static_cast<double>(amount) / 1e3);
    case QuotaView::Unit::kCount:
      break;
  }
  return FormatCount(amount);
}

std::string_view UnitName(QuotaView::Unit unit) {
  switch (unit) {
    case QuotaView::Unit::kBytes:
      return "bytes";
    case QuotaView::Unit::kMilliseconds:
      return "milliseconds";
    case QuotaView::Unit::kCount:
      break;
  }
  return "count";
}

struct QuotaRow {
  const QuotaView* quota = nullptr;
  const QuotaView::Holding* holding = nullptr;  // nullptr: the row of all.

  std::string Amount(int64_t amount) const { return cli::Amount(quota->unit, amount); }
};

const table::Description<QuotaRow>& QuotaRowColumns() {
  using Row = QuotaRow;
  static const table::Description<Row> columns = {
      {[](const Row& row) { return row.holding == nullptr ? row.quota->name : std::string(); },
       {.title = "QUOTA", .doc = "Limited resource", .unknown_text = ""}},
      {[](const Row& row) {
         return row.holding == nullptr ? std::string("all") : row.holding->principal;
       },
       {.title = "PRINCIPAL", .doc = "User, job, or pod", .flexible = true}},
      {[](const Row& row) {
         return row.Amount(row.holding == nullptr ? row.quota->used : row.holding->used);
       },
       {.title = "USED", .doc = "Amount in use", .right = true}},
      {[](const Row& row) {
         return row.Amount(row.holding == nullptr ? row.quota->capacity : row.holding->share);
       },
       {.title = "MAY USE", .doc = "Current limit of the principal", .right = true}},
      {[](const Row& row) {
         return row.holding == nullptr ? row.Amount(row.quota->reserve) : std::string();
       },
       {.title = "FOR ROOT",
        .doc = "Amount reserved for root",
        .priority = 2,
        .unknown_text = "",
        .right = true}},
      {[](const Row& row) {
         return row.holding == nullptr ? FormatCount(row.quota->refused_count) : std::string();
       },
       {.title = "REFUSED",
        .doc = "Number of refused requests",
        .priority = 1,
        .unknown_text = "",
        .right = true}}};
  return columns;
}

const ObjectDescription<QuotaView::Holding>& HoldingObject() {
  using Row = QuotaView::Holding;
  static const ObjectDescription<Row> object(
      {{&Row::principal, {.key = "principal", .doc = "User, job, or pod"}},
       {&Row::used, {.key = "used", .doc = "Amount in use, in the unit of the quota"}},
       {&Row::share, {.key = "share", .doc = "Current limit of the principal"}},
       {&Row::active, {.key = "active", .doc = "Whether the principal is using the quota"}}});
  return object;
}

const ObjectDescription<QuotaView>& QuotaObject() {
  using Row = QuotaView;
  static const ObjectDescription<Row> object(
      {{&Row::name, {.key = "name", .doc = "Limited resource"}},
       {[](const Row& row) { return std::string(UnitName(row.unit)); },
        {.key = "unit", .doc = "Unit of the amounts: count, bytes, or milliseconds"}},
       {&Row::used, {.key = "used", .doc = "Total in use"}},
       {&Row::capacity, {.key = "capacity", .doc = "Total limit"}},
       {&Row::reserve, {.key = "reserve", .doc = "Amount reserved for root"}},
       {&Row::per_principal, {.key = "per_principal", .doc = "Limit per principal"}},
       {&Row::refused_count,
        {.key = "refused_count", .doc = "Refused requests", .unit = table::Unit::kCount}}},
      {ListOf<Row>(
          "holdings", "Use per principal, as far as the caller may see it", &HoldingObject,
          [](const Row& row) -> const auto& { return row.holdings; })});
  return object;
}

struct QuotasAnswer {
  std::string node;
  std::span<const QuotaView> quotas;
};

const ObjectDescription<QuotasAnswer>& QuotasAnswerObject() {
  using Row = QuotasAnswer;
  static const ObjectDescription<Row> object(
      {{&Row::node, {.key = "name", .doc = "Node name configured in the daemon"}}},
      {ListOf<Row>("quotas", "The quotas", &QuotaObject,
                   [](const Row& row) { return row.quotas; })});
  return object;
}

}  // namespace

std::string RenderQuotas(std::span<const QuotaView> quotas, const Style& style) {
  std::vector<QuotaRow> rows;
  for (const QuotaView& quota : quotas) {
    rows.push_back({.quota = &quota});
    for (const QuotaView::Holding& holding : quota.holdings) rows.push_back({&quota, &holding});
  }
  return RenderTable(QuotaRowColumns().ToTable("quotas", rows), style);
}

void WriteQuotasJson(const std::string& node, std::span<const QuotaView> quotas, JsonWriter& json) {
  QuotasAnswerObject().Write({node, quotas}, json);
}
void WriteQuotasSchema(JsonWriter& json) { QuotasAnswerObject().WriteSchema(json); }
std::vector<table::Column> QuotaColumns() { return QuotaRowColumns().columns(); }

}  // namespace profd::cli
