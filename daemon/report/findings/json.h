// Findings as JSON, for `profctl report --json` and the HTML page.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_JSON_H_
#define PROFD_DAEMON_REPORT_FINDINGS_JSON_H_

#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "daemon/base/json_writer.h"
#include "daemon/report/findings/findings.h"

namespace profd::report {

// Writes fields of an open object: "verdict", "step_count", "mean_step_ns", where they are
// known "unrecorded_step_ns" and "unrecorded_idle_ns", then "findings", "skipped",
// "passed". `shown` cleans the names of evidence, which come from the target.
void WriteFindingsFields(const FindingsReport& report, JsonWriter& json,
                         absl::FunctionRef<std::string(std::string_view)> shown);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_JSON_H_
