#include "daemon/report/gpu/device_work.h"

#include <algorithm>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/index/by_name.h"
#include "daemon/report/index/earlier_work.h"
#include "daemon/report/index/gpu_names.h"
#include "daemon/report/index/kernel_purpose.h"
#include "daemon/report/index/merge_runs.h"
#include "daemon/report/index/recorded_time.h"
#include "daemon/report/index/short_replays.h"
#include "daemon/report/index/wide_streams.h"

namespace profd::report {
namespace {

// A process sees fewer. Rows are devices times steps: a file that names 65,536 is no capture.
constexpr size_t kMostDevices = 256;

void Grow(int64_t& sum, uint64_t by) {
  sum = static_cast<int64_t>(static_cast<uint64_t>(sum) + by);
}

class WorkOfRows {
 public:
  WorkOfRows(std::span<const std::string> names, const GpuAttribution& attribution)
      : communication_(names, attribution), copies_(names) {}

  Work Of(GpuRowKind kind, uint32_t name, const GpuAttribution::Call* call) {
    if (IsMemoryWork(kind)) return Work::kCopy;
    if (kind != GpuRowKind::kKernel) return Work::kCompute;
    if (copies_.Has(name, call)) return Work::kCopy;
    return communication_.Has(name, call) ? Work::kCommunication : Work::kCompute;
  }

 private:
  CommunicationKernels communication_;
  CopyKernels copies_;
};

void AddHoles(const IntervalSet& added, IntervalSet& holes) {
  if (added.empty()) return;
  std::vector<IntervalSet::Interval> all(holes.intervals().begin(), holes.intervals().end());
  all.insert(all.end(), added.intervals().begin(), added.intervals().end());
  std::ranges::sort(all, {}, &IntervalSet::Interval::start_ns);
  holes = IntervalSet();
  for (const IntervalSet::Interval& hole : all) holes.Add(hole.start_ns, hole.end_ns);
}

}  // namespace

GapCause CauseOf(int64_t gap_start_ns, const Activity& next) {
  if (next.call != nullptr && next.call->start_ns > gap_start_ns) return GapCause::kHostWait;
  return Distance(gap_start_ns, next.start_ns) < static_cast<uint64_t>(kKernelWaitLimitNs)
             ? GapCause::kKernelWait
             : GapCause::kOther;
}

// ---- DeviceWork ----

absl::StatusOr<DeviceWork> DeviceWork::Read(store::CaptureReader& reader,
                                            const GpuAttribution& attribution) {
  DeviceWork work;
  work.holes_ = HolesOf(reader.record());
  ASSIGN_OR_RETURN(const ShortReplays replays, FindShortReplays(reader, attribution));
  ASSIGN_OR_RETURN(const WideStreams wide, WideStreams::Read(reader));
  EarlierWork earlier(reader.record());
  WorkOfRows work_of_rows(reader.names(), attribution);
  RETURN_IF_ERROR(reader.ForEach<GpuRow>(
      kGpuTime | kGpuWhat | kGpuWhere | kGpuCause, {}, [&](const GpuBatch& batch) {
        ReserveMore(work.activities_, batch.size);
        for (size_t i = 0; i < batch.size; ++i) {
          const uint32_t stream =
              work.stream_numbers_.Of({batch.device[i], batch.context[i], batch.stream[i]});
          if (stream == work.streams_.size()) {
            work.streams_.push_back({work.devices_.Of(batch.device[i]), batch.context[i],
                                     wide.NumberOf(batch.stream[i])});
          }
          const auto kind = static_cast<GpuRowKind>(batch.kind[i]);
          const GpuAttribution::Call* call = attribution.Find(batch.correlation[i]);
          work.activities_.push_back({batch.start_ns[i], batch.start_ns[i] + batch.duration_ns[i],
                                      call, stream, batch.name[i],
                                      work_of_rows.Of(kind, batch.name[i], call), kind});
          earlier.Add(batch.device[i], batch.start_ns[i], work.activities_.back().call);
        }
        return absl::OkStatus();
      }));
  if (work.devices_.keys().size() > kMostDevices) {
    return absl::DataLossError(StrCat("the capture names ", work.devices_.keys().size(),
                                      " GPUs; no machine has more than ", kMostDevices));
  }
  MergeRuns(work.activities_,
            [](const Activity& a, const Activity& b) { return a.start_ns < b.start_ns; });
  // Other GPUs may well be idle then.
  if (work.devices_.keys().size() == 1) AddHoles(replays.times, work.holes_);
  RETURN_IF_ERROR(earlier.AddWaits(reader));
  for (const uint16_t device : work.devices_.keys()) {
    work.unknown_.push_back({earlier.begin_ns(), earlier.EndOf(device)});
  }
  return work;
}

RecordedGap RecordedPartOf(int64_t start_ns, int64_t end_ns, const IntervalSet& holes) {
  RecordedGap part = {.last_start_ns = start_ns, .earlier_ns = 0};
  const std::span<const IntervalSet::Interval> all = holes.intervals();
  auto hole = std::partition_point(all.begin(), all.end(),
                                   [&](const auto& at) { return at.end_ns <= start_ns; });
  int64_t from_ns = start_ns;
  for (; hole != all.end() && hole->start_ns < end_ns; ++hole) {
    if (hole->start_ns > from_ns) part.earlier_ns += Distance(from_ns, hole->start_ns);
    from_ns = part.last_start_ns = std::min(hole->end_ns, end_ns);
  }
  return part;
}

// ---- StreamIdle ----

void StreamIdle::Add(const Activity& activity) {
  if (row_.activity_count++ > 0 && activity.start_ns > until_ns_) {
    ++row_.gap_count;
    const RecordedGap part = RecordedPartOf(until_ns_, activity.start_ns, holes_);
    idle_ns_[static_cast<size_t>(CauseOf(part.last_start_ns, activity))] +=
        Distance(part.last_start_ns, activity.start_ns);
    idle_ns_[static_cast<size_t>(GapCause::kOther)] += part.earlier_ns;
  }
  busy_.Add(0, activity.start_ns, activity.end_ns);
  until_ns_ = std::max(until_ns_, activity.end_ns);
}

StreamIdleRow StreamIdle::Row() const {
  StreamIdleRow row = row_;
  row.busy_ns = busy_.total_ns();
  row.idle_ns = static_cast<int64_t>(idle_ns_[0] + idle_ns_[1] + idle_ns_[2]);
  row.host_wait_ns = static_cast<int64_t>(idle_ns_[static_cast<size_t>(GapCause::kHostWait)]);
  row.kernel_wait_ns = static_cast<int64_t>(idle_ns_[static_cast<size_t>(GapCause::kKernelWait)]);
  row.other_ns = static_cast<int64_t>(idle_ns_[static_cast<size_t>(GapCause::kOther)]);
  return row;
}

// ---- DeviceIdle ----

std::optional<DeviceIdle::Gap> DeviceIdle::Add(const Activity& activity) {
  std::optional<Gap> gap;
  if (!busy_.empty() && activity.start_ns > busy_.end_ns()) {
    const int64_t start_ns = busy_.end_ns();
    const RecordedGap part = RecordedPartOf(start_ns, activity.start_ns, *holes_);
    gap = {CauseOf(part.last_start_ns, activity), Distance(part.last_start_ns, activity.start_ns)};
    gap_starts_.push_back(part.last_start_ns);
    if (gap->cause == GapCause::kHostWait) host_wait_.Add(part.last_start_ns, activity.start_ns);
    if (gap->cause == GapCause::kKernelWait) {
      kernel_wait_.Add(part.last_start_ns, activity.start_ns);
    }
    if (part.last_start_ns > start_ns) {
      for (const IntervalSet::Interval& hole : holes_->intervals()) {
        unrecorded_.Add(std::max(hole.start_ns, start_ns),
                        std::min(hole.end_ns, activity.start_ns));
      }
    }
  }
  busy_.Add(activity.start_ns, activity.end_ns);
  switch (activity.work) {
    case Work::kCompute:
      compute_.Add(activity.start_ns, activity.end_ns);
      kernels_.Add(activity.start_ns, activity.end_ns);
      break;
    case Work::kCommunication:
      communication_.Add(activity.start_ns, activity.end_ns);
      kernels_.Add(activity.start_ns, activity.end_ns);
      break;
    case Work::kCopy:
      copies_.Add(activity.start_ns, activity.end_ns);
      break;
    case Work::kOther:
      break;
  }
  return gap;
}

void DeviceIdle::AddTo(IdleRow& row, int64_t begin_ns, int64_t end_ns) const {
  // Before the unknown start ends, nothing is known to have run.
  if (unknown_.end_ns > begin_ns && unknown_.begin_ns < end_ns) {
    begin_ns = std::min(unknown_.end_ns, end_ns);
  }
  const auto in = [&](const IntervalSet& set) { return set.MeasureIn(begin_ns, end_ns); };
  // Each is the measure of a union. kernels_ has compute and communication, so `kernels - compute`
  // is communication that ran alone. busy_ has copies, too, and `busy - kernels` is theirs alone.
  const uint64_t duration = Distance(begin_ns, end_ns) - in(unrecorded_);
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
  Grow(row.gap_count, static_cast<uint64_t>(std::ranges::lower_bound(gap_starts_, end_ns) -
                                            std::ranges::lower_bound(gap_starts_, begin_ns)));
  Grow(row.host_wait_ns, host_wait);
  Grow(row.kernel_wait_ns, kernel_wait);
  Grow(row.other_ns, duration - busy - host_wait - kernel_wait);
}

}  // namespace profd::report
