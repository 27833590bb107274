// Describes the devices by what libcuda says of them, where CUPTI cannot: before 11.7 it describes
// only those that are used from then on.
//
// Threads: the GPU thread's.
#ifndef PROFD_CLIENT_LIB_CUPTI_DRIVER_DEVICES_H_
#define PROFD_CLIENT_LIB_CUPTI_DRIVER_DEVICES_H_

#include "client_lib/cupti/capture_writer.h"
#include "client_lib/cupti/cupti_library.h"
#include "client_lib/cupti/record_decoder.h"

namespace profd::client {

// Writes an event for each device that has none yet. A driver without the functions writes none.
void DescribeByDriver(const CudaDriver& driver, CaptureWriter* writer, RecordDecoder* decoder);

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CUPTI_DRIVER_DEVICES_H_
