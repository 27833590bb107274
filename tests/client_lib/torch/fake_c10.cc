// libc10 as far as memory events go: the allocator of the CPU, what it tells of itself, which goes
// to torch.profiler while that listens, and the functions it does so through, under their real
// names. With
// FAKE_C10_OLD their totals are signed, as up to torch 1.13.
#include "tests/client_lib/torch/fake_c10.h"

#include <atomic>

namespace c10 {

// What torch.profiler would be told, and whether it is there.
std::atomic<uint64_t> g_reports{0};
std::atomic<uint64_t> g_oom_reports{0};
std::atomic<bool> g_profiler_is_on{false};
std::atomic<int64_t> g_allocated{0};

FAKE_EXPORT void reportMemoryUsageToProfiler(void*, int64_t, Total, Total, Device) {
  g_reports.fetch_add(1);
}
FAKE_EXPORT void reportOutOfMemoryToProfiler(int64_t, Total, Total, Device) {
  g_oom_reports.fetch_add(1);
}
FAKE_EXPORT bool memoryProfilingEnabled() { return g_profiler_is_on.load(); }

FAKE_EXPORT void ProfiledCPUMemoryReporter::New(void* address, size_t bytes) {
  if (!memoryProfilingEnabled()) return;
  const auto size = static_cast<int64_t>(bytes);
  const int64_t allocated = g_allocated.fetch_add(size) + size;
  reportMemoryUsageToProfiler(address, size, static_cast<Total>(allocated), 0, {0, -1});
}

FAKE_EXPORT void ProfiledCPUMemoryReporter::Delete(void* address) {
  if (!memoryProfilingEnabled()) return;
  reportMemoryUsageToProfiler(address, -1, static_cast<Total>(g_allocated.load()), 0, {0, -1});
}

FAKE_EXPORT void ProfiledCPUMemoryReporter::OutOfMemory(size_t bytes) {
  reportOutOfMemoryToProfiler(static_cast<int64_t>(bytes), 0, 0, {0, -1});
}

ProfiledCPUMemoryReporter g_reporter;

}  // namespace c10

extern "C" {

FAKE_EXPORT void fake_cpu_allocate(void* address, size_t bytes) {
  c10::g_reporter.New(address, bytes);
}
FAKE_EXPORT void fake_cpu_free(void* address) { c10::g_reporter.Delete(address); }
FAKE_EXPORT void fake_cpu_oom(size_t bytes) { c10::g_reporter.OutOfMemory(bytes); }

FAKE_EXPORT void fake_profiler_turn(bool on) { c10::g_profiler_is_on.store(on); }
FAKE_EXPORT uint64_t fake_profiler_reports() { return c10::g_reports.load(); }
FAKE_EXPORT uint64_t fake_profiler_oom_reports() { return c10::g_oom_reports.load(); }

}  // extern "C"
