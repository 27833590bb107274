#include "client_lib/cupti/cupti_library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_lib/core/log.h"

namespace profd::client {
namespace {

constexpr size_t kPathBytes = 512;
constexpr int kCudaNotInitialized = 3;
// Libraries of before 11.0 have records that are no prefixes of today's.
constexpr uint32_t kOldestVersion = cupti::kVersion11_0;
constexpr const char* kOlderNames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8",
                                       "libcupti.so.11.7", "libcupti.so.11.2"};

const char* BaseName(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

// Whether `path` ends in `name` or in `name` and a version.
bool IsLibrary(const char* path, const char* name) {
  const char* base = BaseName(path);
  const size_t length = strlen(name);
  return strncmp(base, name, length) == 0 && (base[length] == '\0' || base[length] == '.');
}

// The folder of `path`, with its slash at the end; "" where it has none.
void FolderOf(const char* path, char* folder) {
  const auto length = static_cast<size_t>(BaseName(path) - path);
  memcpy(folder, path, length < kPathBytes ? length : 0);
  folder[length < kPathBytes ? length : 0] = '\0';
}

// What of interest the process has mapped.
struct Mapped {
  char cuda[kPathBytes];
  char cudart_folder[kPathBytes];
  char cupti[kPathBytes];
  int cupti_count;
};

int NoteMapped(dl_phdr_info* info, size_t, void* into) {
  auto* mapped = static_cast<Mapped*>(into);
  const char* path = info->dlpi_name;
  if (path == nullptr || strlen(path) >= kPathBytes) return 0;
  if (IsLibrary(path, "libcuda.so") && mapped->cuda[0] == '\0') strcpy(mapped->cuda, path);
  if (IsLibrary(path, "libcudart.so") && mapped->cudart_folder[0] == '\0') {
    FolderOf(path, mapped->cudart_folder);
  }
  if (!IsLibrary(path, "libcupti.so")) return 0;
  ++mapped->cupti_count;
  // Of several, the one that came with the CUDA runtime in use; else the first.
  char folder[kPathBytes];
  FolderOf(path, folder);
  if (mapped->cupti[0] == '\0' ||
      (mapped->cudart_folder[0] != '\0' && strcmp(folder, mapped->cudart_folder) == 0)) {
    strcpy(mapped->cupti, path);
  }
  return 0;
}

void LookThroughMaps(Mapped* mapped) {
  memset(mapped, 0, sizeof(*mapped));
  dl_iterate_phdr(NoteMapped, mapped);
}

template <typename Function>
bool Resolve(void* handle, const char* name, Function* function) {
  void* found = dlsym(handle, name);
  memcpy(function, &found, sizeof(found));
  return found != nullptr;
}

void* OpenIn(const char* folder, const char* below, const char* name) {
  char path[kPathBytes];
  if (folder == nullptr || folder[0] == '\0') return nullptr;
  const int length = snprintf(path, sizeof(path), "%s/%s%s", folder, below, name);
  if (length <= 0 || static_cast<size_t>(length) >= sizeof(path)) return nullptr;
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

void* OpenByFolder(const Mapped& mapped, const char* name) {
  struct Place {
    const char* folder;
    const char* below;
  };
  const Place places[] = {
      {mapped.cudart_folder, ""},
      {mapped.cudart_folder, "../../cuda_cupti/lib/"},
      {mapped.cudart_folder, "../../cu13/lib/"},
      {mapped.cudart_folder, "../extras/CUPTI/lib64/"},
      {secure_getenv("CUDA_HOME"), "extras/CUPTI/lib64/"},
      {secure_getenv("CUDA_HOME"), "lib64/"},
      {secure_getenv("CUDA_PATH"), "extras/CUPTI/lib64/"},
      {secure_getenv("CONDA_PREFIX"), "lib/"},
      {"/usr/local/cuda", "extras/CUPTI/lib64/"},
      {"/usr/local/cuda", "lib64/"},
  };
  for (const Place& place : places) {
    if (void* handle = OpenIn(place.folder, place.below, name)) return handle;
  }
  return nullptr;
}

void* OpenByName(const CudaDriver& driver, const Mapped& mapped) {
  char fitting[32];
  snprintf(fitting, sizeof(fitting), "libcupti.so.%u", driver.version / 1000);
  if (void* handle = dlopen(fitting, RTLD_NOW | RTLD_LOCAL)) return handle;
  for (const char* name : kOlderNames) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
  }
  if (void* handle = OpenByFolder(mapped, fitting)) return handle;
  for (const char* name : kOlderNames) {
    if (void* handle = OpenByFolder(mapped, name)) return handle;
  }
  return nullptr;
}

void* OpenCupti(const CudaDriver& driver, char* why, size_t why_bytes) {
  const char* chosen = secure_getenv("PROFD_CUPTI_LIB");
  if (chosen != nullptr && chosen[0] != '\0') {
    void* handle = dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) snprintf(why, why_bytes, "PROFD_CUPTI_LIB: %s", dlerror());
    return handle;
  }
  Mapped mapped;
  LookThroughMaps(&mapped);
  if (mapped.cupti_count > 1) {
    Log(LogLevel::kWarning, "%d copies of libcupti are mapped; using %s", mapped.cupti_count,
        mapped.cupti);
  }
  if (mapped.cupti_count > 0) {
    if (void* handle = dlopen(mapped.cupti, RTLD_NOLOAD | RTLD_LAZY)) return handle;
  }
  // RTLD_DEFAULT itself is null, so the program's own handle stands for it.
  if (dlsym(RTLD_DEFAULT, "cuptiActivityEnable") != nullptr) return dlopen(nullptr, RTLD_LAZY);
  if (void* handle = OpenByName(driver, mapped)) return handle;
  snprintf(why, why_bytes,
           "this process has CUDA but no libcupti: install nvidia-cuda-cupti or the toolkit's "
           "CUPTI, or set PROFD_CUPTI_LIB to its path");
  return nullptr;
}

bool ResolveAll(void* handle, CuptiLibrary* library, char* why, size_t why_bytes) {
  const char* missing = nullptr;
#define PROFD_CUPTI_RESOLVE(name, arguments) \
  if (!Resolve(handle, "cupti" #name, &library->name)) missing = "cupti" #name;
  PROFD_CUPTI_REQUIRED(PROFD_CUPTI_RESOLVE)
#undef PROFD_CUPTI_RESOLVE
#define PROFD_CUPTI_RESOLVE(name, arguments) Resolve(handle, "cupti" #name, &library->name);
  PROFD_CUPTI_OPTIONAL(PROFD_CUPTI_RESOLVE)
#undef PROFD_CUPTI_RESOLVE
  if (missing != nullptr) snprintf(why, why_bytes, "the loaded libcupti has no %s", missing);
  return missing == nullptr;
}

}  // namespace

bool FindCudaDriver(CudaDriver* driver) {
  memset(driver, 0, sizeof(*driver));
  Mapped mapped;
  LookThroughMaps(&mapped);
  if (mapped.cuda[0] == '\0') return false;
  void* handle = dlopen(mapped.cuda, RTLD_NOLOAD | RTLD_LAZY);
  if (handle == nullptr || !Resolve(handle, "cuDriverGetVersion", &driver->cuDriverGetVersion)) {
    return false;
  }
  Resolve(handle, "cuCtxGetCurrent", &driver->cuCtxGetCurrent);
  Resolve(handle, "cuDeviceGetCount", &driver->cuDeviceGetCount);
  Resolve(handle, "cuDeviceGet", &driver->cuDeviceGet);
  Resolve(handle, "cuDeviceGetName", &driver->cuDeviceGetName);
  Resolve(handle, "cuDeviceGetAttribute", &driver->cuDeviceGetAttribute);
  Resolve(handle, "cuDeviceTotalMem_v2", &driver->cuDeviceTotalMem);
  int version = 0;
  if (driver->cuDriverGetVersion(&version) != 0 || version <= 0) return false;
  driver->version = static_cast<uint32_t>(version);
  // A program that has loaded CUDA and not used it yet is one without CUDA: what would be
  // attached to is not there.
  void* context = nullptr;
  return driver->cuCtxGetCurrent == nullptr ||
         driver->cuCtxGetCurrent(&context) != kCudaNotInitialized;
}

bool FindCupti(const CudaDriver& driver, CuptiLibrary* library, char* why, size_t why_bytes) {
  memset(library, 0, sizeof(*library));
  why[0] = '\0';
  void* handle = OpenCupti(driver, why, why_bytes);
  if (handle == nullptr || !ResolveAll(handle, library, why, why_bytes)) return false;
  if (library->GetVersion(&library->version) != cupti::kSuccess ||
      library->version < kOldestVersion) {
    snprintf(why, why_bytes, "libcupti of API version %u is too old; 11.2 or newer is needed",
             library->version);
    return false;
  }
  library->simulated = dlsym(handle, "sgpu_version") != nullptr;
  ProbeRecordSizes(library);
  return true;
}

// Asked for the second record of a buffer that is full of one kind, the library has to say how
// large the first one is. It needs no driver for that.
void ProbeRecordSizes(CuptiLibrary* library) {
  alignas(8) uint8_t buffer[4096];
  for (cupti::Kind kind = 1; kind < cupti::kKindLimit; ++kind) {
    memset(buffer, 0, sizeof(buffer));
    for (size_t at = 0; at < sizeof(buffer); at += 8) memcpy(buffer + at, &kind, sizeof(kind));
    library->record_bytes[kind] = 0;
    cupti::Activity* record = nullptr;
    const cupti::Result first = library->ActivityGetNextRecord(buffer, sizeof(buffer), &record);
    const cupti::Result second = library->ActivityGetNextRecord(buffer, sizeof(buffer), &record);
    if (first != cupti::kSuccess || second != cupti::kSuccess) continue;
    const auto bytes = reinterpret_cast<uint8_t*>(record) - buffer;
    if (bytes > 0 && bytes % 8 == 0 && bytes < static_cast<ptrdiff_t>(sizeof(buffer))) {
      library->record_bytes[kind] = static_cast<uint16_t>(bytes);
    }
  }
}

const char* ResultName(const CuptiLibrary& library, cupti::Result result) {
  const char* name = nullptr;
  if (library.GetResultString(result, &name) != cupti::kSuccess || name == nullptr) {
    return "an unknown result";
  }
  return name;
}

}  // namespace profd::client
