// MemoryInOrder gives the memory events of all threads in order of time; a file has them by
// thread. Events without an address (0), as in traces of 2021, get one that tells their blocks
// apart.
//
// Memory: at most kMostRowsInOrder events (56 MiB during sorting), and 8 bytes per live block
//         without an address. A capture with more is read in time slices, each halved until it
//         fits; others are read and sorted once, however often they are asked for.
// Errors: those of the reader and of `fn`; RESOURCE_EXHAUSTED if more events than fit have the same
//         time.
#ifndef PROFD_DAEMON_REPORT_INDEX_MEMORY_ORDER_H_
#define PROFD_DAEMON_REPORT_INDEX_MEMORY_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

inline constexpr size_t kMostRowsInOrder = size_t{1} << 19;

struct MemoryEvent {
  int64_t time_ns;
  uint64_t address;
  int64_t bytes;
  int64_t total_allocated_bytes;  // -1: not known
  int64_t total_reserved_bytes;   // -1: not known
  uint32_t thread;
  int16_t device_index;
  uint8_t device_type;
  uint8_t category;
  bool is_free;
};

class MemoryInOrder {
 public:
  // `reader` must outlive it.
  explicit MemoryInOrder(store::CaptureReader& reader, size_t most_rows = kMostRowsInOrder)
      : reader_(reader), most_rows_(most_rows) {}

  // Events of one thread keep their order; of equal times, the lower thread comes first.
  absl::Status ForEach(absl::FunctionRef<absl::Status(const MemoryEvent&)> fn);

 private:
  store::CaptureReader& reader_;
  const size_t most_rows_;
  bool holds_all_ = false;
  std::vector<MemoryEvent> events_;  // All, or those of a slice.
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_MEMORY_ORDER_H_
