#include "cli/render/quotas.h"

#include "absl/strings/str_format.h"
#include "cli/base/table.h"
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

}  // namespace

std::string RenderQuotas(std::span<const QuotaView> quotas, const Style& style) {
  Table table({{.title = "QUOTA", .right = false},
               {.title = "PRINCIPAL", .right = false, .flexible = true},
               {.title = "USED"},
               {.title = "MAY USE"},
               {.title = "FOR ROOT", .drop_order = 2},
               {.title = "REFUSED", .drop_order = 1}});
  for (const QuotaView& quota : quotas) {
    const auto amount = [&](int64_t of) { return Amount(quota.unit, of); };
    table.AddRow({quota.name, "all", amount(quota.used), amount(quota.capacity),
                  amount(quota.reserve), FormatCount(quota.refused_count)});
    for (const QuotaView::Holding& holding : quota.holdings) {
      table.AddRow({"", holding.principal, amount(holding.used), amount(holding.share), "", ""});
    }
  }
  return table.Render(style);
}

void WriteQuotasJson(std::span<const QuotaView> quotas, JsonWriter& json) {
  json.Key("quotas").BeginArray();
  for (const QuotaView& quota : quotas) {
    json.BeginObject();
    json.Field("name", quota.name);
    json.Field("unit", UnitName(quota.unit));
    json.Field("used", quota.used);
    json.Field("capacity", quota.capacity);
    json.Field("reserve", quota.reserve);
    json.Field("per_principal", quota.per_principal);
    json.Field("refused_count", quota.refused_count);
    json.Key("holdings").BeginArray();
    for (const QuotaView::Holding& holding : quota.holdings) {
      json.BeginObject();
      json.Field("principal", holding.principal);
      json.Field("used", holding.used);
      json.Field("share", holding.share);
      json.Field("active", holding.active);
      json.EndObject();
    }
    json.EndArray();
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace profd::cli
