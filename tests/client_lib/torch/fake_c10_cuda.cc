// libc10_cuda as far as memory events go.
#include "tests/client_lib/torch/fake_c10.h"

namespace {

constexpr int8_t kCuda = 1;

}  // namespace

extern "C" {

FAKE_EXPORT void fake_cuda_report(void* address, int64_t bytes, int64_t allocated, int64_t reserved,
                                  int8_t device) {
  c10::reportMemoryUsageToProfiler(address, bytes, static_cast<c10::Total>(allocated),
                                   static_cast<c10::Total>(reserved), {kCuda, device});
}

FAKE_EXPORT void fake_cuda_oom(int64_t bytes, int8_t device) {
  c10::reportOutOfMemoryToProfiler(bytes, 0, 0, {kCuda, device});
}

}  // extern "C"
