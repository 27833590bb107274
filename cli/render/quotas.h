// Formats the quotas of a daemon (`profctl node --quotas`).
#ifndef PROFD_CLI_RENDER_QUOTAS_H_
#define PROFD_CLI_RENDER_QUOTAS_H_

#include <span>
#include <string>
#include <vector>

#include "cli/base/style.h"
#include "cli/client/daemon_client.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/table/column.h"

namespace profd::cli {

// A row per resource with its total, then one per principal that uses some.
std::string RenderQuotas(std::span<const QuotaView> quotas, const Style& style);
// {"name", "quotas": [...]}; `node` is the daemon's own name for its node.
void WriteQuotasJson(const std::string& node, std::span<const QuotaView> quotas, JsonWriter& json);
void WriteQuotasSchema(JsonWriter& json);
std::vector<table::Column> QuotaColumns();

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_QUOTAS_H_
