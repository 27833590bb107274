// Work that was launched before the GPU was recorded has no record. While a GPU does such work, it
// is neither busy nor idle: what it does is unknown. Arming waits for it, within bounds
// (client_lib/cupti/gpu_session.cc); what is left shows in the first window:
//
//   window   ├──────────────────────────────────┤
//   calls     [launch]      [launch]
//   GPU       ? ? ? ? ? ? ? ? ? ████ ███           The first recorded work waited in its queue.
//
//   calls     [cudaDeviceSynchronize  ] [launch]
//   GPU       ? ? ? ? ? ? ? ? ? ? ? ? ?   ████     A wait that ends before any recorded work began.
//
// Without records of calls, all before a GPU's first work is unknown, unless work was recorded
// before the window. A second stream's earlier work is not seen while the first has recorded work.
// Imported traces have none.
//
// Threads: one.
#ifndef PROFD_DAEMON_REPORT_INDEX_EARLIER_WORK_H_
#define PROFD_DAEMON_REPORT_INDEX_EARLIER_WORK_H_

#include <cstdint>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/capture/capture_types.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

class EarlierWork {
 public:
  explicit EarlierWork(const CaptureRecord& record);
  EarlierWork(const EarlierWork&) = delete;
  EarlierWork& operator=(const EarlierWork&) = delete;

  // Adds work of the GPU, in any order. `call` launched it; nullptr: not in the capture.
  void Add(uint16_t device, int64_t start_ns, const GpuAttribution::Call* call) {
    if (!applies_) return;
    First& first = LastOrOther(device);
    if (start_ns >= first.start_ns) return;
    first.start_ns = start_ns;
    first.call = call;
  }
  // After all work: reads the waits of `reader`, if they can tell anything.
  absl::Status AddWaits(store::CaptureReader& reader);

  int64_t begin_ns() const { return begin_ns_; }
  // Until when the work of `device` is unknown; begin_ns(): it is known from the start.
  int64_t EndOf(uint16_t device) const;
  // The longest of a device.
  int64_t LongestNs() const;

 private:
  struct First {
    int64_t start_ns = std::numeric_limits<int64_t>::max();
    const GpuAttribution::Call* call = nullptr;
    int64_t waited_until_ns = std::numeric_limits<int64_t>::min();
  };

  First& LastOrOther(uint16_t device) {
    if (last_ == nullptr || device != last_device_) {
      last_ = &devices_[device];
      last_device_ = device;
    }
    return *last_;
  }
  bool BeginsLate(const First& first) const;
  int64_t EndOf(const First& first) const;

  bool applies_ = false;
  bool has_calls_ = false;
  bool recorded_before_ = false;  // Work was recorded before the window.
  int64_t begin_ns_ = 0;
  int64_t end_ns_ = 0;  // Of the first window.
  absl::flat_hash_map<uint16_t, First> devices_;
  First* last_ = nullptr;  // Of last_device_, in devices_.
  uint16_t last_device_ = 0;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_EARLIER_WORK_H_
