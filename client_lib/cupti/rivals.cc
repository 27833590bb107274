#include "client_lib/cupti/rivals.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_lib/core/foreign_calls.h"

namespace profd::client {
namespace {

constexpr char kTorchLibrary[] = "libtorch_cpu.so";
// torch::autograd::profiler::isProfilerEnabledInMainThread()
constexpr char kIsEnabled[] = "_ZN5torch8autograd8profiler29isProfilerEnabledInMainThreadEv";

struct TorchPath {
  char path[512];
};

int NoteTorch(dl_phdr_info* object, size_t, void* data) {
  const char* slash = strrchr(object->dlpi_name, '/');
  const char* name = slash != nullptr ? slash + 1 : object->dlpi_name;
  if (strncmp(name, kTorchLibrary, sizeof(kTorchLibrary) - 1) != 0) return 0;
  auto* found = static_cast<TorchPath*>(data);
  snprintf(found->path, sizeof(found->path), "%s", object->dlpi_name);
  return 1;
}

// Inside of a ForeignCall.
bool FindTorchLibrary(TorchPath* found) {
  found->path[0] = '\0';
  return dl_iterate_phdr(NoteTorch, found) != 0;
}

const char* InjectedTool() {
  const char* injected = getenv("CUDA_INJECTION64_PATH");
  if (injected != nullptr && injected[0] != '\0' && strstr(injected, "profd") == nullptr) {
    return injected;
  }
  return getenv("NSYS_PROFILING_SESSION_ID") != nullptr ? "Nsight Systems" : nullptr;
}

}  // namespace

const char* GuessRival() {
  const char* injected = InjectedTool();
  return injected != nullptr
             ? injected
             : "another profiler, such as Nsight Systems, Nsight Compute, or a debugger";
}

bool HolderMayBeKineto() {
  const ForeignCall call;
  TorchPath torch;
  return InjectedTool() == nullptr && FindTorchLibrary(&torch);
}

TorchProfilerRecords FindTorchProfiler() {
  const ForeignCall call;
  TorchPath torch;
  if (!FindTorchLibrary(&torch)) return nullptr;
  // Kept mapped, as client_lib/torch keeps it.
  void* library = dlopen(torch.path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  if (library == nullptr) return nullptr;
  return reinterpret_cast<TorchProfilerRecords>(dlsym(library, kIsEnabled));
}

}  // namespace profd::client
