// What Python calls of the library for PyTorch, as a table: a later copy of the library in the
// process hands those calls over to the first one (core/handover.h).
//
// How do I add a function?  At the end of TorchTable, and in profd_torch_table(); the exported
// function asks EarlierTorch() first.
#ifndef PROFD_CLIENT_LIB_TORCH_TORCH_HANDOVER_H_
#define PROFD_CLIENT_LIB_TORCH_TORCH_HANDOVER_H_

#include <cstddef>
#include <cstdint>

#include "client_lib/core/handover.h"
#include "client_lib/torch/torch_api.h"

namespace profd::client::torch {

// Shared between copies of different versions: `size_bytes` says how far a copy's table goes.
struct TorchTable {
  uint32_t size_bytes;
  uint32_t reserved;
  decltype(&profd_torch_features) features;
  decltype(&profd_torch_wait) wait;
  decltype(&profd_torch_block) block;
  decltype(&profd_torch_note) note;
  decltype(&profd_torch_done) done;
  decltype(&profd_torch_attach) attach;
  decltype(&profd_torch_probe_begin) probe_begin;
  decltype(&profd_torch_probe_end) probe_end;
  decltype(&profd_torch_leave) leave;
  decltype(&profd_torch_compiling) compiling;
  decltype(&profd_torch_optimizers) optimizers;
  decltype(&profd_torch_optimizer_hook) optimizer_hook;
  decltype(&profd_torch_module) module;
  decltype(&profd_torch_profiler) profiler;
};

// The earlier copy's table; null, where EarlierCopy() is not: it is too old to know of torch.
inline const TorchTable* EarlierTorch() {
  const CopyTable* copy = EarlierCopy();
  if (copy->size_bytes < offsetof(CopyTable, torch_table) + sizeof(copy->torch_table)) {
    return nullptr;
  }
  return copy->torch_table();
}

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_TORCH_HANDOVER_H_
