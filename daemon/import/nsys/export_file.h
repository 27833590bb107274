// The file that an Nsight Systems export lies in, as a descriptor that SQLite can read.
//
// Threads: any.
// Errors:  those of TraceFile; RESOURCE_EXHAUSTED for a disk that is full, or more than
//          kMaxInflatedBytes; CANCELLED.
#ifndef PROFD_DAEMON_IMPORT_NSYS_EXPORT_FILE_H_
#define PROFD_DAEMON_IMPORT_NSYS_EXPORT_FILE_H_

#include <cstdint>
#include <filesystem>

#include "absl/status/statusor.h"
#include "daemon/base/unique_fd.h"
#include "daemon/import/trace_import.h"

namespace profd::importer {

// A gzip file inflates to at most this. SQLite reads anywhere in a database, so it lies on the
// disk as a whole; files that are not compressed have no limit.
inline constexpr int64_t kMaxInflatedBytes = int64_t{32} << 30;

// Opens a database for reading. What gzip compressed is inflated to a file without a name in
// options.directory.
absl::StatusOr<UniqueFd> OpenNsysExport(const std::filesystem::path& path,
                                        const ImportOptions& options,
                                        int64_t max_inflated_bytes = kMaxInflatedBytes);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_NSYS_EXPORT_FILE_H_
