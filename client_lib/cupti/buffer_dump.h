// BufferDump keeps the activity buffers of a capture as CUPTI filled them, and writes them to a
// file: fixtures from machines with a GPU, to be decoded again where there is none.
//
// PROFD_CUPTI_DUMP=PATH turns it on. Capture N of process P writes the new file PATH.P.N when it is
// drained. A file that exists is never overwritten and no symlink is followed as the last
// component. Programs that run with more rights than their caller (set-uid) ignore the variable.
//
//   DumpHeader | { DumpBlock | payload, padded to 8 bytes }...
//
//   kClock    a ClockSample, as it was added to GpuClock
//   kApiName  DumpApiName, then the name: before the first buffer with a call of it
//   kText     the address of a string, then the string: what kernels of the next buffer point to
//   kState    RecordDecoder::Settings, as it was when the next buffer was decoded
//   kBuffer   the records
//   kResult   DumpResult: what the decoder had made of all buffers so far
//   kDevices  uint64_t, a bit for each device that the driver described where CUPTI had not yet
//
// A dump holds at most kDumpBytes. What does not fit is left out from then on, and the header
// reports it; the blocks that are there are whole.
//
// Threads:  the GPU thread's.
// Hot path: off, one branch per buffer. On, a copy of each buffer and a system call per new name.
// Errors:   a dump that cannot be made or written is logged and costs the capture nothing.
#ifndef PROFD_CLIENT_LIB_CUPTI_BUFFER_DUMP_H_
#define PROFD_CLIENT_LIB_CUPTI_BUFFER_DUMP_H_

#include <cstddef>
#include <cstdint>

#include "client_lib/cupti/cupti_library.h"
#include "client_lib/cupti/gpu_clock.h"
#include "client_lib/cupti/record_decoder.h"
#include "proto/wire/event.h"

namespace profd::client {

inline constexpr size_t kDumpBytes = 16u << 20;
inline constexpr char kDumpMagic[8] = {'P', 'R', 'O', 'F', 'D', 'C', 'U', '1'};

enum class DumpBlockType : uint32_t {
  kClock = 1,
  kApiName = 2,
  kText = 3,
  kState = 4,
  kBuffer = 5,
  kResult = 6,
  kDevices = 7,
};

struct DumpHeader {
  char magic[8];
  uint32_t cupti_version;
  uint32_t driver_version;
  uint8_t is_simulated;
  uint8_t is_truncated;  // Blocks were left out.
  uint8_t api_filter;
  uint8_t padding[5];
  uint64_t max_records;
  uint64_t begin_ticks;
  uint16_t record_bytes[cupti::kKindLimit];
};
static_assert(sizeof(DumpHeader) == 40 + 2 * cupti::kKindLimit);

struct DumpBlock {
  uint32_t type;   // DumpBlockType
  uint32_t bytes;  // Of the payload, without padding.
};

struct DumpApiName {
  uint32_t domain;
  uint32_t cbid;
};

// Counts of the decoder, without those that others add to.
struct DumpResult {
  uint64_t event_count;  // Of the buffers, without what else was written.
  uint64_t untimed;
  uint64_t corrupt;
  uint64_t unknown_kind;
  uint64_t over_cap;
  uint64_t before_window;
  uint64_t unfinished;
  uint64_t filtered_api;
  uint64_t later_launch;
  uint64_t no_chunk;
};

// What `decoder` has counted. `event_count` is of the decoder as a whole.
DumpResult ReadDumpResult(RecordDecoder* decoder);

class BufferDump {
 public:
  // Starts the dump of a capture, if one is asked for. `setup` is what the decoder was given.
  void Begin(const CuptiLibrary& library, uint32_t driver_version,
             const RecordDecoder::Setup& setup);

  void AddClock(const ClockSample& sample) {
    if (memory_ != nullptr) Append(DumpBlockType::kClock, &sample, sizeof(sample));
  }
  // After events of devices were written that were in no buffer.
  void AddDevices(const RecordDecoder& decoder) {
    const uint64_t devices = decoder.devices_seen();
    if (memory_ != nullptr) Append(DumpBlockType::kDevices, &devices, sizeof(devices));
  }
  // Before `decoder` gets the `bytes` of records at `buffer`.
  void AddBuffer(const RecordDecoder& decoder, const std::byte* buffer, uint64_t bytes) {
    if (memory_ != nullptr) KeepBuffer(decoder, buffer, bytes);
  }
  // After it has decoded them.
  void AddResult(RecordDecoder* decoder) {
    if (memory_ != nullptr) KeepResult(decoder);
  }

  // Writes the file and returns the memory.
  void Finish();

 private:
  static constexpr uint32_t kTextSlots = 512;
  static constexpr uint32_t kApiLimit = 2048;

  void* Reserve(DumpBlockType type, size_t bytes);
  void Append(DumpBlockType type, const void* payload, size_t bytes);
  void KeepBuffer(const RecordDecoder& decoder, const std::byte* buffer, uint64_t bytes);
  void KeepResult(RecordDecoder* decoder);
  void KeepText(uint64_t address);
  void KeepApiName(uint32_t domain, uint32_t cbid);

  DumpHeader* header() { return reinterpret_cast<DumpHeader*>(memory_); }

  std::byte* memory_ = nullptr;  // kDumpBytes; null: off.
  size_t used_bytes_ = 0;
  uint32_t buffer_number_ = 0;
  uint64_t events_before_ = 0;  // Of the decoder, when it was given the last buffer.
  uint64_t event_count_ = 0;
  cupti::Result (*callback_name_)(uint32_t domain, uint32_t cbid, const char** name) = nullptr;
  char path_[512] = {};
  struct TextSlot {
    uint64_t address;
    uint32_t buffer_number;
  } texts_[kTextSlots] = {};
  bool has_api_name_[2][kApiLimit] = {};  // Runtime, driver; by cbid.
};

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CUPTI_BUFFER_DUMP_H_
