// CudaEvents finds what a wait for a CUDA event waits for: the last record of it that was made
// before the wait was, as their correlations count.
//
// Memory: 16 bytes per CUDA event recorded. Errors: the reader's.
#ifndef PROFD_DAEMON_EXPORT_TRACE_CUDA_EVENTS_H_
#define PROFD_DAEMON_EXPORT_TRACE_CUDA_EVENTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

class CudaEvents {
 public:
  struct Recorded {
    uint32_t context;
    uint32_t event_id;
    uint32_t correlation;  // Of the call that recorded it.
    uint32_t stream;       // Where it was recorded.
  };

  absl::Status Read(store::CaptureReader& reader);
  // nullptr: it was recorded before the capture, or CUDA events were not asked for.
  const Recorded* Find(uint32_t context, uint32_t event_id, uint32_t wait_correlation) const;

 private:
  std::vector<Recorded> events_;  // In the order of their members.
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_TRACE_CUDA_EVENTS_H_
