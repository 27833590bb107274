// The exported functions of torch_api.h that Python calls right after `import torch`.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "client_lib/core/lifecycle.h"
#include "client_lib/core/log.h"
#include "client_lib/include/profd/profd.h"
#include "client_lib/python_stack/stacks.h"
#include "client_lib/torch/memory.h"
#include "client_lib/torch/operators.h"
#include "client_lib/torch/periodicity.h"
#include "client_lib/torch/record_function.h"
#include "client_lib/torch/steps.h"
#include "client_lib/torch/tensor_layout.h"
#include "client_lib/torch/torch_api.h"
#include "client_lib/torch/torch_handover.h"
#include "client_lib/torch/torch_library.h"
#include "client_lib/torch/torch_part.h"

namespace profd::client::torch {
namespace {

constinit pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
// Under g_lock.
constinit bool g_was_tried = false;
constinit bool g_is_attached = false;
constinit TorchLibrary g_library{};
constinit RecordFunctionLayout g_layout{};
constinit char g_why[1200] = {};

class Lock {
 public:
  Lock() { pthread_mutex_lock(&g_lock); }
  ~Lock() { pthread_mutex_unlock(&g_lock); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
};

// For a process whose interpreter does not end before it: one in C++ that embeds Python. Handlers
// run in reverse order, so this one runs before torch's destructors. (elf_test.py looks for its
// name.)
PROFD_NOINLINE void LeaveTorchAtExit() {
  if (atexit(LeaveTorch) != 0) Log(LogLevel::kWarning, "atexit() failed; exit may race with torch");
}

void Attach(const char* version) {
  uint32_t features = 0;
  if (FindTorch(&g_library, g_why, sizeof(g_why))) {
    features = CalibrateRecordFunction(g_library, &g_layout, g_why, sizeof(g_why));
  }
  g_is_attached = features != 0;
  AttachMemory();
  if (g_is_attached) {
    ObserveSteps(g_library);
    AttachOperators(g_library, g_layout, features);
    AttachPeriodicity(g_library);
    Log(LogLevel::kInfo,
        "torch %s: sequence at %d, scope at %d, thread at %d, forward thread at %d", version,
        g_layout.sequence, g_layout.scope, g_layout.thread, g_layout.forward_thread);
  } else {
    RefuseOperators(g_why);
    Log(LogLevel::kWarning, "torch %s: no operators and no steps: %s", version, g_why);
  }
  LeaveTorchAtExit();
  JoinCore(version);
}

void EndProbe() {
  TensorLayout layout;
  uint32_t features;
  if (!tensor_probe::End(&layout, &features)) return;
  Log(LogLevel::kInfo, "torch: inputs at %d, rank at %d, type at %d, storage at %d, data at %d",
      layout.inputs, layout.rank, layout.dtype, layout.storage, layout.data);
  AttachInputs(layout, features);
}

}  // namespace
}  // namespace profd::client::torch

using namespace profd::client;         // NOLINT: the C functions stand outside.
using namespace profd::client::torch;  // NOLINT

extern "C" {

PROFD_API uint32_t profd_torch_attach(const char* version) {
  Load();
  if (EarlierCopy() != nullptr) {
    const TorchTable* torch = EarlierTorch();
    return torch != nullptr ? torch->attach(version) : 0;
  }
  if (IsDisabled()) return 0;
  // Not under our lock: it calls Python, which may let another thread run that waits for ours.
  python_stack::Attach();
  const Lock lock;
  if (!g_was_tried) {
    g_was_tried = true;
    Attach(version != nullptr ? version : "");
  }
  return Features();
}

PROFD_API int profd_torch_probe_begin(const struct profd_torch_probe* probe) {
  if (EarlierCopy() != nullptr) {
    const TorchTable* torch = EarlierTorch();
    return torch != nullptr ? torch->probe_begin(probe) : 0;
  }
  const Lock lock;
  return probe != nullptr && g_is_attached && tensor_probe::Begin(g_library, g_layout, *probe) ? 1
                                                                                               : 0;
}

PROFD_API uint32_t profd_torch_probe_end(void) {
  if (EarlierCopy() != nullptr) {
    const TorchTable* torch = EarlierTorch();
    return torch != nullptr ? torch->probe_end() : 0;
  }
  const Lock lock;
  EndProbe();
  return Features();
}

PROFD_API void profd_torch_leave(void) {
  if (EarlierCopy() == nullptr) return LeaveTorch();
  const TorchTable* torch = EarlierTorch();
  if (torch != nullptr) torch->leave();
}

}  // extern "C"
