// The columns of the module tree, and what its report says below it.
#include <string>

#include "daemon/base/str_cat.h"
#include "daemon/base/units.h"
#include "daemon/report/ops/module_tree.h"

namespace profd::report {
namespace {

using table::Column;
using table::OverRanks;
using table::Unit;

const table::Description<ModuleTree>& ModuleTotals() {
  static const table::Description<ModuleTree> totals = {
      {&ModuleTree::has_modules,
       {.key = "has_modules",
        .title = "Modules",
        .doc = "Whether the capture says which modules ran"}},
      {&ModuleTree::step_count,
       {.key = "step_count",
        .title = "Steps",
        .doc = "Complete steps in the window; 1 with --step",
        .unit = Unit::kCount}},
      {&ModuleTree::steps_ns,
       {.key = "steps_ns",
        .title = "Steps",
        .doc = "Time of the steps; without steps, from the first range to the last",
        .unit = Unit::kNs}},
      {&ModuleTree::concurrent_ns,
       {.key = "concurrent_ns",
        .title = "Concurrent",
        .doc = "Host time of modules that ran while another thread ran one",
        .formula = "sum of self times - time in which any module ran",
        .unit = Unit::kNs}},
      {&ModuleTree::has_device,
       {.key = "has_device", .title = "CUDA", .doc = "Whether the capture has work of GPUs"}},
      {&ModuleTree::device_total_ns,
       {.key = "device_total_ns",
        .title = "CUDA",
        .doc = "Time of the GPU work of the steps",
        .formula = "sum of end - start",
        .unit = Unit::kNs}},
      {&ModuleTree::unattributed_device_ns,
       {.key = "unattributed_device_ns",
        .title = "Of no call",
        .doc = "GPU work that was launched by no call in the capture",
        .unit = Unit::kNs}},
      {&ModuleTree::is_simulated,
       {.key = "is_simulated", .title = "Simulated", .doc = "Whether the GPU is simulated"}}};
  return totals;
}

table::Field<ModuleTreeRow> Time(int64_t ModuleTreeRow::*member, const char* key, const char* title,
                                 const char* doc, int priority, bool only_if_set = false) {
  return {member,
          {.key = key,
           .title = title,
           .doc = doc,
           .unit = Unit::kNs,
           .priority = priority,
           .only_if_set = only_if_set}};
}

}  // namespace

const table::Description<ModuleTreeRow>& ModuleTreeColumns() {
  static const table::Description<ModuleTreeRow> columns = {
      {&ModuleTreeRow::name,
       {.key = "name",
        .title = "Module",
        .doc = "The module's place in the model; its class where that is not known, and of the "
               "model itself",
        .flexible = true,
        .over_ranks = OverRanks::kKey}},
      {&ModuleTreeRow::depth,
       {.key = "depth",
        .title = "Depth",
        .doc = "How many modules are around it; a module follows the one that calls it",
        .priority = 5,
        .over_ranks = OverRanks::kKey}},
      {&ModuleTreeRow::class_name,
       {.key = "class",
        .title = "Class",
        .doc = "The module's class",
        .priority = 6,
        .only_if_set = true,
        .flexible = true,
        .max_width = 24}},
      {&ModuleTreeRow::parent,
       {.key = "parent",
        .title = "Called by",
        .doc = "The module that calls it",
        .priority = Column::kOnlyInData,
        .over_ranks = OverRanks::kKey}},
      {&ModuleTreeRow::calls,
       {.key = "calls",
        .title = "Calls",
        .doc = "Calls; captures count those that ran an operator, and with Python 3.14 several "
               "calls in a row as one",
        .unit = Unit::kCount,
        .priority = 4}},
      Time(&ModuleTreeRow::total_ns, "total_ns", "Total",
           "Host time in the module and those that it calls, forward and backward", 0),
      {&ModuleTreeRow::self_ns,
       {.key = "self_ns",
        .title = "Self",
        .doc = "Host time in the module, without those that it calls",
        .formula = "total - the totals of the modules that it calls; adds up to the steps' time",
        .unit = Unit::kNs}},
      {&ModuleTreeRow::share,
       {.key = "share",
        .title = "Self %",
        .doc = "Self time as a share of the steps' time",
        .formula = "self / time of the steps",
        .unit = Unit::kShare,
        .priority = 1}},
      {&ModuleTreeRow::forward_ns,
       {.key = "forward_ns",
        .title = "Forward",
        .doc = "Host time forward, part of total; not known outside of modules",
        .unit = Unit::kNs,
        .priority = 2,
        .nullable = true}},
      {&ModuleTreeRow::backward_ns,
       {.key = "backward_ns",
        .title = "Backward",
        .doc = "Host time of backward operators whose forward operators ran in it, part of total; "
               "not known outside of modules",
        .unit = Unit::kNs,
        .priority = 2,
        .nullable = true}},
      Time(&ModuleTreeRow::device_total_ns, "device_total_ns", "CUDA total",
           "GPU work that it and the modules that it calls launched, forward and backward", 1,
           true),
      Time(&ModuleTreeRow::self_device_ns, "self_device_ns", "Self CUDA",
           "GPU work that it launched, without that of the modules that it calls", 3, true),
      Time(&ModuleTreeRow::forward_device_ns, "forward_device_ns", "CUDA forward",
           "GPU work of forward, part of CUDA total", 7, true),
      Time(&ModuleTreeRow::backward_device_ns, "backward_device_ns", "CUDA backward",
           "GPU work of backward, part of CUDA total", 7, true),
      {&ModuleTreeRow::cpu_allocated_bytes,
       {.key = "cpu_allocated_bytes",
        .title = "CPU alloc",
        .doc =
            "CPU memory that it and the modules that it calls allocated; frees are not subtracted",
        .unit = Unit::kBytes,
        .priority = 8,
        .only_if_set = true}},
      {&ModuleTreeRow::device_allocated_bytes,
       {.key = "device_allocated_bytes",
        .title = "CUDA alloc",
        .doc =
            "GPU memory that it and the modules that it calls allocated; frees are not subtracted",
        .unit = Unit::kBytes,
        .priority = 7,
        .only_if_set = true}},
      {&ModuleTreeRow::flops,
       {.key = "flops",
        .title = "GFLOP",
        .doc = "Floating-point operations of it and the modules that it calls, from the sizes of "
               "inputs; of operators inside each other the outermost counts",
        .unit = Unit::kOperations,
        .priority = 8,
        .nullable = true,
        .only_if_set = true}}};
  return columns;
}

table::Report ToReport(const ModuleTree& modules) {
  table::Report report = {.name = "modules",
                          .totals = ModuleTotals().ToTable("totals", std::span(&modules, 1)),
                          .tables = {ModuleTreeColumns().ToTable("rows", modules.rows)}};
  if (!modules.has_modules) {
    report.notes.emplace_back(
        "No modules are in this capture: `profctl trace --with modules` records them, and "
        "torch.profiler with with_stack=True.");
    return report;
  }
  report.notes.push_back(StrCat(
      modules.step_count > 0 ? StrCat(FormatCountOf(modules.step_count, "step", "steps"), ": ")
                             : std::string("No complete step; the whole capture: "),
      FormatNs(modules.steps_ns), ", of which self times are parts"));
  if (modules.concurrent_ns > 0) {
    report.notes.push_back(StrCat("Modules ran on several threads at once: self times add up to ",
                                  FormatNs(modules.concurrent_ns), " more"));
  }
  if (modules.has_device) {
    std::string text = StrCat("CUDA time of these steps: ", FormatNs(modules.device_total_ns),
                              modules.is_simulated ? " (simulated)" : "");
    if (modules.unattributed_device_ns > 0) {
      StrAppend(&text, ", of which ", FormatNs(modules.unattributed_device_ns),
                " launched by no call in the capture");
    }
    report.notes.push_back(text);
  }
  return report;
}

}  // namespace profd::report
