// All events of a capture as comma-separated values, for spreadsheets, pandas and SQL: a row per
// event, a line of columns' names first. What a kind of event does not have is empty.
//
//   kind          step, range, operator, instant, counter, note, allocation, free, api_call,
//   kernel,
//                 memcpy, memset, graph_launch, sync, overhead
//   start_ns      since the capture's start; empty: of no moment
//   duration_ns   of what takes time
//   thread        the kernel's number of the thread that it happened on, and thread_name
//   name          as recorded; of GPU work as viewers call it
//   depth         of ranges: 0 is outermost
//   device, context, stream, correlation    of GPU work, as CUDA numbers them; of memory, the
//   device bytes         copied, set, allocated or freed value         of counters; of steps the
//   number address, total_allocated_bytes, total_reserved_bytes, category    of memory
//
// Kind by kind, in the order in which the file has them: by time within a thread at most.
//
// Threads: any, one reader and sink each.
// Memory:  a batch of the reader's, and names.
// Errors:  those of the reader; the sink's are in `out`.
#ifndef PROFD_DAEMON_EXPORT_EVENT_CSV_H_
#define PROFD_DAEMON_EXPORT_EVENT_CSV_H_

#include "absl/status/status.h"
#include "daemon/export/sink/output_buffer.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

// Leaves Finish() to the caller.
absl::Status WriteEventCsv(store::CaptureReader& reader, OutputBuffer& out);

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_EVENT_CSV_H_
