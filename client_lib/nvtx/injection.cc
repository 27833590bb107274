// The entry points that loaders look for in a library that an environment variable names.
// README.md says which. They run on a thread of the program, inside cuInit() or its first
// NVTX call, perhaps inside a dlopen(): they return at once, and wait for nothing.
#include "client_lib/core/handover.h"
#include "client_lib/core/lifecycle.h"
#include "client_lib/core/log.h"
#include "client_lib/nvtx/nvtx_modules.h"

using namespace profd::client;  // NOLINT: the C functions stand outside.

namespace {

int AttachEarlierCopy(const CopyTable& copy, NvtxGetExportTable get) {
  copy.init();
  if (copy.size_bytes >= offsetof(CopyTable, attach_nvtx) + sizeof(copy.attach_nvtx)) {
    return copy.attach_nvtx(get);
  }
  Log(LogLevel::kWarning, "the copy of the library that was loaded first is too old for NVTX");
  return 0;
}

}  // namespace

extern "C" {

// Called by the CUDA driver. 1: loaded.
PROFD_API int InitializeInjection(void) {
  Load();
  profd_init();
  return 1;
}

// Called by each shared object's NVTX, once. 0: it may do without us.
PROFD_API int InitializeInjectionNvtx2(NvtxGetExportTable get) {
  Load();  // A program that preloads the library may come here before its constructors.
  if (const CopyTable* copy = EarlierCopy()) return AttachEarlierCopy(*copy, get);
  if (profd_init() != PROFD_OK) return 0;
  return nvtx::Attach(get) ? 1 : 0;
}

}  // extern "C"
