// PlaceIndex finds where in the program something ran: the torch.nn.Module, the line of Python, the
// stack, or the arguments of ranges that are around an instant of a thread.
//
// Where that is known from:
//   the arguments of ranges   recorded captures (range_arguments.h)
//   the stacks of operators   captures with stacks or modules (StackRow, OperatorRow::stack)
//   Python functions as ranges, "nn.Module: Linear_0" and "train.py(12): forward"
//                             traces of torch.profiler with with_stack. They may have a row of
//                             their own (daemon/import); rows of the same OS thread count as one.
// In all, a backward operator is where its forward operator was, if that is in the capture; with
// arguments, only if its forward operator was inside of some.
//
// Threads: one at a time, because it remembers its last position.
// Memory:  24 bytes per operator with a stack, per Python function, or per range with arguments, up
//          to twice that as vectors grow, and the text of each place once; while it is built, 60
//          more per operator; with arguments, RangeArguments, and three times their texts, of
//          kMostArgumentBytes at most.
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
  // The key-value arguments of the ranges around it, the outermost first; of one key, the innermost
  // value: `id="r-17", tokens=512`. At most 32 keys. Values as JSON, the first kMostValueBytes of
  // them, which is more than a recorded one has.
  kArguments,
};

class PlaceIndex {
 public:
  static constexpr uint32_t kDefaultFrames = 8;
  static constexpr uint32_t kMaxFrames = 64;
  static constexpr size_t kMostValueBytes = 1024;
  // Different arguments beyond these are one place, kOtherArguments.
  static constexpr size_t kMostArgumentPlaces = 10'000;
  static constexpr size_t kMostArgumentBytes = size_t{64} << 20;
  static constexpr std::string_view kOtherArguments = "(other arguments)";

  struct Options {
    uint32_t frames = kDefaultFrames;  // Of a stack, in [1, kMaxFrames].
    std::string argument;              // Only the arguments of that key; empty: all.
  };

  PlaceIndex() = default;
  static absl::StatusOr<PlaceIndex> Build(store::CaptureReader& reader, PlaceKind kind,
                                          const Options& options);
  static absl::StatusOr<PlaceIndex> Build(store::CaptureReader& reader, PlaceKind kind) {
    return Build(reader, kind, Options());
  }

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
