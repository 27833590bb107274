// ImportNsys() makes capture files of an export of Nsight Systems (`nsys export -t sqlite`), of
// the schemas of 2023 to 2026, plain or gzip: one for each process with GPU work or NVTX ranges.
//
// What becomes of it:
//
//   CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET, _GRAPH_TRACE    GPU rows
//   CUPTI_ACTIVITY_KIND_RUNTIME, _DRIVER    API calls, without the versions in their names
//   CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, _CUDA_EVENT, _OVERHEAD   the rows of these names
//   PROFILER_OVERHEAD                       overheads, as far as they are CUPTI's
//   CUDA_GPU_MEMORY_USAGE_EVENTS            memory of the GPU, as CUDA itself allocates it
//   NVTX_EVENTS    ranges, marks, names of domains and threads; what emit_nvtx() of torch wrote is
//                  operators, with inputs and sequence numbers; "ProfilerStep#N" is step N
//   TARGET_INFO_*, ThreadNames, PROCESSES   the record
//
// Rows of all other tables are counted in CaptureRecord::imported by table, each in one capture of
// the file, as are rows that cannot be imported. Host, user, paths, and command lines are left out.
//
// A launch belongs to a kernel by correlation within its process. Processes share a clock.
//
// Threads: the caller's.
// Memory:  that of one capture at a time, as ImportTrace(); 64 MiB of texts.
// Errors:  those of OpenNsysExport(), SurveyNsys(), and of the capture file; FAILED_PRECONDITION
//          for a database that was not closed; RESOURCE_EXHAUSTED (more than
//          CaptureBuilder::kMaxHeldRows), CANCELLED.
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

// By process id. If two or more have GPU work, those are of the group options.group_id.
// options.id is that of the process with most rows. Leaves nothing behind in the directory after an
// error.
absl::StatusOr<std::vector<ImportedCapture>> ImportNsys(const std::filesystem::path& path,
                                                        Clock& clock, const ImportOptions& options);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_NSYS_NSYS_IMPORT_H_
