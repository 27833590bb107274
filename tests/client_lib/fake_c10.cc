// libc10 as far as memory events go: the allocator of the CPU, which reports only while somebody
// says that he listens, and the functions that it reports through, under their real names. With
// FAKE_C10_OLD their totals are signed, as up to torch 1.13.
#include "tests/client_lib/fake_c10.h"

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

}  // namespace c10

extern "C" {

FAKE_EXPORT void fake_cpu_report(void* address, int64_t bytes) {
  if (!c10::memoryProfilingEnabled()) return;
  const int64_t allocated = c10::g_allocated.fetch_add(bytes) + bytes;
  c10::reportMemoryUsageToProfiler(address, bytes, static_cast<c10::Total>(allocated), 0, {0, -1});
}

FAKE_EXPORT void fake_profiler_turn(bool on) { c10::g_profiler_is_on.store(on); }
FAKE_EXPORT uint64_t fake_profiler_reports() { return c10::g_reports.load(); }
FAKE_EXPORT uint64_t fake_profiler_oom_reports() { return c10::g_oom_reports.load(); }

}  // extern "C"
