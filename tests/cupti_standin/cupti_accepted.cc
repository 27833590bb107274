// CUPTI's functions that succeed, or fail as they do on a common machine, and change nothing.
#include "tests/cupti_standin/cupti_api.h"
#include "tests/cupti_standin/entry.h"

using sgpu::Entry;

extern "C" {

#pragma GCC visibility push(default)

CUptiResult CUPTIAPI cuptiActivityEnableLaunchAttributes(uint8_t) {
  return Entry(__func__).Return();
}

CUptiResult CUPTIAPI cuptiActivityEnableDeviceGraph(uint8_t) { return Entry(__func__).Return(); }

CUptiResult CUPTIAPI cuptiActivityEnableAllocationSource(uint8_t) {
  return Entry(__func__).Return();
}

// As on Hopper and before.
CUptiResult CUPTIAPI cuptiActivityEnableHWTrace(uint8_t) {
  return Entry(__func__).Return(CUPTI_ERROR_NOT_SUPPORTED);
}

CUptiResult CUPTIAPI cuptiActivityConfigureUnifiedMemoryCounter(
    CUpti_ActivityUnifiedMemoryCounterConfig* config, uint32_t) {
  return Entry(__func__).Return(config == nullptr ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS);
}

CUptiResult CUPTIAPI cuptiGetAutoBoostState(CUcontext, CUpti_ActivityAutoBoostState* state) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  if (state == nullptr) return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  *state = {};
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiComputeCapabilitySupported(int major, int, int* support) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  if (support == nullptr) return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  *support = major >= 7 ? 1 : 0;
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiDeviceSupported(CUdevice, int* support) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  if (support == nullptr) return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  *support = 1;
  return entry.Return();
}

CUptiResult CUPTIAPI cuptiDeviceVirtualizationMode(CUdevice, CUpti_DeviceVirtualizationMode* mode) {
  const Entry entry(__func__);
  if (entry.is_refused()) return entry.Return();
  if (mode == nullptr) return entry.Return(CUPTI_ERROR_INVALID_PARAMETER);
  *mode = CUPTI_DEVICE_VIRTUALIZATION_MODE_NONE;
  return entry.Return();
}

#pragma GCC visibility pop

}  // extern "C"
