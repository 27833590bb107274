// The writers behind ExportTrace(), one per format.
#ifndef PROFD_DAEMON_EXPORT_TRACE_WRITERS_H_
#define PROFD_DAEMON_EXPORT_TRACE_WRITERS_H_

#include "absl/status/status.h"
#include "daemon/export/output_buffer.h"
#include "daemon/store/capture_reader.h"

namespace profd::exporter {

// Each writes everything and leaves Finish() to the caller. Errors of the reader; those of
// the sink are in `out`.
absl::Status WriteChromeTrace(store::CaptureReader& reader, OutputBuffer& out);
absl::Status WritePerfettoTrace(store::CaptureReader& reader, OutputBuffer& out);

// Points per device of the memory curves in traces: more than a screen can show.
inline constexpr int64_t kMemoryCurvePoints = 65536;

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_TRACE_WRITERS_H_
