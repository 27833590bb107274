// The quotas of a daemon: `profctl node --quotas`.
#ifndef PROFD_CLI_RENDER_QUOTAS_H_
#define PROFD_CLI_RENDER_QUOTAS_H_

#include <span>
#include <string>

#include "cli/base/style.h"
#include "cli/client/daemon_client.h"
#include "daemon/base/json_writer.h"

namespace profd::cli {

// A row per resource with its total, then one per principal that uses some.
std::string RenderQuotas(std::span<const QuotaView> quotas, const Style& style);
// As field "quotas" of an open object.
void WriteQuotasJson(std::span<const QuotaView> quotas, JsonWriter& json);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_QUOTAS_H_
