// ImportTrace() makes a capture file of a trace of another profiler: the Chrome JSON that
// torch.profiler (Kineto) writes, plain or gzip, with the field names of its older releases too,
// of CUDA and of HIP; and what `profctl export` wrote.
//
// What becomes of it:
//
//   cpu_op, user_annotation            ranges and operators, with inputs, scalars, sequence numbers
//   ProfilerStep#N                     step N, with its own begin and end, and no range
//   python_function                    ranges of wire::RangeCategory::kPython, in a thread of their
//                                      own next to the one they are of, with the same os_thread
//   cuda_runtime, cuda_driver, hip...  API calls; xpu_runtime and the like too
//   kernel, gpu_memcpy, gpu_memset     GPU rows
//   cuda_sync, cuda_event, overhead    the rows of these names
//   [memory], [OutOfMemory]            memory rows, notes
//   other instants, counters           instants, counters
//   B and E; b and e                   ranges of the thread; of its lanes (paired_events.h)
//   deviceProperties, distributedInfo, thread and process names    the record
//
// Annotations on GPU rows, and arguments that no report needs, are kept for exports, so that an
// export has what the trace had; an import of an export is exported as the same bytes. Flows follow
// from these, and are not kept. What is not understood is counted in CaptureRecord::imported.
//
// Ranges nest by torch's own rule: of those that began before it on its thread, a range is in the
// innermost that ends no earlier than it does.
//
// Of a file that ends too early, all whole events are read, and the capture is PARTIAL: it ends
// where the rest would have begun (kept_part.h).
//
// Threads: the caller's.
// Memory:  a window of the trace (2 MiB; more only for a longer event, up to kMaxEventBytes),
//          names, distinct inputs, and kMaxRowBytes of rows; rows beyond wait in a file without a
//          name in `directory`.
// Errors:  DATA_LOSS for a damaged file and INVALID_ARGUMENT for one that is no trace, both with
//          the byte at which they show (of the JSON, in a gzip file), also for one that is cut off
//          before its first event ends; NOT_FOUND, PERMISSION_DENIED,
//          FAILED_PRECONDITION (a folder, a merged trace), RESOURCE_EXHAUSTED (more than
//          CaptureBuilder's kMaxHeldRows, kMaxCalls, or kMaxStreams), CANCELLED; those of the
//          capture file.
#ifndef PROFD_DAEMON_IMPORT_TRACE_IMPORT_H_
#define PROFD_DAEMON_IMPORT_TRACE_IMPORT_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/base/clock.h"
#include "daemon/capture/capture_types.h"
#include "daemon/store/file/seal.h"

namespace profd::importer {

struct ImportOptions {
  std::filesystem::path directory;  // Where ID.profd is made; it must be there.
  std::string id;                   // ULID; empty: a new one.
  std::string group_id;             // ULID, of the traces of one job (trace_set.h); empty: none.
  // Called now and then with the bytes read of the file, and all it has. May be empty.
  std::function<void(int64_t done_bytes, int64_t total_bytes)> on_progress;
  // Asked now and then; true ends the import CANCELLED. May be empty.
  std::function<bool()> is_cancelled;
};

struct ImportedCapture {
  CaptureRecord record;        // As the file has it, with file_bytes and file_sha256.
  std::filesystem::path file;  // directory/ID.profd
};

// Leaves nothing behind in the directory after an error.
absl::StatusOr<ImportedCapture> ImportTrace(const std::filesystem::path& trace, Clock& clock,
                                            const ImportOptions& options);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_TRACE_IMPORT_H_
