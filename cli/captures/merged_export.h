// One trace of the captures of a set, on common time.
#ifndef PROFD_CLI_CAPTURES_MERGED_EXPORT_H_
#define PROFD_CLI_CAPTURES_MERGED_EXPORT_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "cli/captures/capture_set.h"
#include "cli/captures/progress.h"
#include "daemon/export/trace_export.h"
#include "daemon/report/ranks/clock_alignment.h"

namespace profd::cli {

struct MergedExport {
  int64_t bytes = 0;
  report::ClockAlignment clocks;  // Of the members that are in it, in their order.
};

// Copies the capture files of members that are with daemons into a folder of its own next to
// `path`, or for "-" among temporary files, which is removed in any case; then aligns their clocks
// and writes them as one trace. CANCELLED once `aborted` is set.
absl::StatusOr<MergedExport> ExportMerged(CaptureSet& set, exporter::TraceFormat format,
                                          const std::string& path, const std::atomic<bool>& aborted,
                                          ProgressLine& progress);

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_MERGED_EXPORT_H_
