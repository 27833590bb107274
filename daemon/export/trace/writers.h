// The writers behind ExportTrace(), one per format.
#ifndef PROFD_DAEMON_EXPORT_TRACE_WRITERS_H_
#define PROFD_DAEMON_EXPORT_TRACE_WRITERS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/export/sink/output_buffer.h"
#include "daemon/export/trace/layout.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

// Each writes everything and leaves Finish() to the caller. Errors of the reader; those of
// the sink are in `out`. In a merged trace they write a capture's part of it.
//
// Of a merged Chrome trace: the events, without what is before and after them all.
absl::Status WriteChromeTrace(store::CaptureReader& reader, const TracePlace& place,
                              OutputBuffer& out);
// Of a merged Perfetto trace: the packets. Returns the first sequence that is free after it.
absl::StatusOr<uint64_t> WritePerfettoTrace(store::CaptureReader& reader, const TracePlace& place,
                                            OutputBuffer& out);

// Unix time (ns) that a Chrome trace counts from. `earliest_ns`: from the start to its first event.
int64_t ChromeBase(int64_t start_unix_ns, int64_t earliest_ns);

// Points per device of the memory curves in traces: more than a screen can show.
inline constexpr int64_t kMemoryCurvePoints = 65536;

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_TRACE_WRITERS_H_
