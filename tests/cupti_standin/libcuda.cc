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
std::atomic<int> context_references{0};
std::atomic<int> contexts_pushed{0};

// The number in the environment variable `name`, or `otherwise`.
size_t Number(const char* name, size_t otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// The program's own context, which has been there since cuInit().
bool HasPrimaryContext() { return initialized && Number("SGPU_PRIMARY_CONTEXT", 1) != 0; }

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
EXPORT int cuDeviceGet(int* device, int ordinal);
EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* is_active);
EXPORT int cuDevicePrimaryCtxRetain(void** context, int device);
EXPORT int cuDevicePrimaryCtxRelease_v2(int device);
EXPORT int cuCtxPushCurrent_v2(void* context);
EXPORT int cuCtxPopCurrent_v2(void** context);
EXPORT int cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes);
// How many references to the primary context clients hold, and contexts they have pushed.
EXPORT int sgpu_context_references();
EXPORT int sgpu_contexts_pushed();

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

int cuDeviceGet(int* device, int ordinal) {
  if (device == nullptr || ordinal != 0) return kInvalidValue;
  if (!initialized) return kNotInitialized;
  *device = ordinal;
  return kSuccess;
}

int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* is_active) {
  if (device != 0 || flags == nullptr || is_active == nullptr) return kInvalidValue;
  if (!initialized) return kNotInitialized;
  *flags = 0;
  *is_active = HasPrimaryContext() ? 1 : 0;
  return kSuccess;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (device != 0 || context == nullptr) return kInvalidValue;
  if (!HasPrimaryContext()) {
    std::fputs("libcuda: cuDevicePrimaryCtxRetain() would create a context\n", stderr);
    std::abort();
  }
  ++context_references;
  *context = reinterpret_cast<void*>(1);
  return kSuccess;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  if (device != 0 || context_references.fetch_sub(1) <= 0) return kInvalidValue;
  return kSuccess;
}

int cuCtxPushCurrent_v2(void* context) {
  if (context == nullptr) return kInvalidValue;
  ++contexts_pushed;
  return kSuccess;
}

int cuCtxPopCurrent_v2(void** context) {
  if (context == nullptr || contexts_pushed.fetch_sub(1) <= 0) return kInvalidValue;
  *context = reinterpret_cast<void*>(1);
  return kSuccess;
}

int cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  if (free_bytes == nullptr || total_bytes == nullptr) return kInvalidValue;
  if (contexts_pushed == 0) return kNotInitialized;
  constexpr size_t kMiB = size_t{1} << 20;
  *free_bytes = Number("SGPU_FREE_MIB", 40'000) * kMiB;
  *total_bytes = 80'000 * kMiB;
  return kSuccess;
}

int sgpu_context_references() { return context_references; }
int sgpu_contexts_pushed() { return contexts_pushed; }
