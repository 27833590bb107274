// The parts of a capture record that all importers fill in the same way.
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_IMPORT_IMPORT_RECORD_H_
#define PROFD_DAEMON_IMPORT_IMPORT_RECORD_H_

#include <cstdint>
#include <filesystem>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/capture/capture_types.h"
#include "daemon/import/capture_builder.h"
#include "daemon/import/trace_import.h"

namespace profd::importer {

// The record of a new capture of `trace`, before the trace is read.
CaptureRecord BeginImport(const std::filesystem::path& trace, const ImportOptions& options,
                          absl::Time now);

// Adds what the trace holds. `base_unix_ns` is its time 0. Needs record.gpu.devices.
void DescribeContents(const CaptureBuilder::Contents& contents, int64_t base_unix_ns,
                      CaptureRecord& record);

// The same error with the file's name.
absl::Status WithPath(const absl::Status& status, const std::filesystem::path& path);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_IMPORT_RECORD_H_
