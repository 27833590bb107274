#include "client_lib/cupti/cupti_settings.h"

#include <string.h>

#include "client_lib/core/log.h"

namespace profd::client {
namespace {

struct AttributeValue {
  uint32_t id;
  size_t bytes;
  uint64_t ours;
};

constexpr AttributeValue kOurAttributes[] = {
    // The pool zeroes buffers ahead of need, so that CUPTI does not do it on the program's threads.
    {cupti::kAttributeZeroedBuffers, sizeof(uint8_t), 1},
    // Activity buffers on the device, 3.2 MB each. CUPTI's limit of 250 is enough to run a trainer
    // out of memory.
    {cupti::kAttributePoolLimit, sizeof(size_t), 32},
};

// Values are little-endian, so the low bytes of `value` are the attribute.
bool ReadAttribute(const CuptiLibrary& library, const AttributeValue& attribute, uint64_t* value) {
  *value = 0;
  size_t bytes = attribute.bytes;
  return library.ActivityGetAttribute != nullptr &&
         library.ActivityGetAttribute(attribute.id, &bytes, value) == cupti::kSuccess;
}

bool WriteAttribute(const CuptiLibrary& library, const AttributeValue& attribute, uint64_t value) {
  size_t bytes = attribute.bytes;
  return library.ActivitySetAttribute(attribute.id, &bytes, &value) == cupti::kSuccess;
}

bool ReadThreadIdType(const CuptiLibrary& library, uint32_t* type) {
  return library.GetThreadIdType != nullptr && library.GetThreadIdType(type) == cupti::kSuccess;
}

}  // namespace

void CuptiSettings::Apply(const CuptiLibrary& library, bool latency_timestamps) {
  Forget();
  static_assert(sizeof(kOurAttributes) / sizeof(kOurAttributes[0]) == kAttributeCount);
  uint32_t type = 0;
  if (ReadThreadIdType(library, &type)) {
    thread_id_type_.value = type;
    thread_id_type_.is_changed = type != cupti::kThreadIdSystem &&
                                 library.SetThreadIdType(cupti::kThreadIdSystem) == cupti::kSuccess;
  }
  if (type != cupti::kThreadIdSystem && !thread_id_type_.is_changed) {
    Log(LogLevel::kWarning, "CUPTI does not give system thread IDs; API calls have no thread");
  }
  for (int i = 0; i < kAttributeCount; ++i) {
    uint64_t value;
    if (!ReadAttribute(library, kOurAttributes[i], &value)) continue;
    attributes_[i].value = value;
    attributes_[i].is_changed = value != kOurAttributes[i].ours &&
                                WriteAttribute(library, kOurAttributes[i], kOurAttributes[i].ours);
  }
  latency_is_on_ = latency_timestamps && library.ActivityEnableLatencyTimestamps != nullptr &&
                   library.ActivityEnableLatencyTimestamps(1) == cupti::kSuccess;
  // From 12.8 on, CUPTI records each cudaEventQuery() and cudaStreamQuery() as a synchronization.
  // NCCL and PyTorch's allocator make thousands of them, and none of them waits.
  query_records_are_off_ = library.ActivityEnableAllSyncRecords != nullptr &&
                           library.ActivityEnableAllSyncRecords(0) == cupti::kSuccess;
}

void CuptiSettings::Restore(const CuptiLibrary& library) {
  if (query_records_are_off_) library.ActivityEnableAllSyncRecords(1);
  if (latency_is_on_) library.ActivityEnableLatencyTimestamps(0);
  for (int i = 0; i < kAttributeCount; ++i) {
    uint64_t value;
    if (attributes_[i].is_changed && ReadAttribute(library, kOurAttributes[i], &value) &&
        value == kOurAttributes[i].ours) {
      WriteAttribute(library, kOurAttributes[i], attributes_[i].value);
    }
  }
  uint32_t type;
  if (thread_id_type_.is_changed && ReadThreadIdType(library, &type) &&
      type == cupti::kThreadIdSystem) {
    library.SetThreadIdType(static_cast<uint32_t>(thread_id_type_.value));
  }
  Forget();
}

}  // namespace profd::client
