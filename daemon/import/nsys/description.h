// Reads the description of a process from an Nsight Systems export.
//
// Threads: one.
// Errors:  those of store::ForeignDatabase.
#ifndef PROFD_DAEMON_IMPORT_NSYS_DESCRIPTION_H_
#define PROFD_DAEMON_IMPORT_NSYS_DESCRIPTION_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/capture/capture_types.h"
#include "daemon/import/nsys/source.h"

namespace profd::importer {

// Unix time of the export's time 0; 0: not known.
absl::StatusOr<int64_t> BaseUnixNs(NsysSource& source);

// The process's name and GPUs, and the version of Nsight Systems.
absl::Status DescribeProcess(NsysSource& source, ProcessKey process, CaptureRecord& record);

// Adds priorities and flags to known streams.
absl::Status DescribeStreams(NsysSource& source, ProcessKey process,
                             std::vector<GpuStream>& streams);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_NSYS_DESCRIPTION_H_
