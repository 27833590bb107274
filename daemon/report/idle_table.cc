#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/capture/event_rows.h"
#include "daemon/report/gpu_attribution.h"
#include "daemon/report/gpu_names.h"
#include "daemon/report/interval_set.h"
#include "daemon/report/launch_statistics.h"
#include "daemon/report/reports.h"
#include "daemon/report/step_lookup.h"

namespace profd::report {
namespace {

// A process sees fewer. Rows are devices times steps: a file that names 65,536 is no capture.
constexpr size_t kMostDevices = 256;

enum class Work : uint8_t { kCompute, kCommunication, kCopy };

struct Activity {
  int64_t start_ns;
  int64_t end_ns;
  const GpuAttribution::Call* call;  // nullptr: not in the capture.
  uint32_t stream;                   // A position in streams_.
  Work work;
};

// As unsigned, so that no number in a stranger's file can overflow.
uint64_t Distance(int64_t from_ns, int64_t to_ns) {
  return static_cast<uint64_t>(to_ns) - static_cast<uint64_t>(from_ns);
}
void Grow(int64_t& sum, uint64_t by) {
  sum = static_cast<int64_t>(static_cast<uint64_t>(sum) + by);
}

enum class GapCause { kHostWait, kKernelWait, kOther };

// Why nothing ran from `gap_start_ns` until `next` began.
GapCause CauseOf(int64_t gap_start_ns, const Activity& next) {
  if (next.call != nullptr && next.call->start_ns > gap_start_ns) return GapCause::kHostWait;
  return Distance(gap_start_ns, next.start_ns) < static_cast<uint64_t>(kKernelWaitLimitNs)
             ? GapCause::kKernelWait
             : GapCause::kOther;
}

class StreamIdle {
 public:
  explicit StreamIdle(StreamIdleRow row) : row_(row) {}

  void Add(const Activity& activity) {
    if (row_.activity_count++ > 0 && activity.start_ns > until_ns_) {
      ++row_.gap_count;
      idle_ns_[static_cast<size_t>(CauseOf(until_ns_, activity))] +=
          Distance(until_ns_, activity.start_ns);
    }
    busy_.Add(0, activity.start_ns, activity.end_ns);
    until_ns_ = std::max(until_ns_, activity.end_ns);
  }

  StreamIdleRow Row() const {
    StreamIdleRow row = row_;
    row.busy_ns = busy_.total_ns();
    row.idle_ns = static_cast<int64_t>(idle_ns_[0] + idle_ns_[1] + idle_ns_[2]);
    row.host_wait_ns = static_cast<int64_t>(idle_ns_[static_cast<size_t>(GapCause::kHostWait)]);
    row.kernel_wait_ns = static_cast<int64_t>(idle_ns_[static_cast<size_t>(GapCause::kKernelWait)]);
    row.other_ns = static_cast<int64_t>(idle_ns_[static_cast<size_t>(GapCause::kOther)]);
    return row;
  }

 private:
  StreamIdleRow row_;
  int64_t until_ns_ = std::numeric_limits<int64_t>::min();
  BusyTime busy_;
  std::array<uint64_t, 3> idle_ns_{};  // By cause.
};

class DeviceIdle {
 public:
  void Add(const Activity& activity) {
    if (!busy_.empty() && activity.start_ns > busy_.end_ns()) {
      const int64_t gap_start_ns = busy_.end_ns();
      const GapCause cause = CauseOf(gap_start_ns, activity);
      if (cause == GapCause::kHostWait) host_wait_.Add(gap_start_ns, activity.start_ns);
      if (cause == GapCause::kKernelWait) kernel_wait_.Add(gap_start_ns, activity.start_ns);
    }
    busy_.Add(activity.start_ns, activity.end_ns);
    if (activity.work == Work::kCompute) compute_.Add(activity.start_ns, activity.end_ns);
    if (activity.work == Work::kCommunication) {
      communication_.Add(activity.start_ns, activity.end_ns);
    }
    if (activity.work == Work::kCopy) {
      copies_.Add(activity.start_ns, activity.end_ns);
    } else {
      kernels_.Add(activity.start_ns, activity.end_ns);
    }
  }

  // Adds what lies in [begin_ns, end_ns).
  void AddTo(IdleRow& row, int64_t begin_ns, int64_t end_ns) const {
    const auto in = [&](const IntervalSet& set) { return set.MeasureIn(begin_ns, end_ns); };
    const uint64_t duration = Distance(begin_ns, end_ns);
    const uint64_t busy = in(busy_);
    const uint64_t compute = in(compute_);
    const uint64_t kernels = in(kernels_);
    const uint64_t host_wait = in(host_wait_);
    const uint64_t kernel_wait = in(kernel_wait_);
    Grow(row.duration_ns, duration);
    Grow(row.busy_ns, busy);
    Grow(row.compute_ns, compute);
    Grow(row.communication_ns, in(communication_));
    Grow(row.exposed_communication_ns, kernels - compute);
    Grow(row.copy_ns, in(copies_));
    Grow(row.exposed_copy_ns, busy - kernels);
    Grow(row.idle_ns, duration - busy);
    Grow(row.host_wait_ns, host_wait);
    Grow(row.kernel_wait_ns, kernel_wait);
    Grow(row.other_ns, duration - busy - host_wait - kernel_wait);
  }

  bool empty() const { return busy_.empty(); }
  int64_t begin_ns() const { return busy_.begin_ns(); }
  int64_t end_ns() const { return busy_.end_ns(); }

 private:
  IntervalSet busy_;
  IntervalSet compute_;
  IntervalSet communication_;
  IntervalSet kernels_;  // Of both kinds.
  IntervalSet copies_;
  IntervalSet host_wait_;  // Idle times by their cause.
  IntervalSet kernel_wait_;
};

// Which of the names are kernels of NCCL; each is looked at once.
class CommunicationNames {
 public:
  explicit CommunicationNames(std::span<const std::string> names)
      : names_(names), known_(names.size()) {}

  bool Has(uint32_t name) {
    std::optional<bool>& known = known_[name];
    if (!known.has_value()) known = IsCommunicationKernel(names_[name]);
    return *known;
  }

 private:
  const std::span<const std::string> names_;
  std::vector<std::optional<bool>> known_;
};

class IdleSummary {
 public:
  explicit IdleSummary(store::CaptureReader& reader)
      : reader_(reader), communication_(reader.names()) {}

  absl::StatusOr<IdleTable> Summarize() {
    ASSIGN_OR_RETURN(attribution_, GpuAttribution::Build(reader_));
    RETURN_IF_ERROR(
        reader_.ForEachGpu(store::kGpuTime | store::kGpuWhat | store::kGpuWhere | store::kGpuCause,
                           {}, [&](const store::GpuBatch& batch) {
                             for (size_t i = 0; i < batch.size; ++i) AddRow(batch, i);
                             return absl::OkStatus();
                           }));
    if (devices_.keys().size() > kMostDevices) {
      return absl::DataLossError(StrCat("the capture names ", devices_.keys().size(),
                                        " GPUs; no machine has more than ", kMostDevices));
    }
    std::sort(activities_.begin(), activities_.end(),
              [](const Activity& a, const Activity& b) { return a.start_ns < b.start_ns; });
    std::vector<DeviceIdle> device_idle(devices_.keys().size());
    for (const Activity& activity : activities_) {
      streams_[activity.stream].Add(activity);
      device_idle[device_of_stream_[activity.stream]].Add(activity);
    }

    IdleTable table;
    for (size_t device = 0; device < device_idle.size(); ++device) {
      AddDeviceRows(devices_.keys()[device], device_idle[device], table.rows);
    }
    std::stable_sort(table.rows.begin(), table.rows.end(),
                     [](const IdleRow& a, const IdleRow& b) { return a.device < b.device; });
    for (const StreamIdle& stream : streams_) table.streams.push_back(stream.Row());
    std::sort(table.streams.begin(), table.streams.end(),
              [](const StreamIdleRow& a, const StreamIdleRow& b) {
                return std::tie(a.device, a.context, a.stream) <
                       std::tie(b.device, b.context, b.stream);
              });
    return table;
  }

 private:
  using StreamKey = std::tuple<uint16_t, uint32_t, uint32_t>;  // Device, context, stream.

  void AddRow(const store::GpuBatch& batch, size_t i) {
    const uint32_t stream =
        stream_numbers_.Of({batch.device[i], batch.context[i], batch.stream[i]});
    if (stream == streams_.size()) {
      streams_.emplace_back(StreamIdleRow{
          .device = batch.device[i], .context = batch.context[i], .stream = batch.stream[i]});
      device_of_stream_.push_back(devices_.Of(batch.device[i]));
    }
    Work work = Work::kCompute;
    const auto kind = static_cast<GpuRowKind>(batch.kind[i]);
    if (kind == GpuRowKind::kMemcpy || kind == GpuRowKind::kMemset) {
      work = Work::kCopy;
    } else if (kind == GpuRowKind::kKernel && communication_.Has(batch.name[i])) {
      work = Work::kCommunication;
    }
    activities_.push_back({batch.start_ns[i], batch.start_ns[i] + batch.duration_ns[i],
                           attribution_.Find(batch.correlation[i]), stream, work});
  }

  void AddDeviceRows(int64_t number, const DeviceIdle& device, std::vector<IdleRow>& rows) const {
    IdleRow whole = {.device = number};
    for (const WindowRecord& window : reader_.record().windows) {
      if (window.end_ns > window.start_ns) device.AddTo(whole, window.start_ns, window.end_ns);
    }
    if (reader_.record().windows.empty() && !device.empty()) {
      device.AddTo(whole, device.begin_ns(), device.end_ns());
    }
    rows.push_back(whole);
    const StepLookup lookup(reader_.steps());
    for (const StepRecord& step : lookup.steps()) {
      IdleRow row = {.step = step.index, .device = number};
      int64_t end_ns = 0;
      if (!__builtin_add_overflow(step.start_ns, step.duration_ns, &end_ns) &&
          end_ns > step.start_ns) {
        device.AddTo(row, step.start_ns, end_ns);
      }
      rows.push_back(row);
    }
  }

  store::CaptureReader& reader_;
  GpuAttribution attribution_;
  CommunicationNames communication_;
  Numbering<StreamKey> stream_numbers_;
  std::vector<StreamIdle> streams_;         // By that number.
  std::vector<uint32_t> device_of_stream_;  // In devices_.
  Numbering<uint16_t> devices_;
  std::vector<Activity> activities_;
};

}  // namespace

absl::StatusOr<IdleTable> SummarizeIdle(store::CaptureReader& reader) {
  return IdleSummary(reader).Summarize();
}

}  // namespace profd::report
