// The rules of Perfetto's trace processor for its own format.
#ifndef PROFD_DAEMON_CHECK_PERFETTO_CHECK_H_
#define PROFD_DAEMON_CHECK_PERFETTO_CHECK_H_

#include "absl/status/status.h"
#include "daemon/check/byte_source.h"
#include "daemon/check/check_rules.h"
#include "daemon/check/trace_check.h"

namespace profd::check {

// Reads `source` packet by packet, to its end or to where it is no chain of packets any more, and
// adds to `log` and to what `report` says was counted or left unchecked. Of packets it looks at
// those of tracks, their events and clocks; all others are taken as they are. Errors: the source's.
absl::Status CheckPerfetto(ByteSource& source, FindingLog& log, CheckReport& report);

}  // namespace profd::check

#endif  // PROFD_DAEMON_CHECK_PERFETTO_CHECK_H_
