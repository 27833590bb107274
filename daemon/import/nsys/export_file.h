// Opens the file of an Nsight Systems export as a descriptor that SQLite can read.
//
// Threads: any.
// Errors:  those of TraceFile; RESOURCE_EXHAUSTED for a full disk, or for more than
//          kMaxInflatedBytes; CANCELLED.
#ifndef PROFD_DAEMON_IMPORT_NSYS_EXPORT_FILE_H_
#define PROFD_DAEMON_IMPORT_NSYS_EXPORT_FILE_H_

#include <cstdint>
#include <filesystem>

#include "absl/status/statusor.h"
#include "daemon/base/unique_fd.h"
#include "daemon/import/trace_import.h"

namespace profd::importer {

// The limit for an inflated gzip file. SQLite needs random access, so the whole database is written
// to disk. Uncompressed files have no limit.
inline constexpr int64_t kMaxInflatedBytes = int64_t{32} << 30;

// Opens a database for reading. Inflates a gzip file to an unlinked file in options.directory.
absl::StatusOr<UniqueFd> OpenNsysExport(const std::filesystem::path& path,
                                        const ImportOptions& options,
                                        int64_t max_inflated_bytes = kMaxInflatedBytes);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_NSYS_EXPORT_FILE_H_
