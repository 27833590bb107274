// OperatorIndex finds the operator row of a range: the row with its thread, start, and depth.
//
// Threads: one at a time: it remembers its last position, because callers ask for ranges in order
//          of their end, which lie close together.
// Memory:  24 bytes per operator, up to twice that as vectors grow.
// Errors:  the reader's. If a range has several rows, it finds any of them.
#ifndef PROFD_DAEMON_REPORT_INDEX_OPERATOR_INDEX_H_
#define PROFD_DAEMON_REPORT_INDEX_OPERATOR_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

class OperatorIndex {
 public:
  struct Entry {
    int64_t start_ns;
    uint32_t inputs;   // Index into inputs() of the reader; 0: none.
    uint32_t scalars;  // Index into scalars() of the reader; 0: none.
    uint16_t depth;
    uint8_t scope;  // wire::OperatorScope, or any other number.
  };

  OperatorIndex() = default;
  static absl::StatusOr<OperatorIndex> Build(store::CaptureReader& reader);

  // Returns nullptr if the range has no operator row. Valid while this object lives.
  const Entry* Find(uint32_t thread, int64_t start_ns, uint16_t depth);

 private:
  struct OfThread {
    std::vector<Entry> entries;  // By start, then by depth.
    size_t last = 0;             // The last position of Find().
  };
  std::vector<OfThread> threads_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_OPERATOR_INDEX_H_
