// What profd-report can make of a capture file, by the name that requests carry.
//
// How do I add a report?  A row in report/reports.cc. A row in kTables (tables.cc) is for an RPC of
// its own.
//
// Errors: those of the store, the report, and the export. INVALID_ARGUMENT: unknown name, or bad
//         options. RESOURCE_EXHAUSTED: the answer is too large for one message.
#ifndef PROFD_DAEMON_REPORT_WORKER_TABLES_H_
#define PROFD_DAEMON_REPORT_WORKER_TABLES_H_

#include <string_view>

#include "absl/status/status.h"
#include "daemon/report_worker/answer.h"

namespace profd::report_worker {

// Reads the capture behind `capture`, a descriptor, and sends the answer but for its end.
absl::Status MakeTable(std::string_view table, std::string_view options, int capture,
                       Answer& answer);

}  // namespace profd::report_worker

#endif  // PROFD_DAEMON_REPORT_WORKER_TABLES_H_
