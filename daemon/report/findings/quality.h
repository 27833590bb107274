// The checks of a capture's quality that need its events: GPU work without a launch, launches
// without work, work before its launch, ranges cut by the window.
//
// Threads: any, one reader each. Errors: the reader's.
// Memory:  that of GpuAttribution.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_QUALITY_H_
#define PROFD_DAEMON_REPORT_FINDINGS_QUALITY_H_

#include "absl/status/statusor.h"
#include "daemon/capture/quality.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// `attribution` is of the same reader.
absl::StatusOr<EventChecks> CheckEvents(store::CaptureReader& reader,
                                        const GpuAttribution& attribution);

absl::StatusOr<EventChecks> CheckEvents(store::CaptureReader& reader);
// The same for the seal, in a budget of its own (kSummaryHeapBytes). OVER_BUDGET.
absl::StatusOr<EventChecks> CheckEventsForSeal(store::CaptureReader& reader);

// The stored grade and its reasons; where there are none, those of the record and those above.
absl::StatusOr<Quality> SummarizeQuality(store::CaptureReader& reader);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_QUALITY_H_
