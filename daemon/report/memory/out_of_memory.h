// Failed allocations, from the capture's notes.
//
// Threads: any, one reader each. Errors: the reader's.
#ifndef PROFD_DAEMON_REPORT_MEMORY_OUT_OF_MEMORY_H_
#define PROFD_DAEMON_REPORT_MEMORY_OUT_OF_MEMORY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/report/memory/timeline.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

struct OutOfMemoryNote {
  OutOfMemory event;
  uint32_t thread = 0;  // Index into threads() of the reader.
};

// Returns them by time; one without a time is placed at the window's start.
absl::StatusOr<std::vector<OutOfMemoryNote>> FindOutOfMemory(store::CaptureReader& reader);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_MEMORY_OUT_OF_MEMORY_H_
