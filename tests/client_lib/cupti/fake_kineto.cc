// Kineto, the profiler in libtorch_cpu.so, as far as CUPTI sees it (torch 2.11): it subscribes when
// it is first used, and stays subscribed for the life of the process. If it cannot, it records no
// GPU for the life of the process. Each session registers its buffers and turns its kinds on and
// off.
//
// Threads: one.
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <atomic>
#include <mutex>
#include <set>

#include "tests/cupti_standin/cupti_api.h"

namespace {

constexpr size_t kBufferBytes = 1 << 20;
constexpr CUpti_ActivityKind kKinds[] = {
    static_cast<CUpti_ActivityKind>(1),   // MEMCPY
    static_cast<CUpti_ActivityKind>(2),   // MEMSET
    static_cast<CUpti_ActivityKind>(10),  // CONCURRENT_KERNEL
    static_cast<CUpti_ActivityKind>(5),   // RUNTIME
    static_cast<CUpti_ActivityKind>(4),   // DRIVER
};

void* g_cupti = nullptr;
bool g_has_gpu = false;
std::atomic<bool> g_is_enabled{false};
std::atomic<uint64_t> g_kernels{0};
std::mutex g_mu;
std::set<uint8_t*> g_buffers;  // Guarded by g_mu.

template <typename Function>
Function* Find(const char* name) {
  void* found = dlsym(g_cupti, name);
  if (found == nullptr) abort();
  return reinterpret_cast<Function*>(found);
}
CUptiResult Subscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback) {
  return Find<CUptiResult(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*)>("cuptiSubscribe")(
      handle, callback, nullptr);
}

void RegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                       CUpti_BuffersCallbackCompleteFunc completed) {
  Find<CUptiResult(CUpti_BuffersCallbackRequestFunc, CUpti_BuffersCallbackCompleteFunc)>(
      "cuptiActivityRegisterCallbacks")(requested, completed);
}

void SwitchKinds(const char* function) {
  for (const CUpti_ActivityKind kind : kKinds) {
    Find<CUptiResult(CUpti_ActivityKind)>(function)(kind);
  }
}

void Requested(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(aligned_alloc(8, kBufferBytes));
  const std::lock_guard lock(g_mu);
  g_buffers.insert(*buffer);
  *size = kBufferBytes;
  *max_records = 0;
}

void Completed(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid_size) {
  {
    // Kineto, too, ignores buffers that it did not make.
    const std::lock_guard lock(g_mu);
    if (g_buffers.erase(buffer) == 0) return;
  }
  auto* next = Find<CUptiResult(uint8_t*, size_t, CUpti_Activity**)>("cuptiActivityGetNextRecord");
  CUpti_Activity* record = nullptr;
  while (next(buffer, valid_size, &record) == CUPTI_SUCCESS) {
    if (record->kind == kKinds[2]) ++g_kernels;
  }
  free(buffer);
}

// Kineto makes the TSC CUPTI's clock, at the start of each session.
uint64_t ReadTsc() {
#ifdef __x86_64__
  return __builtin_ia32_rdtsc();
#else
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
#endif
}

void Ignore(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

}  // namespace

namespace torch::autograd::profiler {

bool isProfilerEnabledInMainThread();
bool isProfilerEnabledInMainThread() { return g_is_enabled; }

}  // namespace torch::autograd::profiler

extern "C" {

bool fake_kineto_use(void* cupti);
void fake_kineto_start();
uint64_t fake_kineto_stop();

// The first use of torch.profiler. Returns whether it records the GPU.
bool fake_kineto_use(void* cupti) {
  if (g_cupti != nullptr) return g_has_gpu;
  g_cupti = cupti;
  CUpti_SubscriberHandle handle = nullptr;
  g_has_gpu = Subscribe(&handle, Ignore) == CUPTI_SUCCESS;
  return g_has_gpu;
}

void fake_kineto_start() {
  g_kernels = 0;
  if (g_has_gpu) {
    Find<CUptiResult(CUpti_TimestampCallbackFunc)>("cuptiActivityRegisterTimestampCallback")(
        ReadTsc);
    RegisterCallbacks(Requested, Completed);
    SwitchKinds("cuptiActivityEnable");
  }
  g_is_enabled = true;
}

// Returns the number of kernels that it recorded.
uint64_t fake_kineto_stop() {
  g_is_enabled = false;
  if (!g_has_gpu) return 0;
  SwitchKinds("cuptiActivityDisable");
  Find<CUptiResult(uint32_t)>("cuptiActivityFlushAll")(0);
  return g_kernels;
}
}
