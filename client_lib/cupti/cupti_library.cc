#include "client_lib/cupti/cupti_library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_lib/core/foreign_calls.h"
#include "client_lib/core/log.h"

namespace profd::client {
namespace {

using wire::ArmFailedReason;

constexpr size_t kPathBytes = 512;
constexpr int kCudaNotInitialized = 3;
// Libraries of before 11.0 have records that are no prefixes of today's.
constexpr uint32_t kOldestVersion = cupti::kVersion11_0;
constexpr const char* kOlderNames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8",
                                       "libcupti.so.11.7", "libcupti.so.11.2"};
// Of one kind, to ask how large its records are. Larger than any record.
constexpr size_t kProbeBytes = 4096;
constexpr uint32_t kDriver13_2 = 13020;

__attribute__((format(printf, 3, 4))) bool Fail(ArmFailure* failure, ArmFailedReason reason,
                                                const char* format, ...) {
  failure->reason = reason;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(failure->text, sizeof(failure->text), format, arguments);
  va_end(arguments);
  return false;
}

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

// The CUDA major in the name of a library, such as 13 in "libcupti.so.13" and 11 in
// "libcupti.so.11.8". 0: the name has none ("libcupti.so.2025.3.1").
uint32_t MajorOf(const char* name) {
  const char* end = strstr(name, ".so.");
  if (end == nullptr) return 0;
  const unsigned long major = strtoul(end + strlen(".so."), nullptr, 10);
  return major < 100 ? static_cast<uint32_t>(major) : 0;
}

// The same by the SONAME of a loaded library, which no link and no other file name hides.
uint32_t MajorOfHandle(void* handle) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return 0;
  const char* strings = nullptr;
  uint64_t soname = 0;
  for (const ElfW(Dyn)* entry = map->l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    // glibc has relocated the address.
    if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_SONAME) soname = entry->d_un.d_val;
  }
  return strings != nullptr && soname != 0 ? MajorOf(strings + soname) : 0;
}

uint32_t MajorOfDriver(const CudaDriver& driver) { return driver.version / 1000; }

// The package of CUPTI for CUDA `major`.
const char* PackageFor(uint32_t major) {
  if (major <= 11) return "nvidia-cuda-cupti-cu11";
  return major == 12 ? "nvidia-cuda-cupti-cu12" : "nvidia-cuda-cupti";
}

// The libraries of interest that the process has mapped.
struct Mapped {
  char cuda[kPathBytes];
  uint32_t cudart_major;
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
    mapped->cudart_major = MajorOf(BaseName(path));
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
  const uint32_t major = MajorOfDriver(driver);
  snprintf(fitting, sizeof(fitting), "libcupti.so.%u", major);
  if (void* handle = dlopen(fitting, RTLD_NOW | RTLD_LOCAL)) return handle;
  for (const char* name : kOlderNames) {
    if (MajorOf(name) > major) continue;
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
  }
  if (void* handle = OpenByFolder(mapped, fitting)) return handle;
  for (const char* name : kOlderNames) {
    if (MajorOf(name) > major) continue;
    if (void* handle = OpenByFolder(mapped, name)) return handle;
  }
  return nullptr;
}

// Whether a libcupti of CUDA `major` (0: not known) is later than the driver.
bool IsTooNew(uint32_t major, const CudaDriver& driver, ArmFailure* failure) {
  const uint32_t most = MajorOfDriver(driver);
  if (major <= most) return false;
  Fail(failure, ArmFailedReason::kNoDriver,
       "libcupti is of CUDA %u, and the driver of CUDA %u; install %s, or update the driver", major,
       most, PackageFor(most));
  return true;
}

void* OpenCupti(const CudaDriver& driver, ArmFailure* failure) {
  const char* chosen = secure_getenv("PROFD_CUPTI_LIB");
  if (chosen != nullptr && chosen[0] != '\0') {
    if (IsTooNew(MajorOf(BaseName(chosen)), driver, failure)) return nullptr;
    void* handle = dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      Fail(failure, ArmFailedReason::kNoCupti, "PROFD_CUPTI_LIB: %s", dlerror());
    }
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
  // The runtime in use may be older than the driver, never newer.
  const bool has_runtime = mapped.cudart_major != 0 && mapped.cudart_major < MajorOfDriver(driver);
  const uint32_t major = has_runtime ? mapped.cudart_major : MajorOfDriver(driver);
  Fail(failure, ArmFailedReason::kNoCupti,
       "this process has CUDA %u but no libcupti: install %s or the toolkit's CUPTI, or set "
       "PROFD_CUPTI_LIB to its path",
       major, PackageFor(major));
  return nullptr;
}

bool ResolveAll(void* handle, CuptiLibrary* library, ArmFailure* failure) {
  const char* missing = nullptr;
#define PROFD_CUPTI_RESOLVE(name, arguments) \
  if (!Resolve(handle, "cupti" #name, &library->name)) missing = "cupti" #name;
  PROFD_CUPTI_REQUIRED(PROFD_CUPTI_RESOLVE)
#undef PROFD_CUPTI_RESOLVE
#define PROFD_CUPTI_RESOLVE(name, arguments) Resolve(handle, "cupti" #name, &library->name);
  PROFD_CUPTI_OPTIONAL(PROFD_CUPTI_RESOLVE)
  PROFD_CUPTI_SINCE_13_2(PROFD_CUPTI_RESOLVE)
  PROFD_CUPTI_SINCE_13_3(PROFD_CUPTI_RESOLVE)
#undef PROFD_CUPTI_RESOLVE
  if (missing == nullptr) return true;
  return Fail(failure, ArmFailedReason::kNoCupti, "the loaded libcupti has no %s", missing);
}

void* OpenAndResolve(const CudaDriver& driver, CuptiLibrary* library, ArmFailure* failure) {
  const ForeignCall call;
  void* handle = OpenCupti(driver, failure);
  return handle != nullptr && ResolveAll(handle, library, failure) ? handle : nullptr;
}

// 13.2 is recognized by its functions, as none of them may be called to ask for its version.
bool IsSafeToCall(void* handle, const CuptiLibrary& library, const CudaDriver& driver,
                  ArmFailure* failure) {
  const bool is_13_2 = library.ActivityGetStructSize != nullptr &&
                       dlsym(handle, "cuptiIsTracingSessionRunning") == nullptr;
  int devices = 0;
  if (!is_13_2 || (driver.version >= kDriver13_2 && driver.cuDeviceGetCount != nullptr &&
                   driver.cuDeviceGetCount(&devices) == 0)) {
    return true;
  }
  return Fail(failure, ArmFailedReason::kNoDriver,
              "libcupti 13.2 crashes where it cannot work with the driver, and this driver (CUDA "
              "%u.%u) may be too old for it; replace it by nvidia-cuda-cupti 13.3 or later, or "
              "update the driver",
              driver.version / 1000, driver.version % 1000 / 10);
}

bool ResolveDriver(CudaDriver* driver) {
  const ForeignCall call;
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
  Resolve(handle, "cuDevicePrimaryCtxGetState", &driver->cuDevicePrimaryCtxGetState);
  Resolve(handle, "cuDevicePrimaryCtxRetain", &driver->cuDevicePrimaryCtxRetain);
  Resolve(handle, "cuDevicePrimaryCtxRelease_v2", &driver->cuDevicePrimaryCtxRelease);
  Resolve(handle, "cuCtxPushCurrent_v2", &driver->cuCtxPushCurrent);
  Resolve(handle, "cuCtxPopCurrent_v2", &driver->cuCtxPopCurrent);
  Resolve(handle, "cuMemGetInfo_v2", &driver->cuMemGetInfo);
  return true;
}

}  // namespace

bool IsCudaDriverLoaded() {
  const ForeignCall call;
  const auto is_driver = [](dl_phdr_info* info, size_t, void*) -> int {
    return info->dlpi_name != nullptr && IsLibrary(info->dlpi_name, "libcuda.so");
  };
  return dl_iterate_phdr(is_driver, nullptr) != 0;
}

bool FindCudaDriver(CudaDriver* driver) {
  memset(driver, 0, sizeof(*driver));
  if (!ResolveDriver(driver)) return false;
  int version = 0;
  if (driver->cuDriverGetVersion(&version) != 0 || version <= 0) return false;
  driver->version = static_cast<uint32_t>(version);
  // A program that has loaded CUDA and not used it yet is one without CUDA: what would be
  // attached to is not there.
  void* context = nullptr;
  return driver->cuCtxGetCurrent == nullptr ||
         driver->cuCtxGetCurrent(&context) != kCudaNotInitialized;
}

bool FindCupti(const CudaDriver& driver, CuptiLibrary* library, ArmFailure* failure) {
  memset(library, 0, sizeof(*library));
  library->driver_version = driver.version;
  void* handle = OpenAndResolve(driver, library, failure);
  if (handle == nullptr) return false;
  if (IsTooNew(MajorOfHandle(handle), driver, failure)) return false;
  if (!IsSafeToCall(handle, *library, driver, failure)) return false;
  // Before all others: from 13.2 on, it alone changes nothing for tools that use the interface for
  // several subscribers.
  const cupti::Result sized = ProbeRecordSizes(library);
  if (sized != cupti::kSuccess) {
    ExplainResult(sized,
                  library->ActivityGetStructSize != nullptr ? "cuptiActivityGetStructSize"
                                                            : "cuptiActivityGetNextRecord",
                  "", failure);
    return false;
  }
  const cupti::Result versioned = library->GetVersion(&library->version);
  if (versioned != cupti::kSuccess) {
    ExplainResult(versioned, "cuptiGetVersion", "", failure);
    return false;
  }
  if (library->version < kOldestVersion) {
    return Fail(failure, ArmFailedReason::kNoCupti,
                "libcupti of API version %u is too old; 11.2 or newer is needed", library->version);
  }
  library->simulated = dlsym(handle, "sgpu_version") != nullptr;
  return true;
}

namespace {

cupti::Result AskRecordSize(const CuptiLibrary& library, cupti::Kind kind, uint64_t* bytes) {
  *bytes = 0;
  if (library.ActivityGetStructSize != nullptr) {
    constexpr uint32_t kThisVersion = 0;
    size_t size = 0;
    const cupti::Result result = library.ActivityGetStructSize(kind, kThisVersion, &size);
    if (result == cupti::kSuccess) *bytes = size;
    return result;
  }
  // Asked for the second record of a buffer that is full of one kind, the library has to say how
  // large the first one is. It needs no driver for that.
  alignas(8) uint8_t buffer[kProbeBytes] = {};
  for (size_t at = 0; at < sizeof(buffer); at += 8) memcpy(buffer + at, &kind, sizeof(kind));
  cupti::Activity* record = nullptr;
  cupti::Result result = library.ActivityGetNextRecord(buffer, sizeof(buffer), &record);
  if (result == cupti::kSuccess) {
    result = library.ActivityGetNextRecord(buffer, sizeof(buffer), &record);
  }
  if (result == cupti::kSuccess) {
    *bytes = static_cast<uint64_t>(reinterpret_cast<uint8_t*>(record) - buffer);
  }
  return result;
}

}  // namespace

cupti::Result ProbeRecordSizes(CuptiLibrary* library) {
  cupti::Result of_kernels = cupti::kErrorInvalidKind;
  for (cupti::Kind kind = 1; kind < cupti::kKindLimit; ++kind) {
    uint64_t bytes;
    cupti::Result result = AskRecordSize(*library, kind, &bytes);
    const bool is_size = bytes > 0 && bytes % 8 == 0 && bytes < kProbeBytes;
    library->record_bytes[kind] = is_size ? static_cast<uint16_t>(bytes) : uint16_t{0};
    if (result == cupti::kSuccess && !is_size) result = cupti::kErrorInvalidKind;
    if (kind == cupti::kKindConcurrentKernel) of_kernels = result;
  }
  return of_kernels;
}

}  // namespace profd::client
