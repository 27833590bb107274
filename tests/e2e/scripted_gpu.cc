#include "tests/e2e/scripted_gpu.h"

#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <vector>

#include "client_lib/include/profd/profd.h"
#include "tests/cupti_standin/sgpu.h"

namespace profd::e2e {
namespace {

constexpr sgpu_dim3 kGrid = {128, 1, 1};
constexpr sgpu_dim3 kBlock = {256, 1, 1};
constexpr uint64_t kBatchBytes = 1 << 20;

// The stand-in's functions; found at run time, as CUDA's would be.
struct Sgpu {
  decltype(&sgpu_init) init;
  decltype(&sgpu_default_stream) default_stream;
  decltype(&sgpu_stream_create) stream_create;
  decltype(&sgpu_launch) launch;
  decltype(&sgpu_memcpy) copy;
  decltype(&sgpu_memset) set_memory;
  decltype(&sgpu_mem_decompress) decompress;
  decltype(&sgpu_event_record) event_record;
  decltype(&sgpu_stream_wait_event) stream_wait_event;
  decltype(&sgpu_stream_sync) stream_sync;
  decltype(&sgpu_graph_begin) graph_begin;
  decltype(&sgpu_graph_end) graph_end;
  decltype(&sgpu_graph_instantiate) graph_instantiate;
  decltype(&sgpu_graph_launch) graph_launch;
  decltype(&sgpu_api_call) api_call;
  decltype(&sgpu_module_load) module_load;
  decltype(&sgpu_function) function;
  decltype(&sgpu_module_unload) module_unload;
  decltype(&sgpu_fail) fail;
  decltype(&sgpu_set) set;
  decltype(&sgpu_rival_subscribe) rival_subscribe;
  decltype(&sgpu_rival_unsubscribe) rival_unsubscribe;
  decltype(&sgpu_rival_steal_callbacks) rival_steal;
  decltype(&sgpu_clock_step) clock_step;
  decltype(&sgpu_settle) settle;
  decltype(&sgpu_truth) truth;
  decltype(&sgpu_truth_clear) truth_clear;
};

Sgpu g_sgpu;
uint32_t g_main_stream = 0;
uint32_t g_copy_stream = 0;
uint32_t g_graph = 0;
uint64_t g_decompressed_bytes = 0;
bool g_loaded = false;

template <typename F>
bool Find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

bool FindAll(void* library) {
  return Find(library, "sgpu_init", g_sgpu.init) &&
         Find(library, "sgpu_default_stream", g_sgpu.default_stream) &&
         Find(library, "sgpu_stream_create", g_sgpu.stream_create) &&
         Find(library, "sgpu_launch", g_sgpu.launch) && Find(library, "sgpu_memcpy", g_sgpu.copy) &&
         Find(library, "sgpu_memset", g_sgpu.set_memory) &&
         Find(library, "sgpu_mem_decompress", g_sgpu.decompress) &&
         Find(library, "sgpu_event_record", g_sgpu.event_record) &&
         Find(library, "sgpu_stream_wait_event", g_sgpu.stream_wait_event) &&
         Find(library, "sgpu_stream_sync", g_sgpu.stream_sync) &&
         Find(library, "sgpu_graph_begin", g_sgpu.graph_begin) &&
         Find(library, "sgpu_graph_end", g_sgpu.graph_end) &&
         Find(library, "sgpu_graph_instantiate", g_sgpu.graph_instantiate) &&
         Find(library, "sgpu_graph_launch", g_sgpu.graph_launch) &&
         Find(library, "sgpu_api_call", g_sgpu.api_call) &&
         Find(library, "sgpu_module_load", g_sgpu.module_load) &&
         Find(library, "sgpu_function", g_sgpu.function) &&
         Find(library, "sgpu_module_unload", g_sgpu.module_unload) &&
         Find(library, "sgpu_fail", g_sgpu.fail) && Find(library, "sgpu_set", g_sgpu.set) &&
         Find(library, "sgpu_rival_subscribe", g_sgpu.rival_subscribe) &&
         Find(library, "sgpu_rival_unsubscribe", g_sgpu.rival_unsubscribe) &&
         Find(library, "sgpu_rival_steal_callbacks", g_sgpu.rival_steal) &&
         Find(library, "sgpu_clock_step", g_sgpu.clock_step) &&
         Find(library, "sgpu_settle", g_sgpu.settle) && Find(library, "sgpu_truth", g_sgpu.truth) &&
         Find(library, "sgpu_truth_clear", g_sgpu.truth_clear);
}

int Launch(uint32_t stream, const char* kernel, uint64_t device_us) {
  return g_sgpu.launch(stream, kernel, kGrid, kBlock, device_us * 1000, 0, 0);
}

int MakeGraph() {
  uint32_t graph = 0;
  int result = g_sgpu.graph_begin(g_main_stream);
  for (int i = 0; i < 3; ++i) result |= Launch(g_main_stream, "graph_kernel", 5);
  result |= g_sgpu.graph_end(g_main_stream, &graph);
  return result | g_sgpu.graph_instantiate(graph, &g_graph);
}

int Load(const std::string& path, uint32_t time_mode) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr || !FindAll(library)) {
    fprintf(stderr, "scripted_target: %s: %s\n", path.c_str(), dlerror());
    return 1;
  }
  sgpu_opts options{};
  options.size = sizeof(options);
  options.time_mode = time_mode;
  int result = g_sgpu.init(&options);
  result |= g_sgpu.default_stream(1, &g_main_stream);
  result |= g_sgpu.stream_create(1, 0, 1, &g_copy_stream);
  result |= MakeGraph();
  g_loaded = result == 0;
  return result;
}

class Range {
 public:
  explicit Range(const std::string& name) {
    profd_range_begin_id(profd_intern(name.data(), name.size()));
  }
  ~Range() { profd_range_end_id(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

int Module(int64_t launches) {
  const char* const names[] = {"module_kernel"};
  sgpu_module* module = nullptr;
  int result = g_sgpu.module_load(names, 1, &module);
  for (int64_t i = 0; i < launches && result == 0; ++i) {
    result = Launch(g_main_stream, g_sgpu.function(module, 0), 2);
  }
  result |= g_sgpu.stream_sync(g_main_stream);
  return result | g_sgpu.module_unload(module, SGPU_UNLOAD_UNMAP);
}

// With a rate, in batches that wait for their turn.
int Flood(int64_t count, uint64_t device_us, int64_t per_second) {
  constexpr int64_t kBatch = 100;
  const Range range("flood");
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < count; ++i) {
    if (per_second > 0 && i % kBatch == 0) {
      const auto due = start + std::chrono::nanoseconds(i * 1'000'000'000 / per_second);
      while (std::chrono::steady_clock::now() < due) {
      }
    }
    if (const int result = Launch(g_main_stream, "flood_kernel", device_us); result != 0) {
      return result;
    }
  }
  return 0;
}

int WriteTruth(const std::string& path) {
  std::vector<sgpu_truth_rec> records(g_sgpu.truth(nullptr, 0));
  records.resize(g_sgpu.truth(records.data(), static_cast<uint32_t>(records.size())));
  std::ofstream out(path);
  for (const sgpu_truth_rec& r : records) {
    out << "{\"kind\": " << r.kind << ", \"fate\": " << r.fate
        << ", \"correlation\": " << r.correlation_id << ", \"domain\": " << r.domain
        << ", \"cbid\": " << r.cbid << ", \"thread\": " << r.thread_id
        << ", \"start_ns\": " << r.start_ns << ", \"end_ns\": " << r.end_ns
        << ", \"device\": " << r.device << ", \"stream\": " << r.stream << ", \"name\": \""
        << (r.name != nullptr ? r.name : "") << "\", \"bytes\": " << r.bytes
        << ", \"copy_kind\": " << r.copy_kind << "}\n";
  }
  return out.good() ? 0 : 1;
}

}  // namespace

// 9 kernels on two streams (3 of them a graph's), a copy there, a copy back, a memset, an
// event wait, a host wait, and a call that nobody wants to see.
void StepWork() {
  if (!g_loaded) return;
  {
    const Range range("load");
    uint32_t copied = 0;
    g_sgpu.copy(g_copy_stream, SGPU_HTOD, kBatchBytes, 1, 1);
    if (g_decompressed_bytes != 0) g_sgpu.decompress(g_copy_stream, 4, g_decompressed_bytes);
    g_sgpu.event_record(g_copy_stream, &copied);
    g_sgpu.stream_wait_event(g_main_stream, copied);
  }
  {
    const Range range("forward");
    {
      const Range layer("layer");
      Launch(g_main_stream, "gemm_forward", 40);
      Launch(g_main_stream, "gemm_forward", 40);
    }
    Launch(g_main_stream, "relu", 10);
    g_sgpu.api_call(SGPU_DOMAIN_RUNTIME, 17, 0, 0);
  }
  {
    const Range range("backward");
    g_sgpu.set_memory(g_copy_stream, 0, kBatchBytes, 1);
    Launch(g_main_stream, "gemm_backward", 60);
    Launch(g_copy_stream, "gemm_backward", 60);
    Launch(g_main_stream, "reduce", 5);
  }
  {
    const Range range("replay");
    g_sgpu.graph_launch(g_graph, g_main_stream, 0);
  }
  {
    const Range range("sync");
    g_sgpu.stream_sync(g_main_stream);
    g_sgpu.copy(g_copy_stream, SGPU_DTOH, kBatchBytes, 0, 0);
  }
}

std::string HandleGpu(std::istringstream& words) {
  std::string command;
  std::string text;
  std::string value;
  int64_t number = 1;
  int64_t us = 1;
  int64_t per_second = 0;
  int result = 0;
  words >> command;
  if (command == "load" || command == "load-virtual") {
    words >> text;
    result = Load(text, command == "load" ? SGPU_TIME_REAL : SGPU_TIME_VIRTUAL);
  } else if (!g_loaded) {
    return "error there is no GPU: gpu load FILE";
  } else if (command == "work") {
    words >> number;
    if (!words) number = 1;
    for (int64_t i = 0; i < number; ++i) StepWork();
  } else if (command == "launch") {
    words >> number >> us;
    if (!words) us = 1;
    words >> per_second;
    if (!words) per_second = 0;
    result = Flood(number, static_cast<uint64_t>(us), per_second);
  } else if (command == "decompress") {
    words >> g_decompressed_bytes;
  } else if (command == "outside") {
    result = Launch(g_main_stream, "outside_kernel", 5);
  } else if (command == "module") {
    words >> number;
    const Range range("module");
    result = Module(number);
  } else if (command == "set") {
    words >> text >> value;
    result = g_sgpu.set(text.c_str(), value.c_str());
  } else if (command == "fail") {
    words >> text;
    result = g_sgpu.fail(text.c_str());
  } else if (command == "rival") {
    words >> text;
    result = g_sgpu.rival_subscribe(text.c_str());
  } else if (command == "rival-gone") {
    result = g_sgpu.rival_unsubscribe();
  } else if (command == "steal") {
    result = g_sgpu.rival_steal();
  } else if (command == "clock-step") {
    words >> number;
    g_sgpu.clock_step(number);
  } else if (command == "settle") {
    result = g_sgpu.settle();
  } else if (command == "truth-clear") {
    g_sgpu.truth_clear();
  } else if (command == "truth") {
    words >> text;
    result = WriteTruth(text);
  } else {
    return "error no command gpu " + command;
  }
  return result == 0 ? "ok" : "error gpu " + command + " gave " + std::to_string(result);
}

}  // namespace profd::e2e
