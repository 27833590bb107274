// GPU work in order of its start, with the calls that launched it. Also the unions of each kind of
// work, and the causes of gaps, for a device and for a stream, as idle_table.h defines them.
//
// Threads: one.
// Memory:  40 bytes per GPU row; 24 for each interval of a union; 8 per gap of a device.
#ifndef PROFD_DAEMON_REPORT_GPU_DEVICE_WORK_H_
#define PROFD_DAEMON_REPORT_GPU_DEVICE_WORK_H_

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/report/gpu/idle_table.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/index/interval_set.h"
#include "daemon/report/index/launch_statistics.h"
#include "daemon/report/index/wrapping_math.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

enum class Work : uint8_t {
  kCompute,  // Kernels, and whole graphs.
  kCommunication,
  kCopy,   // Copies and memsets.
  kOther,  // Only for HTA's figures: a wait in a stream, and work that HTA does not call compute.
};

struct Activity {
  int64_t start_ns;
  int64_t end_ns;
  const GpuAttribution::Call* call;  // nullptr: not in the capture.
  uint32_t stream;                   // A position in DeviceWork::streams().
  uint32_t name;                     // Of a kernel: index into names().
  Work work;
  GpuRowKind kind;
};

enum class GapCause : uint8_t { kHostWait, kKernelWait, kOther };
// Returns why nothing ran from `gap_start_ns` until `next` began.
GapCause CauseOf(int64_t gap_start_ns, const Activity& next);

class DeviceWork {
 public:
  struct Stream {
    uint32_t device;  // A position in devices().
    uint32_t context;
    int64_t stream;  // As a trace that was imported has it (wide_streams.h).
  };

  // `attribution`, with the ranges around calls if CommunicationKernels::DependOnRanges(), must
  // outlive this. Returns DATA_LOSS for more devices than a machine can have.
  static absl::StatusOr<DeviceWork> Read(store::CaptureReader& reader,
                                         const GpuAttribution& attribution);

  std::span<const Activity> activities() const { return activities_; }  // By start.
  std::span<const Stream> streams() const { return streams_; }          // As first met.
  std::span<const uint16_t> devices() const {
    return devices_.keys();
  }  // CUDA's numbers, likewise.
  uint32_t DeviceOf(const Activity& activity) const { return streams_[activity.stream].device; }
  // In the recording: recorded_time.h; with one GPU, short_replays.h, too.
  const IntervalSet& holes() const { return holes_; }
  // The time at the start of the recording in which the work of `device`, a position, is unknown
  // (earlier_work.h). Usually empty; also for a device that is not there.
  struct Unknown {
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
  };
  Unknown UnknownStartOf(size_t device) const {
    return device < unknown_.size() ? unknown_[device] : Unknown();
  }

  // Removes all activities for which keep(activity) is false.
  template <typename Fn>
  void KeepOnly(Fn keep) {
    std::erase_if(activities_, [&](const Activity& activity) { return !keep(activity); });
  }

 private:
  using StreamKey = std::tuple<uint16_t, uint32_t, uint32_t>;  // Device, context, stream.

  Numbering<StreamKey> stream_numbers_;
  std::vector<Stream> streams_;  // By that number.
  Numbering<uint16_t> devices_;
  std::vector<Activity> activities_;
  IntervalSet holes_;
  std::vector<Unknown> unknown_;  // By device.
};

// A gap between two activities, less the holes in it: only the part at its end can have waited for
// the second activity.
struct RecordedGap {
  int64_t last_start_ns = 0;  // Of the part at its end; the gap's end: no such part.
  uint64_t earlier_ns = 0;    // Of the other parts.
};
RecordedGap RecordedPartOf(int64_t start_ns, int64_t end_ns, const IntervalSet& holes);

// The gaps of one stream, regardless of other streams.
class StreamIdle {
 public:
  // `holes` must outlive it.
  StreamIdle(StreamIdleRow row, const IntervalSet& holes) : row_(row), holes_(holes) {}
  void Add(const Activity& activity);  // By start.
  StreamIdleRow Row() const;

 private:
  StreamIdleRow row_;
  const IntervalSet& holes_;
  int64_t until_ns_ = std::numeric_limits<int64_t>::min();
  BusyTime busy_;
  std::array<uint64_t, 3> idle_ns_{};  // By cause.
};

// The busy and idle time of one device.
class DeviceIdle {
 public:
  // `holes` must outlive it.
  explicit DeviceIdle(const IntervalSet& holes) : holes_(&holes) {}
  DeviceIdle(const IntervalSet& holes, DeviceWork::Unknown unknown)
      : holes_(&holes), unknown_(unknown) {}

  // Add activities by start. Returns the gap before the activity; nullopt: the device was busy.
  struct Gap {
    GapCause cause;
    uint64_t duration_ns;
  };
  std::optional<Gap> Add(const Activity& activity);
  // Adds the times inside [begin_ns, end_ns) to `row`, without holes in which nothing ran, and
  // without the unknown start.
  void AddTo(IdleRow& row, int64_t begin_ns, int64_t end_ns) const;

  bool empty() const { return busy_.empty(); }
  int64_t begin_ns() const { return busy_.begin_ns(); }
  int64_t end_ns() const { return busy_.end_ns(); }
  const IntervalSet& busy() const { return busy_; }
  const IntervalSet& compute() const { return compute_; }
  const IntervalSet& communication() const { return communication_; }
  const IntervalSet& copies() const { return copies_; }
  const IntervalSet& unrecorded() const { return unrecorded_; }

 private:
  const IntervalSet* holes_;
  DeviceWork::Unknown unknown_;
  IntervalSet busy_;
  IntervalSet unrecorded_;  // Holes in gaps.
  IntervalSet compute_;
  IntervalSet communication_;
  IntervalSet kernels_;  // Compute and communication.
  IntervalSet copies_;
  IntervalSet host_wait_;  // Idle times by their cause.
  IntervalSet kernel_wait_;
  std::vector<int64_t> gap_starts_;  // Ascending.
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_GPU_DEVICE_WORK_H_
