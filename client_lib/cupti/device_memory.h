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

// What CUPTI takes for one activity buffer on a device.
inline constexpr uint64_t kDeviceBufferBytes = 3'200'000;
// CUPTI's own limit. CUPTI does not reuse the buffers of a graph's nodes while the graph exists, so
// fewer run out: with 8, nodes have no times after 0.9 million records.
inline constexpr uint32_t kMostDeviceBuffers = 250;
inline constexpr uint32_t kLeastDeviceBuffers = 16;
// Where free memory is unknown: 3 million records.
inline constexpr uint32_t kUsualDeviceBuffers = 32;

// Returns false if a device has less than kLeastFreeDeviceBytes; `failure` then names the device
// and the remedy. Else sets how many buffers CUPTI may allocate on each device: up to a quarter of
// the free memory, because the program needs the rest.
bool DevicesHaveRoom(const CudaDriver& driver, uint32_t* device_buffers, ArmFailure* failure);

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CUPTI_DEVICE_MEMORY_H_
