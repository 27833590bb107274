// Checks that the GPUs of the process have free memory for CUPTI, which allocates several buffers
// of 3.2 MB on each device when it is attached. Without free memory CUPTI records no times, and the
// program's next allocation may fail.
//
// Looks at devices with an active primary context, which PyTorch, JAX, and the CUDA runtime use. It
// creates no context. It changes only the caller's current context, and restores it. It skips
// drivers without the functions.
//
// Threads: the GPU thread, because the calls may wait for the context.
#ifndef PROFD_CLIENT_LIB_CUPTI_DEVICE_MEMORY_H_
#define PROFD_CLIENT_LIB_CUPTI_DEVICE_MEMORY_H_

#include <cstdint>

#include "client_lib/cupti/cupti_errors.h"
#include "client_lib/cupti/cupti_library.h"

namespace profd::client {

inline constexpr uint64_t kLeastFreeDeviceBytes = uint64_t{64} << 20;

// Returns false if a device has less; `failure` then names the device and the remedy.
bool DevicesHaveRoom(const CudaDriver& driver, ArmFailure* failure);

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CUPTI_DEVICE_MEMORY_H_
