// What an export of Nsight Systems says of a process beside its events.
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

// The process's name and GPUs, and what wrote the export.
absl::Status DescribeProcess(NsysSource& source, ProcessKey process, CaptureRecord& record);

// Priorities and flags of streams that are there.
absl::Status DescribeStreams(NsysSource& source, ProcessKey process,
                             std::vector<GpuStream>& streams);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_NSYS_DESCRIPTION_H_
