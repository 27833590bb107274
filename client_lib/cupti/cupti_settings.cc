#include "client_lib/cupti/cupti_settings.h"

#include "client_lib/core/log.h"

namespace profd::client {
namespace {

struct AttributeValue {
  uint32_t id;
  size_t bytes;
};

constexpr AttributeValue kOurAttributes[] = {
    // The pool zeroes buffers ahead of need, so that CUPTI does not do it on the program's threads.
    {cupti::kAttributeZeroedBuffers, sizeof(uint8_t)},
    {cupti::kAttributePoolLimit, sizeof(size_t)},
};

bool ReadThreadIdType(const CuptiInterface& cupti, uint64_t* type) {
  if (cupti.is_shared()) {
    return cupti.ReadAttribute(cupti::kAttributeThreadIdType, sizeof(uint32_t), type);
  }
  uint32_t read = 0;
  if (cupti.Cupti().GetThreadIdType == nullptr ||
      cupti.Cupti().GetThreadIdType(&read) != cupti::kSuccess) {
    return false;
  }
  *type = read;
  return true;
}

bool WriteThreadIdType(const CuptiInterface& cupti, uint64_t type) {
  if (cupti.is_shared()) {
    return cupti.WriteAttribute(cupti::kAttributeThreadIdType, sizeof(uint32_t), type);
  }
  return cupti.Cupti().SetThreadIdType(static_cast<uint32_t>(type)) == cupti::kSuccess;
}

bool SwitchLatencyTimestamps(const CuptiInterface& cupti, bool on) {
  const uint8_t enable = on ? 1 : 0;
  if (cupti.is_shared()) {
    return cupti.WriteAttribute(cupti::kAttributeLatencyTimestamps, sizeof(enable), enable);
  }
  return cupti.Cupti().ActivityEnableLatencyTimestamps != nullptr &&
         cupti.Cupti().ActivityEnableLatencyTimestamps(enable) == cupti::kSuccess;
}

}  // namespace

void CuptiSettings::Apply(const CuptiInterface& cupti, bool latency_timestamps,
                          uint32_t device_buffers) {
  Forget();
  attributes_[0].ours = 1;
  attributes_[1].ours = device_buffers;
  static_assert(sizeof(kOurAttributes) / sizeof(kOurAttributes[0]) == kAttributeCount);
  uint64_t type = 0;
  if (ReadThreadIdType(cupti, &type)) {
    thread_id_type_.value = type;
    thread_id_type_.is_changed =
        type != cupti::kThreadIdSystem && WriteThreadIdType(cupti, cupti::kThreadIdSystem);
  }
  if (type != cupti::kThreadIdSystem && !thread_id_type_.is_changed) {
    Log(LogLevel::kWarning, "CUPTI does not give system thread IDs; API calls have no thread");
  }
  for (int i = 0; i < kAttributeCount; ++i) {
    const AttributeValue& attribute = kOurAttributes[i];
    uint64_t value;
    if (!cupti.ReadAttribute(attribute.id, attribute.bytes, &value)) continue;
    attributes_[i].value = value;
    attributes_[i].is_changed =
        value != attributes_[i].ours &&
        cupti.WriteAttribute(attribute.id, attribute.bytes, attributes_[i].ours);
  }
  latency_is_on_ = latency_timestamps && SwitchLatencyTimestamps(cupti, true);
  // From 12.9 on, CUPTI records each cudaEventQuery() and cudaStreamQuery() that finds work
  // unfinished as a synchronization. NCCL and PyTorch's allocator make thousands of them, and none
  // of them waits. 12.8 has the switch, too, but there it is off, and so it stays.
  query_records_are_off_ = !cupti.is_shared() && cupti.Cupti().version >= cupti::kVersion12_9 &&
                           cupti.Cupti().ActivityEnableAllSyncRecords != nullptr &&
                           cupti.Cupti().ActivityEnableAllSyncRecords(0) == cupti::kSuccess;
}

void CuptiSettings::Restore(const CuptiInterface& cupti) {
  if (query_records_are_off_) cupti.Cupti().ActivityEnableAllSyncRecords(1);
  if (latency_is_on_) SwitchLatencyTimestamps(cupti, false);
  for (int i = 0; i < kAttributeCount; ++i) {
    const AttributeValue& attribute = kOurAttributes[i];
    uint64_t value;
    if (attributes_[i].is_changed && cupti.ReadAttribute(attribute.id, attribute.bytes, &value) &&
        value == attributes_[i].ours) {
      cupti.WriteAttribute(attribute.id, attribute.bytes, attributes_[i].value);
    }
  }
  uint64_t type;
  if (thread_id_type_.is_changed && ReadThreadIdType(cupti, &type) &&
      type == cupti::kThreadIdSystem) {
    WriteThreadIdType(cupti, thread_id_type_.value);
  }
  Forget();
}

}  // namespace profd::client
