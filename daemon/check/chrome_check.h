// The rules of those who load Chrome traces.
#ifndef PROFD_DAEMON_CHECK_CHROME_CHECK_H_
#define PROFD_DAEMON_CHECK_CHROME_CHECK_H_

#include "absl/status/status.h"
#include "daemon/check/byte_source.h"
#include "daemon/check/check_rules.h"
#include "daemon/check/trace_check.h"

namespace profd::check {

// Reads `source` to its end, or to where it is no JSON any more, and adds to `log` and to what
// `report` says was counted or left unchecked. Errors: the source's; INVALID_ARGUMENT: JSON, but no
// trace.
absl::Status CheckChrome(ByteSource& source, FindingLog& log, CheckReport& report);

}  // namespace profd::check

#endif  // PROFD_DAEMON_CHECK_CHROME_CHECK_H_
