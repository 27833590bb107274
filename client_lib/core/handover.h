// One process is one target, however many copies of the library it loads (linked, from a
// wheel, injected). The first in the loader's list is the one that works; every later copy
// hands each call over to it.
//
// The list, not a global symbol, decides: loaders use RTLD_LOCAL. It is the same for every
// copy, and the library is never unloaded, so all copies agree without talking.
//
// Threads: FindEarlierCopy() while the copy is being loaded; EarlierCopy() any.
#ifndef PROFD_CLIENT_LIB_CORE_HANDOVER_H_
#define PROFD_CLIENT_LIB_CORE_HANDOVER_H_

#include <cstddef>
#include <cstdint>

#include "client_lib/core/python_calls.h"
#include "client_lib/include/profd/profd.h"

namespace profd::client::torch {
struct TorchTable;
}

// Entry points of loaders, in client_lib/nvtx.
extern "C" {
typedef const void* (*NvtxGetExportTable)(uint32_t table_id);
PROFD_API int InitializeInjection(void);
PROFD_API int InitializeInjectionNvtx2(NvtxGetExportTable get);

// What Python calls for PyTorch, in client_lib/torch/torch_handover.h.
const profd::client::torch::TorchTable* profd_torch_table(void);
}

namespace profd::client {

// The functions of a copy. Shared between copies of different versions: entries are only
// ever added at the end, and `size_bytes` says how far a copy's table goes.
struct CopyTable {
  uint32_t size_bytes;
  uint32_t abi_version;
  decltype(&profd_init) init;
  decltype(&profd_set_metadata) set_metadata;
  decltype(&profd_step) step;
  decltype(&profd_step_count) step_count;
  decltype(&profd_intern) intern;
  decltype(&profd_range_begin_id) range_begin_id;
  decltype(&profd_range_end_id) range_end_id;
  decltype(&profd_instant_id) instant_id;
  decltype(&profd_counter_id) counter_id;
  decltype(&profd_alloc) alloc;
  decltype(&profd_free) free;
  decltype(&profd_thread_name) thread_name;
  decltype(&profd_get_status) get_status;
  decltype(&profd_recording_flag) recording_flag;
  decltype(&profd_range_begin_slow) range_begin_slow;
  decltype(&profd_instant_slow) instant_slow;
  decltype(&profd_counter_slow) counter_slow;
  // After what 0.1.0 had first:
  decltype(&InitializeInjectionNvtx2) attach_nvtx;
  decltype(&profd_torch_table) torch_table;
  // And after what 0.1.0 had at its end:
  decltype(&profd_stop_threads) stop_threads;
  decltype(&profd_restart_threads) restart_threads;
  decltype(&profd_range_open_id) range_open_id;
  decltype(&profd_range_close) range_close;
  decltype(&profd_range_open_with) range_open_with;
  decltype(&profd_step_of_other_task) step_of_other_task;
  decltype(&profd_stay_stopped) stay_stopped;
};

// Looks through the loader's list once.
void FindEarlierCopy();

// Set before anything else of the library runs, constant from then on.
extern constinit const CopyTable* g_earlier_copy;

// The copy that this one hands over to; null: this one works itself.
inline const CopyTable* EarlierCopy() { return g_earlier_copy; }

}  // namespace profd::client

// This copy's own functions; what a later copy looks for by name.
extern "C" PROFD_API const profd::client::CopyTable* profd_copy_table(void);

#endif  // PROFD_CLIENT_LIB_CORE_HANDOVER_H_
