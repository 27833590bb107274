// Formats of other profilers that users may take for a trace of torch.profiler.
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_IMPORT_FOREIGN_FORMAT_H_
#define PROFD_DAEMON_IMPORT_FOREIGN_FORMAT_H_

#include <string_view>

namespace profd::importer {

// Names the format of a file that begins so, and the program that reads it: "an SQLite database,
// ...". Empty: unknown.
std::string_view ForeignFormat(std::string_view untrusted_start);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_FOREIGN_FORMAT_H_
