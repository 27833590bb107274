// ModuleIndex finds the network module (torch.nn.Module) around an instant: the innermost range
// named "nn.Module: NAME" on its thread. torch.profiler records these ranges with with_stack=True.
// Python functions may have a row of their own (daemon/import); rows of the same OS thread count as
// one.
//
// Threads: one at a time, because it remembers its last position.
// Memory:  24 bytes per such range, up to twice that as vectors grow.
// Errors:  the reader's.
#ifndef PROFD_DAEMON_REPORT_INDEX_MODULE_INDEX_H_
#define PROFD_DAEMON_REPORT_INDEX_MODULE_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// The prefix of torch.profiler's module ranges.
inline constexpr std::string_view kModulePrefix = "nn.Module: ";

class ModuleIndex {
 public:
  ModuleIndex() = default;
  static absl::StatusOr<ModuleIndex> Build(store::CaptureReader& reader);

  // Returns the module at that time; 0: none.
  uint32_t At(uint32_t thread, int64_t time_ns);
  // Returns "Linear_0"; empty for 0.
  const std::string& NameOf(uint32_t module) const { return names_[module]; }

 private:
  // The module from `time_ns` until the next change.
  struct Change {
    int64_t time_ns;
    uint32_t module;
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

#endif  // PROFD_DAEMON_REPORT_INDEX_MODULE_INDEX_H_
