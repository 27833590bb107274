// AllocationOrigins finds what a program was doing when it asked for memory: of instants on
// threads, the ranges around them.
//
//   nn.Module: MLP_0                      module  "MLP_0 > Linear_3"
//     nn.Module: Linear_3
//       aten::linear                      operator: the outermost
//         aten::addmm
//           aten::empty                   innermost
//             x
//
// Threads: one.
// Functions of Python may stand on a row of their own beside their thread (daemon/import): only
// modules are taken from there.
//
// Memory:  72 bytes per instant, and 4 per range around those that want their stack.
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
  // Distinct paths of modules; those beyond lack their outer modules.
  static constexpr size_t kMostModulePaths = size_t{1} << 16;

  // An instant on `thread`, an index into threads() of the reader; any number. Returns its handle:
  // 0, 1, 2, ...
  size_t Add(uint32_t thread, int64_t time_ns, bool wants_stack = false);

  // Reads the ranges, if there are instants. Once; what follows is for after it.
  absl::Status Resolve(store::CaptureReader& reader);

  // The outermost operator's name, without what autograd's engine puts before those of its nodes;
  // where there is none, the innermost range's; "(no range)".
  std::string_view OpOf(size_t handle) const;
  std::string_view InnermostOf(size_t handle) const;  // "(no range)"
  std::string ModuleOf(size_t handle) const;          // "MLP_0 > Linear_3"; empty: none.
  bool any_module() const { return modules_.size() > 1; }
  // Outermost first; empty where it was not asked for.
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
    size_t next = 0;               // The first that no range has passed.
  };
  struct Module {
    uint32_t inner;  // Into modules_; 0: none
    uint32_t name;
  };

  void AddPythonRows(std::span<const store::ReaderThread> threads);
  absl::Status Match(const store::RangeBatch& batch, OfThread& of, bool only_modules);
  void Enclose(Instant& instant, size_t handle, uint32_t name, bool is_operator);
  void EncloseInModule(Instant& instant, uint32_t name);
  uint32_t ModuleAround(uint32_t inner, uint32_t name);

  std::span<const std::string> names_;
  std::vector<uint8_t> is_module_;  // By name: 0: not looked at yet, 1: no, 2: yes.
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
