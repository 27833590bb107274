// Streams of imported traces whose numbers are negative, or from kFirstWideStream up: HIP's are
// addresses. Rows of a capture have a short number in their place; reports and labels show the
// trace's own.
//
// Threads: any, one reader each. Errors: the reader's. Memory: 8 bytes per such stream.
#ifndef PROFD_DAEMON_REPORT_INDEX_WIDE_STREAMS_H_
#define PROFD_DAEMON_REPORT_INDEX_WIDE_STREAMS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// The short numbers are kFirstWideStream, and so on. Streams beyond kMostWideStreams share the
// last.
inline constexpr uint32_t kFirstWideStream = 0xc0000000;
inline constexpr uint32_t kMostWideStreams = 1'000'000;

class WideStreams {
 public:
  // Of a capture that was not imported, or by an earlier profd, there are none.
  static absl::StatusOr<WideStreams> Read(store::CaptureReader& reader);

  // The trace's number of the stream `number`; `number` if it has no other.
  int64_t NumberOf(uint32_t number) const;

 private:
  std::vector<int64_t> numbers_;  // By short number, from kFirstWideStream on; 0: not known.
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_WIDE_STREAMS_H_
