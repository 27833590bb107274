#include "client_lib/cupti/device_memory.h"

#include <stdio.h>

namespace profd::client {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Of `device`. False: it has no context of the process, or does not say.
bool ReadFreeBytes(const CudaDriver& driver, int device, uint64_t* free_bytes) {
  unsigned flags = 0;
  int is_active = 0;
  if (driver.cuDevicePrimaryCtxGetState(device, &flags, &is_active) != 0 || is_active == 0) {
    return false;
  }
  void* context = nullptr;
  // A reference, so that the context stays while it is asked.
  if (driver.cuDevicePrimaryCtxRetain(&context, device) != 0) return false;
  size_t free = 0;
  size_t total = 0;
  bool is_known = false;
  if (driver.cuCtxPushCurrent(context) == 0) {
    is_known = driver.cuMemGetInfo(&free, &total) == 0;
    driver.cuCtxPopCurrent(&context);
  }
  driver.cuDevicePrimaryCtxRelease(device);
  *free_bytes = free;
  return is_known;
}

}  // namespace

bool DevicesHaveRoom(const CudaDriver& driver, uint32_t* device_buffers, ArmFailure* failure) {
  int count = 0;
  *device_buffers = kUsualDeviceBuffers;
  if (driver.cuDeviceGet == nullptr || driver.cuDeviceGetCount == nullptr ||
      driver.cuDevicePrimaryCtxGetState == nullptr || driver.cuDevicePrimaryCtxRetain == nullptr ||
      driver.cuDevicePrimaryCtxRelease == nullptr || driver.cuCtxPushCurrent == nullptr ||
      driver.cuCtxPopCurrent == nullptr || driver.cuMemGetInfo == nullptr ||
      driver.cuDeviceGetCount(&count) != 0) {
    return true;
  }
  uint64_t least_free_bytes = UINT64_MAX;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    int device = 0;
    uint64_t free_bytes = 0;
    if (driver.cuDeviceGet(&device, ordinal) != 0 || !ReadFreeBytes(driver, device, &free_bytes)) {
      continue;
    }
    if (free_bytes < least_free_bytes) least_free_bytes = free_bytes;
    if (free_bytes >= kLeastFreeDeviceBytes) continue;
    failure->reason = wire::ArmFailedReason::kGpuRefused;
    snprintf(failure->text, sizeof(failure->text),
             "GPU %d has %llu MiB of free memory, and CUPTI needs up to %llu MiB; free some "
             "(PyTorch: torch.cuda.empty_cache(), or a smaller batch)",
             ordinal, static_cast<unsigned long long>(free_bytes / kMiB),
             static_cast<unsigned long long>(kLeastFreeDeviceBytes / kMiB));
    return false;
  }
  if (least_free_bytes == UINT64_MAX) return true;
  const uint64_t buffers = least_free_bytes / 4 / kDeviceBufferBytes;
  *device_buffers = buffers > kMostDeviceBuffers    ? kMostDeviceBuffers
                    : buffers < kLeastDeviceBuffers ? kLeastDeviceBuffers
                                                    : static_cast<uint32_t>(buffers);
  return true;
}

}  // namespace profd::client
