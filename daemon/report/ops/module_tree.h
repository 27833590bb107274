// The modules (torch.nn.Module) of a capture as a tree: where the host time, GPU work, memory, and
// FLOPs of its steps went.
//
// Modules call each other as the Python functions of index/host_slices.h do. What a thread does
// belongs to the innermost module around it. A backward operator, and what it runs, belongs to the
// module of its forward operator. What belongs to no module (the optimizer, the loader, the loss,
// and Python between them) is the row kOutside, so that self times add up to the time of the steps.
// Time in which a thread waits for another one that runs backward of a module belongs to that
// module.
//
// Only what happens in complete steps counts, and GPU work that was launched in them; without
// steps, all of the capture from its first to its last slice.
//
// Threads: any, one reader each.
// Memory:  that of HostSlices, 16 bytes per slice of a module, 24 per CUDA call, and with FLOPs 24
//          per operator.
// Errors:  the reader's; INVALID_ARGUMENT for an unknown step.
#ifndef PROFD_DAEMON_REPORT_OPS_MODULE_TREE_H_
#define PROFD_DAEMON_REPORT_OPS_MODULE_TREE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/table/description.h"
#include "daemon/base/table/table.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

struct ModuleTreeOptions {
  std::optional<int64_t> step;  // Only this step.
};

struct ModuleTreeRow {
  static constexpr const char* kOutside = "(outside of modules)";

  // Its place in the model, "blocks.0.mlp"; its class where that is not known, and of the model.
  // Imported traces: "Linear_0".
  std::string name;
  std::string class_name;  // "Linear"; empty: not known.
  std::string parent;      // The name of the module that calls it; empty: none does.
  int64_t depth = 0;       // 0: no module calls it.
  // Of captures, those that ran an operator. Of several in a row one is counted where Python does
  // not number calls (client_lib/python_stack/README.md).
  int64_t calls = 0;
  // Host time. Total: with the modules that it calls. Forward and backward are parts of total;
  // outside of modules, where other things take time, too, they are negative: not known.
  int64_t total_ns = 0;
  int64_t self_ns = 0;
  int64_t forward_ns = 0;
  int64_t backward_ns = 0;
  double share = 0;  // Of the time of the steps: self.
  // GPU work by the module that launched it; work of several streams counts as often as it ran.
  int64_t device_total_ns = 0;
  int64_t self_device_ns = 0;
  int64_t forward_device_ns = 0;
  int64_t backward_device_ns = 0;
  // Totals. Of memory, what was allocated; frees are not subtracted.
  int64_t cpu_allocated_bytes = 0;
  int64_t device_allocated_bytes = 0;
  double flops = -1;  // ops/flops.h, forward and backward; negative: not known of any operator.
};

struct ModuleTree {
  std::vector<ModuleTreeRow> rows;  // Callers first; those of one caller by total time.
  bool has_modules = false;         // The capture says which modules ran.
  int64_t step_count = 0;           // 0: there are none.
  int64_t steps_ns = 0;             // Of the steps, or all of the capture.
  // By how much self times add up to more, because modules ran on several threads at once.
  int64_t concurrent_ns = 0;
  int64_t device_total_ns = 0;
  // The part of it that no call in the capture launched.
  int64_t unattributed_device_ns = 0;
  bool has_device = false;  // The capture has GPU rows.
  bool is_simulated = false;
};

absl::StatusOr<ModuleTree> SummarizeModules(store::CaptureReader& reader,
                                            const ModuleTreeOptions& options);

const table::Description<ModuleTreeRow>& ModuleTreeColumns();
table::Report ToReport(const ModuleTree& modules);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_OPS_MODULE_TREE_H_
