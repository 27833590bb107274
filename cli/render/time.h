// The time report as text and as JSON. `limit` rows of each table; 0: all.
#ifndef PROFD_CLI_RENDER_TIME_H_
#define PROFD_CLI_RENDER_TIME_H_

#include <cstdint>
#include <string>

#include "cli/base/style.h"
#include "cli/client/capture_view.h"
#include "daemon/base/json_writer.h"
#include "daemon/report/time/time_report.h"

namespace profd::cli {

std::string RenderTime(const report::TimeReport& report, int64_t limit, const Style& style);
void WriteTimeJson(const CaptureView& view, const report::TimeReport& report, int64_t limit,
                   JsonWriter& json);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_TIME_H_
