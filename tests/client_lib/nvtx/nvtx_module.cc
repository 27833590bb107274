// A shared object with NVTX in it, for what depends on the loader: with NVTX_MODULE_EARLY set,
// its constructor makes the first NVTX call and then waits, the loader's lock held, until the
// process is connected to the daemon.
#include <dlfcn.h>
#include <stdlib.h>

#include "client_lib/include/profd/profd.h"
#include "tests/fakes/fake_nvtx.h"

namespace {

using Nvtx = profd::testing::FakeNvtx<2>;

bool AttachToInjection(void* library) {
  return Nvtx::Attach(reinterpret_cast<int (*)(profd::client::nvtx::GetExportTable)>(
      dlsym(library, "InitializeInjectionNvtx2")));
}

__attribute__((constructor)) void OnLoad() {
  if (getenv("NVTX_MODULE_EARLY") == nullptr) return;
  void* library = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_LAZY);
  if (library == nullptr || !AttachToInjection(library)) abort();
  const auto get_status =
      reinterpret_cast<decltype(&profd_get_status)>(dlsym(library, "profd_get_status"));
  const auto init = reinterpret_cast<decltype(&profd_init)>(dlsym(library, "profd_init"));
  profd_status status{};
  status.size_bytes = sizeof(status);
  while (get_status(&status) != PROFD_OK) init();  // Ends the wait between two tries.
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int nvtx_module_attach() {
  return AttachToInjection(dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_LAZY)) ? 1 : 0;
}

__attribute__((visibility("default"))) int nvtx_module_is_hooked() {
  return Nvtx::CoreSlot(profd::client::nvtx::kRangePushA) != nullptr ? 1 : 0;
}

}  // extern "C"
