// The part of a Chrome trace before its events: what the capture was, and how far its
// numbers can be trusted.
#ifndef PROFD_DAEMON_EXPORT_CHROME_HEADER_H_
#define PROFD_DAEMON_EXPORT_CHROME_HEADER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "daemon/capture/capture_types.h"
#include "daemon/export/trace/layout.h"
#include "daemon/report/ranks/clock_alignment.h"

namespace profd::exporter {

// What the trace does not hold, of what the capture does.
struct ChromeLeftOut {
  int64_t gpu_annotations = 0;  // GpuPlan::annotations_left_out()
  int64_t operator_inputs = 0;  // OperatorTexts::left_out()
  int64_t cut_stacks = 0;       // ChromePython::cut_stack_count()
};

// The row of a thread's events, or of its functions of Python, which may be the same.
struct ChromeThread {
  int64_t tid = 0;
  bool is_python = false;
};

// From "{" to "traceEvents": [ and a line end. One member to a line: some loaders look for
// `"rank": N` line by line, so nothing before distributedInfo may read like it. Of an imported
// trace the members are those that it had. If profd wrote it, so is what it says of the capture.
std::string ChromeHeader(const CaptureRecord& record, const TraceLayout& layout,
                         std::span<const ChromeThread> threads, int64_t base_unix_ns,
                         const ChromeLeftOut& left_out);

// The JSON of the member "traceName", which is behind the events; empty: there is none.
std::string ChromeTraceName(const CaptureRecord& record);

// The same of a trace of several captures: which they are, and how far their clocks, one for each,
// may be off.
std::string MergedChromeHeader(std::span<const CaptureRecord* const> records,
                               const report::ClockAlignment& clocks, std::string_view group,
                               int64_t base_unix_ns);

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_CHROME_HEADER_H_
