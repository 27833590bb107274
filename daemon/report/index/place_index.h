// PlaceIndex finds where in the program's Python something ran: the torch.nn.Module, the line, or
// the stack that is around an instant of a thread.
//
// Where that is known from:
//   the stacks of operators   captures with stacks or modules (StackRow, OperatorRow::stack)
//   Python functions as ranges, "nn.Module: Linear_0" and "train.py(12): forward"
//                             traces of torch.profiler with with_stack. They may have a row of
//                             their own (daemon/import); rows of the same OS thread count as one.
// In both, a backward operator is where its forward operator was, if that is in the capture.
//
// Threads: one at a time, because it remembers its last position.
// Memory:  24 bytes per operator with a stack, or per Python function, up to twice that as vectors
//          grow, and the text of each place once; while it is built, 60 more per operator.
// Errors:  the reader's.
#ifndef PROFD_DAEMON_REPORT_INDEX_PLACE_INDEX_H_
#define PROFD_DAEMON_REPORT_INDEX_PLACE_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// The prefix of torch.profiler's module ranges.
inline constexpr std::string_view kModulePrefix = "nn.Module: ";

// What a place is.
enum class PlaceKind {
  kModule,  // The innermost module: "blocks.0.mlp", where its place in the model is known, else
            // "Linear_0" or its class.
  kSource,  // The innermost line that is not in torch or in Python's own library:
            // "train.py(112): log_metrics"
  kStack,   // That line and those of its callers, the innermost first, " < " between them.
};

class PlaceIndex {
 public:
  static constexpr uint32_t kDefaultFrames = 8;
  static constexpr uint32_t kMaxFrames = 64;

  PlaceIndex() = default;
  // `frames`: of a stack, in [1, kMaxFrames].
  static absl::StatusOr<PlaceIndex> Build(store::CaptureReader& reader, PlaceKind kind,
                                          uint32_t frames = kDefaultFrames);

  // No place is known.
  bool empty() const { return names_.size() == 1; }
  // Returns the place at that time; 0: none is known.
  uint32_t At(uint32_t thread, int64_t time_ns);
  // Empty for 0.
  const std::string& NameOf(uint32_t place) const { return names_[place]; }

 private:
  class Builder;

  // The place from `time_ns` until the next change.
  struct Change {
    int64_t time_ns;
    uint32_t place;
  };
  struct OfThread {
    std::vector<Change> changes;  // By time.
    size_t last = 0;
  };

  std::vector<uint32_t> row_of_;  // By thread: the position in threads_.
  std::vector<OfThread> threads_;
  std::vector<std::string> names_ = std::vector<std::string>(1);
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_PLACE_INDEX_H_
