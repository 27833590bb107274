// HostFreesIn: what the program frees of the host's memory in a time.
//
// Threads: one. Errors: the reader's. Memory: none that grows.
#ifndef PROFD_DAEMON_REPORT_MEMORY_HOST_FREES_H_
#define PROFD_DAEMON_REPORT_MEMORY_HOST_FREES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

struct HostFrees {
  int64_t bytes = 0;  // Of blocks whose size is known.
  int64_t count = 0;
};
// In [begin, end), by this thread; -1: by any.
absl::StatusOr<HostFrees> HostFreesIn(store::CaptureReader& reader, int64_t thread,
                                      int64_t begin_ns, int64_t end_ns);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_MEMORY_HOST_FREES_H_
