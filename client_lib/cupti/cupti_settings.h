// CuptiSettings changes the settings of CUPTI that hold for the whole process, and restores them.
//
// Other tools in the process read records by these settings: after a capture that left
// ZEROED_OUT_ACTIVITY_BUFFER on, torch.profiler would read uninitialized fields.
//
// Rules: a setting that cannot be read is not changed. Restore() skips a setting that no longer has
// our value, because another tool has set it since.
//
// Two settings have no getter: latency timestamps, and records of event and stream queries. They
// are set only while this process's one subscriber is ours, and only in versions whose default is
// known to differ. They go back to it.
//
// With several subscribers, settings are each subscriber's own, and end with it. Records of queries
// are off by default then.
//
// Threads: the GPU thread's.
// Errors:  a setting that CUPTI does not change is not restored either.
#ifndef PROFD_CLIENT_LIB_CUPTI_CUPTI_SETTINGS_H_
#define PROFD_CLIENT_LIB_CUPTI_CUPTI_SETTINGS_H_

#include <cstddef>
#include <cstdint>

#include "client_lib/cupti/cupti_interface.h"

namespace profd::client {

class CuptiSettings {
 public:
  constexpr CuptiSettings() = default;

  // Changes what a capture needs. Call after subscribing, and before the first kind is enabled:
  // records have the thread ID type of the moment when their thread made its first record.
  // `device_buffers` limits CUPTI's activity buffers on each device.
  void Apply(const CuptiInterface& cupti, bool latency_timestamps, uint32_t device_buffers);

  // Restores what Apply() changed. Call after CUPTI has returned the last buffer, and before
  // unsubscribing. A second call does nothing.
  void Restore(const CuptiInterface& cupti);

  // Leaves all settings as they are, because another tool has taken CUPTI over.
  void Forget() { *this = CuptiSettings(); }

 private:
  static constexpr int kAttributeCount = 2;

  struct Saved {
    bool is_changed = false;
    uint64_t value = 0;  // Before the change.
    uint64_t ours = 0;
  };

  Saved attributes_[kAttributeCount];
  Saved thread_id_type_;
  bool latency_is_on_ = false;
  bool query_records_are_off_ = false;
};

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CUPTI_CUPTI_SETTINGS_H_
