// Asks NVIDIA's own libcupti, in a process of its own, since two libraries of one SONAME are easily
// confused in one:
//
//   real_cupti_probe LIBRARY version
//   real_cupti_probe LIBRARY sizes            the size of a record of each kind, 0 to 63
//   real_cupti_probe LIBRARY walk             buffers from stdin: 8 bytes of size, then the bytes
//   real_cupti_probe LIBRARY has NAME...      which functions there are: 1 or 0
//   real_cupti_probe LIBRARY names DOMAIN CBID...   the name of each API call, or the result code
//   real_cupti_probe LIBRARY driver           0 if a session can be had here, else why not
//   real_cupti_probe LIBRARY refusals         what functions return without a driver
//
// Prints one line for each answer; no function of it needs a GPU. A walk prints "OFFSET KIND" for
// each record and "end RESULT" after each buffer.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "tests/cupti_standin/cupti_api.h"

namespace {

void* library = nullptr;

template <typename Function>
std::add_pointer_t<Function> Get(const char* name) {
  auto* const function = reinterpret_cast<std::add_pointer_t<Function>>(dlsym(library, name));
  if (function == nullptr) {
    std::fprintf(stderr, "real_cupti_probe: no %s\n", name);
    std::exit(1);
  }
  return function;
}

using Next = CUptiResult(uint8_t*, size_t, CUpti_Activity**);

void PrintSizes() {
  auto* const next = Get<Next>("cuptiActivityGetNextRecord");
  for (uint32_t kind = 0; kind < 64; ++kind) {
    std::vector<uint64_t> buffer(512, kind);
    auto* const bytes = reinterpret_cast<uint8_t*>(buffer.data());
    CUpti_Activity* record = nullptr;
    const size_t size = buffer.size() * sizeof(uint64_t);
    bool is_known = true;
    for (int i = 0; i < 2; ++i) is_known &= next(bytes, size, &record) == CUPTI_SUCCESS;
    const size_t stride =
        is_known ? static_cast<size_t>(reinterpret_cast<uint8_t*>(record) - bytes) : 0;
    std::printf("%zu\n", stride);
  }
}

void Walk() {
  auto* const next = Get<Next>("cuptiActivityGetNextRecord");
  uint64_t size = 0;
  while (std::fread(&size, sizeof(size), 1, stdin) == 1) {
    std::vector<uint64_t> buffer((size + 7) / 8);
    if (std::fread(buffer.data(), 1, size, stdin) != size) std::exit(1);
    auto* const bytes = reinterpret_cast<uint8_t*>(buffer.data());
    CUpti_Activity* record = nullptr;
    CUptiResult result = CUPTI_SUCCESS;
    while ((result = next(bytes, size, &record)) == CUPTI_SUCCESS) {
      uint32_t kind = 0;
      std::memcpy(&kind, record, sizeof(kind));
      std::printf("%zu %u\n", static_cast<size_t>(reinterpret_cast<uint8_t*>(record) - bytes),
                  kind);
    }
    std::printf("end %d\n", static_cast<int>(result));
  }
}

uint32_t Number(const char* text) { return static_cast<uint32_t>(std::strtoul(text, nullptr, 10)); }

void PrintNames(int count, char** arguments) {
  auto* const name_of =
      Get<CUptiResult(CUpti_CallbackDomain, uint32_t, const char**)>("cuptiGetCallbackName");
  const auto domain = static_cast<CUpti_CallbackDomain>(Number(arguments[0]));
  for (int i = 1; i < count; ++i) {
    const char* name = nullptr;
    const CUptiResult result = name_of(domain, Number(arguments[i]), &name);
    if (result == CUPTI_SUCCESS) {
      std::printf("%s\n", name);
    } else {
      std::printf("%d\n", static_cast<int>(result));
    }
  }
}

void Ignore(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

CUptiResult Subscribe() {
  CUpti_SubscriberHandle handle = nullptr;
  return Get<CUptiResult(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*)>("cuptiSubscribe")(
      &handle, &Ignore, nullptr);
}

void PrintRefusals() {
  const auto print = [](const char* what, CUptiResult result) {
    std::printf("%s %d\n", what, static_cast<int>(result));
  };
  uint64_t value = 0;
  size_t size = sizeof(value);
  print("subscribe", Subscribe());
  print("enable", Get<CUptiResult(CUpti_ActivityKind)>("cuptiActivityEnable")(
                      CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
  print("enable_invalid", Get<CUptiResult(CUpti_ActivityKind)>("cuptiActivityEnable")(
                              static_cast<CUpti_ActivityKind>(6)));
  print("disable",
        Get<CUptiResult(CUpti_ActivityKind)>("cuptiActivityDisable")(CUPTI_ACTIVITY_KIND_RUNTIME));
  print("dump", Get<CUptiResult(CUpti_ActivityKind)>("cuptiActivityEnableAndDump")(
                    CUPTI_ACTIVITY_KIND_DEVICE));
  print("flush", Get<CUptiResult(uint32_t)>("cuptiActivityFlushAll")(0));
  print("flush_period", Get<CUptiResult(uint32_t)>("cuptiActivityFlushPeriod")(10));
  print("get_attribute",
        Get<CUptiResult(CUpti_ActivityAttribute, size_t*, void*)>("cuptiActivityGetAttribute")(
            CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, &size, &value));
  print("thread_ids", Get<CUptiResult(CUpti_ActivityThreadIdType)>("cuptiSetThreadIdType")(
                          CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM));
  print("runtime_api",
        Get<CUptiResult(uint32_t, uint8_t)>("cuptiActivityEnableRuntimeApi")(211, 1));
  print("hw_trace", Get<CUptiResult(uint8_t)>("cuptiActivityEnableHWTrace")(1));
  print("latency", Get<CUptiResult(uint8_t)>("cuptiActivityEnableLatencyTimestamps")(1));
  print("dropped", Get<CUptiResult(CUcontext, uint32_t, size_t*)>(
                       "cuptiActivityGetNumDroppedRecords")(nullptr, 0, &size));
  print("timestamp", Get<CUptiResult(uint64_t*)>("cuptiGetTimestamp")(&value));
  print("last_error", Get<CUptiResult()>("cuptiGetLastError")());
  print("finalize", Get<CUptiResult()>("cuptiFinalize")());
  print("finalize", Get<CUptiResult()>("cuptiFinalize")());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "real_cupti_probe: %s\n", dlerror());
    return 1;
  }
  const std::string_view command = argv[2];
  if (command == "version") {
    uint32_t version = 0;
    Get<CUptiResult(uint32_t*)>("cuptiGetVersion")(&version);
    std::printf("%u\n", version);
  } else if (command == "sizes") {
    PrintSizes();
  } else if (command == "walk") {
    Walk();
  } else if (command == "has") {
    for (int i = 3; i < argc; ++i) {
      std::printf("%d\n", dlsym(library, argv[i]) == nullptr ? 0 : 1);
    }
  } else if (command == "names" && argc > 3) {
    PrintNames(argc - 3, argv + 3);
  } else if (command == "driver") {
    std::printf("%d\n", static_cast<int>(Subscribe()));
  } else if (command == "refusals") {
    PrintRefusals();
  } else {
    return 2;
  }
  return 0;
}
