// AllocationOrigins finds which operator and module requested memory: the ranges around an
// instant on a thread.
//
//   nn.Module: MLP_0                      module  "MLP_0 > Linear_3"
//     nn.Module: Linear_3
//       aten::linear                      operator: the outermost
//         aten::addmm
//           aten::empty                   innermost
//             x
//
// Python functions may have a row of their own next to their thread (daemon/import): only modules
// are taken from there.
//
// Threads: one.
// Memory:  72 bytes per instant, and 4 per enclosing range for instants with a stack.
// Errors:  the reader's; DATA_LOSS for ranges that do not nest at all.
#ifndef PROFD_DAEMON_REPORT_MEMORY_ALLOCATION_ORIGINS_H_
#define PROFD_DAEMON_REPORT_MEMORY_ALLOCATION_ORIGINS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

class AllocationOrigins {
 public:
  // Distinct paths of modules; further paths lack their outer modules.
  static constexpr size_t kMostModulePaths = size_t{1} << 16;

  // Adds an instant on `thread` (an index into threads() of the reader; any number is safe).
  // Returns its handle: 0, 1, 2, ...
  size_t Add(uint32_t thread, int64_t time_ns, bool wants_stack = false);

  // Reads the ranges, if there are instants. Call once, before the functions below.
  absl::Status Resolve(store::CaptureReader& reader);

  // Returns the outermost operator's name, without the prefix of autograd's engine; without an
  // operator, the innermost range's name, or "(no range)".
  std::string_view OpOf(size_t handle) const;
  std::string_view InnermostOf(size_t handle) const;  // "(no range)"
  std::string ModuleOf(size_t handle) const;          // "MLP_0 > Linear_3"; empty: none.
  bool any_module() const { return modules_.size() > 1; }
  // Returns the ranges, outermost first; empty without `wants_stack`.
  std::vector<std::string> StackOf(size_t handle) const;

 private:
  struct Instant {
    int64_t time_ns;
    uint32_t innermost = 0;  // Names; 0: none
    uint32_t op = 0;
    uint32_t module = 0;  // Into modules_.
    bool wants_stack = false;
  };
  struct OfThread {
    std::vector<size_t> instants;  // By time, once sorted.
    size_t next = 0;               // The first instant that no range has passed.
  };
  struct Module {
    uint32_t inner;  // Into modules_; 0: none
    uint32_t name;
  };

  void AddPythonRows(std::span<const store::ReaderThread> threads);
  absl::Status Match(const RangeBatch& batch, OfThread& of, bool only_modules);
  void Enclose(Instant& instant, size_t handle, uint32_t name, bool is_operator);
  void EncloseInModule(Instant& instant, uint32_t name);
  uint32_t ModuleAround(uint32_t inner, uint32_t name);

  std::span<const std::string> names_;
  std::vector<uint8_t> is_module_;  // By name: 0: not checked yet, 1: no, 2: yes.
  std::vector<Instant> instants_;   // By handle.
  absl::flat_hash_map<uint32_t, OfThread> threads_;
  absl::flat_hash_map<uint32_t, OfThread> python_rows_;  // With the instants of their threads.
  absl::flat_hash_map<size_t, std::vector<uint32_t>> stacks_;  // By handle; innermost first.
  std::vector<Module> modules_ = std::vector<Module>(1);
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> module_at_;
  size_t enclosed_ = 0;
  int64_t first_ns_ = std::numeric_limits<int64_t>::max();
  int64_t last_ns_ = std::numeric_limits<int64_t>::min();
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_MEMORY_ALLOCATION_ORIGINS_H_
