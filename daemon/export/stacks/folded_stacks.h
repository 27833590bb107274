// Folded stacks: what flamegraph.pl, speedscope and others draw as flame graphs. A line is a stack,
// outermost frame first, and its own ns:
//
//   python;forward;aten::linear;aten::addmm 18250
//
// Of the CPU: self time of Python functions, ranges, and operators, below the thread's name; time
// in CUDA's API belongs to the range that called it. Of GPUs: time of kernels, copies and memsets,
// below the functions and ranges that launched them, whenever they ran; work of several streams
// counts as often as it ran. Lines with equal stacks are one, and ProfilerStep#7 is ProfilerStep*,
// so that steps add up. Python functions are there if the capture has stacks or modules, or the
// imported trace with_stack; modules are named by their place in the model.
//
// Threads: any, one reader and sink each.
// Memory:  that of StackFrames, and of distinct stacks.
// Errors:  those of the reader and the sink; FAILED_PRECONDITION: nothing of the kind was recorded.
#ifndef PROFD_DAEMON_EXPORT_STACKS_FOLDED_STACKS_H_
#define PROFD_DAEMON_EXPORT_STACKS_FOLDED_STACKS_H_

#include "absl/status/status.h"
#include "daemon/export/sink/output_buffer.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

// Leave Finish() to the caller; the sink's errors are in `out`.
absl::Status WriteFoldedCpu(store::CaptureReader& reader, OutputBuffer& out);
absl::Status WriteFoldedDevice(store::CaptureReader& reader, OutputBuffer& out);

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_STACKS_FOLDED_STACKS_H_
