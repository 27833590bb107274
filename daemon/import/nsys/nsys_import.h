// ImportNsys() converts an Nsight Systems export (`nsys export -t sqlite`) to capture files, one
// for each process with GPU work or NVTX ranges. It reads the schemas of 2023 to 2026, plain or
// gzip.
//
// Mapping:
//
//   CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET, _GRAPH_TRACE    GPU rows
//   CUPTI_ACTIVITY_KIND_RUNTIME, _DRIVER    API calls, without the versions in their names
//   CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, _CUDA_EVENT, _OVERHEAD   the rows of these names
//   PROFILER_OVERHEAD                       overheads of CUPTI
//   CUDA_GPU_MEMORY_USAGE_EVENTS            memory of the GPU, as CUDA itself allocates it
//   NVTX_EVENTS    ranges, marks, names of domains and threads; what emit_nvtx() of torch wrote is
//                  operators, with inputs and sequence numbers; "ProfilerStep#N" is step N
//   TARGET_INFO_*, ThreadNames, PROCESSES   the record
//
// Rows of other tables and rows that cannot be imported are counted by table in
// CaptureRecord::imported, each in one capture of the file. Host, user, paths, and command lines
// are left out.
//
// The correlation ID connects a launch with its kernel within a process. All processes share a
// clock.
//
// Threads: the caller's.
// Memory:  that of one capture at a time, as ImportTrace(); 64 MiB of texts.
// Errors:  those of OpenNsysExport(), SurveyNsys(), and of the capture file; FAILED_PRECONDITION
//          for a database that was not closed; RESOURCE_EXHAUSTED (more than
//          CaptureBuilder's kMaxHeldRows, kMaxCalls, or kMaxStreams), CANCELLED.
#ifndef PROFD_DAEMON_IMPORT_NSYS_NSYS_IMPORT_H_
#define PROFD_DAEMON_IMPORT_NSYS_NSYS_IMPORT_H_

#include <filesystem>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/clock.h"
#include "daemon/import/trace_import.h"

namespace profd::importer {

// Whether the file is an SQLite database, plain or gzip. False where it cannot be read.
bool IsSqliteDatabase(const std::filesystem::path& path);

// Sorted by process ID. If two or more processes have GPU work, their captures form the group
// options.group_id. The process with the most rows gets options.id. After an error, the directory
// has no new files.
absl::StatusOr<std::vector<ImportedCapture>> ImportNsys(const std::filesystem::path& path,
                                                        Clock& clock, const ImportOptions& options);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_NSYS_NSYS_IMPORT_H_
