// A libcuda.so.1 with which nothing can be computed: what makes a process look as if it used CUDA,
// and does to it what the driver does when it is initialised.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidValue = 1;
constexpr int kNotInitialized = 3;
constexpr int kNoDevice = 100;
constexpr int kDriverVersion = 13000;

std::once_flag inject_once;
std::atomic<bool> initialized{false};

// Loads what CUDA_INJECTION64_PATH names, as the driver does at its first cuInit().
void Inject() {
  const char* const path = std::getenv("CUDA_INJECTION64_PATH");
  if (path == nullptr || *path == '\0') return;
  void* const library = dlopen(path, RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "libcuda: CUDA_INJECTION64_PATH: %s\n", dlerror());
    return;
  }
  auto* const initialize = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
  if (initialize != nullptr) initialize();
}

}  // namespace

EXPORT int cuInit(unsigned flags);
EXPORT int cuDriverGetVersion(int* version);
EXPORT int cuGetErrorString(int error, const char** text);
EXPORT int cuCtxGetCurrent(void** context);
EXPORT int cuDeviceGetCount(int* count);

int cuInit(unsigned flags) {
  if (flags != 0) return kInvalidValue;
  if (const char* const off = std::getenv("SGPU_NO_DRIVER"); off != nullptr && *off == '1') {
    return kNoDevice;
  }
  std::call_once(inject_once, Inject);
  initialized = true;
  return kSuccess;
}

int cuDriverGetVersion(int* version) {
  if (version == nullptr) return kInvalidValue;
  const char* const chosen = std::getenv("SGPU_DRIVER_VERSION");
  *version = chosen != nullptr ? std::atoi(chosen) : kDriverVersion;
  return kSuccess;
}

int cuGetErrorString(int error, const char** text) {
  if (text == nullptr) return kInvalidValue;
  *text = error == kSuccess ? "no error" : "an error of the simulated driver";
  return kSuccess;
}

// The stand-in's contexts have their ids as handles; it makes context 1 itself.
int cuCtxGetCurrent(void** context) {
  if (context == nullptr) return kInvalidValue;
  if (!initialized) return kNotInitialized;
  *context = reinterpret_cast<void*>(1);
  return kSuccess;
}

int cuDeviceGetCount(int* count) {
  if (count == nullptr) return kInvalidValue;
  if (!initialized) return kNotInitialized;
  *count = 1;
  return kSuccess;
}
