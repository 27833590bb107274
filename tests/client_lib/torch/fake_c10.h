// What tests call of the libc10 and libc10_cuda that are stand-ins (fake_c10.cc, fake_c10_cuda.cc).
// They are loaded, not linked.
#ifndef PROFD_TESTS_CLIENT_LIB_TORCH_FAKE_C10_H_
#define PROFD_TESTS_CLIENT_LIB_TORCH_FAKE_C10_H_

#include <cstddef>
#include <cstdint>

#define FAKE_EXPORT __attribute__((visibility("default")))

namespace c10 {

struct Device {
  int8_t type;
  int8_t index;
};

#if defined(FAKE_C10_OLD)
using Total = int64_t;
#else
using Total = size_t;
#endif

void reportMemoryUsageToProfiler(void* address, int64_t bytes, Total allocated, Total reserved,
                                 Device device);
void reportOutOfMemoryToProfiler(int64_t bytes, Total allocated, Total reserved, Device device);
bool memoryProfilingEnabled();

struct ProfiledCPUMemoryReporter {
  void New(void* address, size_t bytes);
  void Delete(void* address);
  void OutOfMemory(size_t bytes);
};

}  // namespace c10

extern "C" {

// The allocator of the CPU.
void fake_cpu_allocate(void* address, size_t bytes);
void fake_cpu_free(void* address);
void fake_cpu_oom(size_t bytes);

// torch.profiler with profile_memory, and what it was told.
void fake_profiler_turn(bool on);
uint64_t fake_profiler_reports();
uint64_t fake_profiler_oom_reports();

// In libc10_cuda, which reports always.
void fake_cuda_report(void* address, int64_t bytes, int64_t allocated, int64_t reserved,
                      int8_t device);
void fake_cuda_oom(int64_t bytes, int8_t device);
}

#endif  // PROFD_TESTS_CLIENT_LIB_TORCH_FAKE_C10_H_
