// ModuleIndex finds the module of a network (torch.nn.Module) that something ran in: the innermost
// range named "nn.Module: NAME" around it, on its thread. torch.profiler records these with
// with_stack=True. Functions of Python may stand on a row of their own (daemon/import): rows of one
// thread of the system are one here.
//
// Threads: one at a time: it remembers where it found the last one.
// Memory:  24 bytes per such range, or twice that, as vectors grow.
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

// What torch.profiler calls the ranges of modules.
inline constexpr std::string_view kModulePrefix = "nn.Module: ";

class ModuleIndex {
 public:
  ModuleIndex() = default;
  static absl::StatusOr<ModuleIndex> Build(store::CaptureReader& reader);

  // 0: in none.
  uint32_t At(uint32_t thread, int64_t time_ns);
  // "Linear_0"; of 0: empty.
  const std::string& NameOf(uint32_t module) const { return names_[module]; }

 private:
  // From here on, until the next one.
  struct Change {
    int64_t time_ns;
    uint32_t module;
  };
  struct OfThread {
    std::vector<Change> changes;  // By time.
    size_t last = 0;
  };

  std::vector<uint32_t> row_of_;  // By thread: which of threads_.
  std::vector<OfThread> threads_;
  std::vector<std::string> names_ = std::vector<std::string>(1);
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_MODULE_INDEX_H_
