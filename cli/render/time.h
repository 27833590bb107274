// The time report as text. `limit` rows of each table; 0: all.
#ifndef PROFD_CLI_RENDER_TIME_H_
#define PROFD_CLI_RENDER_TIME_H_

#include <cstdint>
#include <string>

#include "cli/base/style.h"
#include "daemon/report/time/time_report.h"

namespace profd::cli {

std::string RenderTime(const report::TimeReport& report, int64_t limit, const Style& style);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_TIME_H_
