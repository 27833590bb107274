// Whether the GPUs that the process uses have room for CUPTI, which allocates some buffers of 3.2
// MB on each when it is attached. Where there is no room it records no times, and the program's own
// next allocation may fail.
//
// Looks at devices with an active primary context, which PyTorch, JAX, and the CUDA runtime use. It
// creates no context, and changes the current context of no thread but the caller's, which it
// restores. A driver without the functions is not asked.
//
// Threads: the GPU thread's: the calls may wait for the context.
#ifndef PROFD_CLIENT_LIB_CUPTI_DEVICE_MEMORY_H_
#define PROFD_CLIENT_LIB_CUPTI_DEVICE_MEMORY_H_

#include <cstdint>

#include "client_lib/cupti/cupti_errors.h"
#include "client_lib/cupti/cupti_library.h"

namespace profd::client {

inline constexpr uint64_t kLeastFreeDeviceBytes = uint64_t{64} << 20;

// False: a device has less than that; `failure` names it and the remedy.
bool DevicesHaveRoom(const CudaDriver& driver, ArmFailure* failure);

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CUPTI_DEVICE_MEMORY_H_
