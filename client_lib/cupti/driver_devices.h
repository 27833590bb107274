// Describes devices with libcuda's functions. CUPTI before 11.7 describes a device only if the
// program starts to use it later.
//
// Threads: the GPU thread.
#ifndef PROFD_CLIENT_LIB_CUPTI_DRIVER_DEVICES_H_
#define PROFD_CLIENT_LIB_CUPTI_DRIVER_DEVICES_H_

#include "client_lib/cupti/capture_writer.h"
#include "client_lib/cupti/cupti_library.h"
#include "client_lib/cupti/record_decoder.h"

namespace profd::client {

// Writes an event for each device that has none yet, and none if the driver lacks the functions.
void DescribeByDriver(const CudaDriver& driver, CaptureWriter* writer, RecordDecoder* decoder);

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CUPTI_DRIVER_DEVICES_H_
