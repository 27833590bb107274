#include "client_lib/torch/torch_library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "client_lib/core/foreign_calls.h"

namespace profd::client::torch {
namespace {

constexpr char kLibraryName[] = "libtorch_cpu.so";
// What Python loads, and all of torch with it.
constexpr char kExtension[] = "/torch/_C.";
constexpr char kAddCallback[] = "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE";

struct Mapped {
  char first[sizeof(TorchLibrary::path)];
  char second[sizeof(TorchLibrary::path)];
  uint32_t count;
  char extension[sizeof(TorchLibrary::path)];  // Empty: there is none.
};

bool IsTorch(const char* path) {
  const char* slash = strrchr(path, '/');
  const char* base = slash != nullptr ? slash + 1 : path;
  constexpr size_t kLength = sizeof(kLibraryName) - 1;
  return strncmp(base, kLibraryName, kLength) == 0 &&
         (base[kLength] == '\0' || base[kLength] == '.');
}

int NoteTorch(dl_phdr_info* info, size_t, void* into) {
  auto* mapped = static_cast<Mapped*>(into);
  const char* path = info->dlpi_name;
  if (path == nullptr || strlen(path) >= sizeof(mapped->first)) return 0;
  if (strstr(path, kExtension) != nullptr) strcpy(mapped->extension, path);
  if (!IsTorch(path)) return 0;
  strcpy(mapped->count == 0 ? mapped->first : mapped->second, path);
  ++mapped->count;
  return 0;
}

template <typename Function>
bool Resolve(void* handle, const char* symbol, Function* function) {
  void* found = dlsym(handle, symbol);
  memcpy(function, &found, sizeof(found));
  return found != nullptr;
}

// The first symbol of those we cannot do without that is not there; null: none.
const char* ResolveAll(void* handle, TorchLibrary* library) {
  const char* missing = nullptr;
  const auto need = [&](const char* symbol, auto* function) {
    if (!Resolve(handle, symbol, function) && missing == nullptr) missing = symbol;
  };
  need(kAddCallback, &library->add_callback);
  need("_ZN2at14removeCallbackEm", &library->remove_callback);
  need("_ZN2at15disableCallbackEm", &library->disable_callback);
  need("_ZN2at16reenableCallbackEm", &library->reenable_callback);
  need("_ZNK2at14RecordFunction4nameEv", &library->name);
  need("_ZNK2at14RecordFunction10num_inputsEv", &library->input_count);
  need("_ZN2at14RecordFunctionC1ENS_11RecordScopeE", &library->construct);
  need("_ZN2at14RecordFunctionD1Ev", &library->destroy);
  need("_ZN2at14RecordFunction15currentThreadIdEv", &library->current_thread);
  Resolve(handle, "_ZN2at14RecordFunction6beforeEPKcl", &library->before);
  if (library->before == nullptr) {
    need(
        "_ZN2at14RecordFunction6beforeESt7variantIJSt17basic_string_viewIcSt11char_traitsIcEE"
        "St17reference_wrapperIKN3c1014FunctionSchemaEEEEl",
        &library->before_variant);
  }
  Resolve(handle, "_ZNK2at14RecordFunction7isAsyncEv", &library->is_async);
  Resolve(handle, "_ZN2at15sequence_number4peekEv", &library->autograd_nodes);
  Resolve(handle, "_ZN3c1019UndefinedTensorImpl10_singletonE", &library->undefined_tensor);
  return missing;
}

void* Hold(const char* path) { return dlopen(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE); }

// By Python's extension, where it is there: the loader has put together where symbols of that are
// searched, which it would now do for libtorch_cpu, of hundreds of libraries (1.7 ms with
// Debian's).
void* HoldTorch(const Mapped& mapped) {
  void* extension = mapped.extension[0] != '\0' ? Hold(mapped.extension) : nullptr;
  if (extension != nullptr && dlsym(extension, kAddCallback) != nullptr) return extension;
  return Hold(mapped.first);
}

void* OpenTorch(TorchLibrary* library, char* why, size_t why_bytes) {
  Mapped mapped{};
  dl_iterate_phdr(NoteTorch, &mapped);
  if (mapped.count > 1) {
    snprintf(why, why_bytes, "two copies of torch are loaded, %s and %s", mapped.first,
             mapped.second);
    return nullptr;
  }
  if (mapped.count == 1) {
    strcpy(library->path, mapped.first);
    void* handle = HoldTorch(mapped);
    if (handle == nullptr) snprintf(why, why_bytes, "%s", dlerror());
    return handle;
  }
  // RTLD_DEFAULT itself is null, so the program's own handle stands for it.
  if (dlsym(RTLD_DEFAULT, kAddCallback) != nullptr) return dlopen(nullptr, RTLD_LAZY);
  snprintf(why, why_bytes,
           "no %s is loaded, and the program shows none of its functions: a torch that is linked "
           "in statically cannot be observed",
           kLibraryName);
  return nullptr;
}

}  // namespace

bool FindTorch(TorchLibrary* library, char* why, size_t why_bytes) {
  const ForeignCall call;
  memset(library, 0, sizeof(*library));
  why[0] = '\0';
  void* handle = OpenTorch(library, why, why_bytes);
  if (handle == nullptr) return false;
  const char* missing = ResolveAll(handle, library);
  if (missing == nullptr) return true;
  snprintf(why, why_bytes, "%s has no %s", library->path[0] != '\0' ? library->path : "the program",
           missing);
  return false;
}

}  // namespace profd::client::torch
