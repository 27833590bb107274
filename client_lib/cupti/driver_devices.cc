#include "client_lib/cupti/driver_devices.h"

#include <string.h>

#include "proto/wire/event.h"

namespace profd::client {
namespace {

int DriverAttribute(const CudaDriver& driver, int attribute, int device) {
  int value = 0;
  if (driver.cuDeviceGetAttribute(&value, attribute, device) != 0) return 0;
  return value;
}

// Numbers of CUdevice_attribute.
constexpr int kSharedBytesPerBlockOptin = 97;

}  // namespace

void DescribeByDriver(const CudaDriver& driver, CaptureWriter* writer, RecordDecoder* decoder) {
  int count = 0;
  if (driver.cuDeviceGetCount == nullptr || driver.cuDeviceGet == nullptr ||
      driver.cuDeviceGetName == nullptr || driver.cuDeviceGetAttribute == nullptr ||
      driver.cuDeviceGetCount(&count) != 0) {
    return;
  }
  CaptureWriter::Turn turn(writer);
  if (!turn.is_open()) return;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    int handle = 0;
    char name[256] = {};
    if (driver.cuDeviceGet(&handle, ordinal) != 0 ||
        driver.cuDeviceGetName(name, sizeof(name), handle) != 0) {
      continue;
    }
    const auto attribute = [&](int number) {
      return static_cast<uint32_t>(DriverAttribute(driver, number, handle));
    };
    wire::DeviceEvent device{};
    device.device = static_cast<uint32_t>(ordinal);
    device.name_id = writer->sink()->intern(writer->sink(), name, strlen(name));
    size_t bytes = 0;
    if (driver.cuDeviceTotalMem != nullptr && driver.cuDeviceTotalMem(&bytes, handle) == 0) {
      device.memory_bytes = bytes;
    }
    device.max_threads_per_block = attribute(1);
    device.shared_bytes_per_block = attribute(8);
    device.warp_threads = attribute(10);
    device.registers_per_block = attribute(12);
    device.sm_count = attribute(16);
    device.max_threads_per_sm = attribute(39);
    device.compute_major = attribute(75);
    device.compute_minor = attribute(76);
    device.shared_bytes_per_sm = attribute(81);
    device.registers_per_sm = attribute(82);
    device.shared_bytes_per_block_optin = attribute(kSharedBytesPerBlockOptin);
    device.max_blocks_per_sm = attribute(106);
    decoder->WriteDevice(device, writer->sink());
  }
}

}  // namespace profd::client
