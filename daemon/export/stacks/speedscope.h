// speedscope's JSON (https://www.speedscope.app/file-format-schema.json), in ns:
//
//   a profile for each thread   "evented": its Python functions, ranges, and operators, from the
//                               start of the first window on
//   a profile for each GPU      "sampled": the time of kernels, copies, and memsets by stack, below
//                               what launched them; the order says nothing
//
// Frames are those of folded stacks (folded_stacks.h), with the file and the first line of Python
// functions.
//
// Threads: any, one reader and sink each.
// Memory:  that of StackFrames, and of distinct stacks.
// Errors:  those of the reader and the sink; FAILED_PRECONDITION: the capture has neither ranges
// nor
//          GPU work.
#ifndef PROFD_DAEMON_EXPORT_STACKS_SPEEDSCOPE_H_
#define PROFD_DAEMON_EXPORT_STACKS_SPEEDSCOPE_H_

#include "absl/status/status.h"
#include "daemon/export/sink/output_buffer.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

// Leaves Finish() to the caller; the sink's errors are in `out`.
absl::Status WriteSpeedscope(store::CaptureReader& reader, OutputBuffer& out);

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_STACKS_SPEEDSCOPE_H_
