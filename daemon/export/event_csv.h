// All events of a capture as comma-separated values, for spreadsheets, pandas, and SQL: a line of
// column names, then a row per event. Columns that do not apply to an event are empty.
//
//   kind          step, range, operator, instant, counter, note, allocation, free, api_call,
//                 kernel, memcpy, memset, graph_launch, mem_decompress, sync, overhead
//   start_ns      since the capture's start; empty: no time
//   duration_ns   of events with a duration
//   thread        the kernel's number of the event's thread, and thread_name
//   name          as recorded; for GPU work, as viewers call it
//   depth         of ranges: 0 is outermost. Ranges that overlap others without nesting have a
//                 row of their own (a `thread` from 2^30), and do not count in depths, unless there
//                 are too many ranges (kMostOverlapRanges)
//   device, context, stream, correlation
//                 of GPU work, as CUDA numbers them; of memory, the device
//   bytes         copied, set, allocated, or freed
//   value         of counters; of steps, the number
//   address, total_allocated_bytes, total_reserved_bytes, category
//                 of memory
//   arguments     of ranges: what the program gave them, as a JSON object
//
// Events are ordered by kind, and within a kind as in the file: by time within a thread at most.
//
// Threads: any, one reader and sink each.
// Memory:  a batch of the reader's, and names; with overlapping ranges, that of
//          report/index/overlaps.h.
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
