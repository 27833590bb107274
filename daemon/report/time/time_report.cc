#include "daemon/report/time/time_report.h"

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/capture/quality.h"
#include "daemon/report/believed/believed_reader.h"
#include "daemon/report/gpu/device_work.h"
#include "daemon/report/gpu/launched_work.h"
#include "daemon/report/index/end_of.h"
#include "daemon/report/index/first_ids.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/index/merge_runs.h"
#include "daemon/report/index/waiting_calls.h"
#include "daemon/report/index/wrapping_math.h"
#include "daemon/report/time/collective_sums.h"
#include "daemon/report/time/data_loader_time.h"
#include "daemon/report/time/kernel_types.h"
#include "daemon/report/time/launch_timing.h"
#include "daemon/report/time/sync_calls.h"

namespace profd::report {
namespace {

// When something was launched that had not ended: without it only the host can have been at work.
class PendingWork {
 public:
  void Add(const Activity& activity) {
    int64_t begin_ns = activity.start_ns;
    if (activity.call != nullptr) {
      begin_ns = std::min(begin_ns, activity.call->start_ns);
      has_calls_ = true;
    }
    pending_.emplace_back(begin_ns, activity.end_ns);
  }
  // What the host did in holes is unknown.
  void Finish(const IntervalSet& holes) {
    for (const IntervalSet::Interval& hole : holes.intervals()) {
      pending_.emplace_back(hole.start_ns, hole.end_ns);
    }
    MergeRuns(pending_, std::less<>());
    for (const auto& [begin_ns, end_ns] : pending_) union_.Add(begin_ns, end_ns);
    pending_ = {};
  }
  int64_t HostOnly(int64_t begin_ns, int64_t end_ns) const {
    if (!has_calls_ || end_ns <= begin_ns) return 0;
    return static_cast<int64_t>(Distance(begin_ns, end_ns) - union_.MeasureIn(begin_ns, end_ns));
  }

 private:
  std::vector<std::pair<int64_t, int64_t>> pending_;
  IntervalSet union_;
  bool has_calls_ = false;
};

class TimeSummary {
 public:
  TimeSummary(store::CaptureReader& reader, const TimeOptions& options)
      : reader_(reader), options_(options), first_ids_(FirstIds(reader.names())) {}

  absl::StatusOr<TimeReport> Summarize() {
    ASSIGN_OR_RETURN(attribution_, GpuAttribution::Build(reader_));
    ASSIGN_OR_RETURN(blocking_copies_, FindBlockingCopies(reader_, attribution_));
    ASSIGN_OR_RETURN(DeviceWork work, DeviceWork::Read(reader_, attribution_));
    if (options_.launched_only) {
      work.KeepOnly([](const Activity& activity) { return activity.call != nullptr; });
    }
    ASSIGN_OR_RETURN(const size_t device, ChooseDevice(work));
    AddSteps();
    if (report_.has_device) AddDevice(work, device);
    RETURN_IF_ERROR(AddHost());
    return std::move(report_);
  }

 private:
  // A position in work.devices(), of no meaning without any.
  absl::StatusOr<size_t> ChooseDevice(const DeviceWork& work) {
    std::vector<BusyTime> busy(work.devices().size());
    for (const Activity& activity : work.activities()) {
      busy[work.DeviceOf(activity)].Add(0, activity.start_ns, activity.end_ns);
    }
    std::vector<size_t> with_work;
    for (size_t i = 0; i < busy.size(); ++i) {
      if (busy[i].total_ns() == 0) continue;
      with_work.push_back(i);
      report_.devices.push_back({work.devices()[i], busy[i].total_ns()});
    }
    std::sort(report_.devices.begin(), report_.devices.end(),
              [](const TimeDevice& a, const TimeDevice& b) { return a.number < b.number; });
    report_.has_device = !with_work.empty();
    report_.unread_devices = UnreadDevicesClause(reader_.record());
    if (options_.device.has_value()) {
      const auto found = std::find_if(with_work.begin(), with_work.end(), [&](size_t i) {
        return work.devices()[i] == *options_.device;
      });
      if (found == with_work.end()) return NoSuchDevice();
      report_.device = *options_.device;
      return *found;
    }
    if (with_work.empty()) return size_t{0};
    const size_t most =
        *std::max_element(with_work.begin(), with_work.end(), [&](size_t a, size_t b) {
          const int64_t a_ns = busy[a].total_ns();
          const int64_t b_ns = busy[b].total_ns();
          return a_ns != b_ns ? a_ns < b_ns : work.devices()[a] > work.devices()[b];
        });
    report_.device = work.devices()[most];
    return most;
  }

  absl::Status NoSuchDevice() const {
    std::string others;
    for (const TimeDevice& device : report_.devices) {
      StrAppend(&others, others.empty() ? "" : ", ", device.number);
    }
    return absl::InvalidArgumentError(
        StrCat("GPU ", *options_.device, " did nothing in the capture; ",
               others.empty() ? std::string("no GPU did") : StrCat("those that did: ", others)));
  }

  void AddSteps() {
    for (const StepRecord& step : attribution_.steps()) {
      report_.steps.push_back(
          {.index = step.index, .duration_ns = std::max<int64_t>(0, step.duration_ns)});
    }
  }

  void AddDevice(const DeviceWork& work, size_t device) {
    DeviceIdle idle(work.holes(), work.UnknownStartOf(device));
    PendingWork pending;
    std::vector<StreamIdle> streams;
    for (const DeviceWork::Stream& stream : work.streams()) {
      streams.emplace_back(StreamIdleRow{.device = work.devices()[stream.device],
                                         .context = stream.context,
                                         .stream = stream.stream},
                           work.holes());
    }
    std::vector<TimedLaunch> launches;
    for (const Activity& activity : work.activities()) {
      if (work.DeviceOf(activity) != device) continue;
      const std::optional<DeviceIdle::Gap> gap = idle.Add(activity);
      pending.Add(activity);
      streams[activity.stream].Add(activity);
      if (activity.call != nullptr) launches.push_back(LaunchOf(activity));
      AddToOp(activity, gap);
      AddKernel(activity);
    }
    pending.Finish(work.holes());
    FillSteps(idle, pending);
    FillDeviceSteps(work, static_cast<uint32_t>(device));
    FillWhole(idle, pending);
    for (const StreamIdle& stream : streams) {
      if (stream.Row().activity_count > 0) report_.streams.push_back(stream.Row());
    }
    std::sort(report_.streams.begin(), report_.streams.end(),
              [](const StreamIdleRow& a, const StreamIdleRow& b) {
                return std::tie(a.context, a.stream) < std::tie(b.context, b.stream);
              });
    FillLaunches(launches, work);
  }

  TimedLaunch LaunchOf(const Activity& activity) const {
    return {.call_start_ns = activity.call->start_ns,
            .call_end_ns = activity.call->end_ns,
            .start_ns = activity.start_ns,
            .device_ns = static_cast<int64_t>(Distance(activity.start_ns, activity.end_ns)),
            .call = static_cast<uint32_t>(activity.call - attribution_.calls().data()),
            .stream = activity.stream};
  }

  void AddKernel(const Activity& activity) {
    if (activity.kind != GpuRowKind::kKernel) return;
    LaunchStatistics& sums = report_.launches;
    const auto device_ns = static_cast<int64_t>(Distance(activity.start_ns, activity.end_ns));
    ++sums.kernel_count;
    AddTo(sums.kernel_ns, device_ns);
    if (device_ns >= kShortKernelNs) return;
    ++sums.short_kernel_count;
    AddTo(sums.short_kernel_ns, device_ns);
  }

  // The row of the innermost range around a call.
  LaunchingOpRow& OpOf(const GpuAttribution::Call& call) {
    const uint32_t name =
        call.path == RangePaths::kNone ? 0 : first_ids_[attribution_.paths()[call.path].name];
    return ops_[name];
  }

  void AddToOp(const Activity& activity, const std::optional<DeviceIdle::Gap>& gap) {
    if (activity.call == nullptr) return;
    LaunchingOpRow& op = OpOf(*activity.call);
    const auto device_ns = static_cast<int64_t>(Distance(activity.start_ns, activity.end_ns));
    AddTo(op.device_ns, device_ns);
    if (activity.kind == GpuRowKind::kKernel && device_ns < kShortKernelNs) ++op.short_kernel_count;
    if (gap.has_value() && gap->cause == GapCause::kHostWait) {
      AddTo(op.host_wait_ns, static_cast<int64_t>(gap->duration_ns));
    }
  }

  void FillSteps(const DeviceIdle& idle, const PendingWork& pending) {
    for (size_t i = 0; i < report_.steps.size(); ++i) {
      const StepRecord& record = attribution_.steps()[i];
      const int64_t end_ns = EndOf(record.start_ns, record.duration_ns);
      if (end_ns <= record.start_ns) continue;
      IdleRow row;
      idle.AddTo(row, record.start_ns, end_ns);
      report_.steps[i].device = BreakdownOf(row);
      report_.steps[i].device.host_only_ns = pending.HostOnly(record.start_ns, end_ns);
    }
  }

  // Of the steps from the first one on in which the host is ahead to stay.
  void FillDeviceSteps(const DeviceWork& work, uint32_t device) {
    const std::vector<LaunchedWork> launched = LaunchedWorkOfSteps(
        work, device, report_.steps.size(),
        [](const GpuAttribution::Call& call) { return int64_t{call.step}; },
        BusiestStream(work, device));
    std::vector<int64_t> steps_ns;
    for (const TimeStep& step : report_.steps) steps_ns.push_back(step.duration_ns);
    size_t first = 0;
    if (!HostRunsAhead(steps_ns, launched)) {
      first = steps_ns.size();
      while (first > 0 && RunsAhead(steps_ns[first - 1], launched[first - 1])) --first;
      const bool is_most = 2 * (steps_ns.size() - first) > steps_ns.size();
      if (!is_most ||
          !HostRunsAhead(std::span(steps_ns).subspan(first), std::span(launched).subspan(first))) {
        return;
      }
    }
    for (size_t i = first; i + 1 < steps_ns.size(); ++i) {
      if (!FollowEachOther(attribution_.steps(), i)) continue;
      report_.steps[i].device_step_ns = Difference(launched[i + 1].start_ns, launched[i].start_ns);
    }
  }

  void FillWhole(const DeviceIdle& idle, const PendingWork& pending) {
    if (idle.empty()) return;
    IdleRow row;
    idle.AddTo(row, idle.begin_ns(), idle.end_ns());
    report_.whole = BreakdownOf(row);
    report_.whole.host_only_ns = pending.HostOnly(idle.begin_ns(), idle.end_ns());
    report_.unrecorded_ns = static_cast<int64_t>(idle.unrecorded().total_ns());
    report_.kernel_types = TimesByType(idle.compute().intervals(), idle.communication().intervals(),
                                       idle.copies().intervals());
    if (row.communication_ns > 0) {
      report_.overlap = static_cast<double>(report_.whole.overlapped_communication_ns) /
                        static_cast<double>(row.communication_ns);
    }
  }

  void FillLaunches(std::vector<TimedLaunch>& launches, const DeviceWork& work) {
    std::vector<int64_t> numbers;
    for (const DeviceWork::Stream& stream : work.streams()) numbers.push_back(stream.stream);
    std::vector<IntervalSet> full;
    report_.queues = QueueLengths(launches, numbers, &full);
    std::vector<TimedLaunch> calls = MergeByCall(std::move(launches));
    for (TimedLaunch& launch : calls) {
      const uint64_t wait_ns =
          blocking_copies_[launch.call]
              ? Distance(launch.call_start_ns, launch.call_end_ns)
              : full[launch.stream].MeasureIn(launch.call_start_ns, launch.call_end_ns);
      launch.wait_ns = static_cast<int64_t>(wait_ns);
    }
    AddLaunches(calls, report_.launches);
    for (const TimedLaunch& launch : calls) AddCall(launch);
    for (auto& [name, op] : ops_) {
      op.name = reader_.names()[name];
      op.launch_bound = op.call_ns > op.device_ns;
      report_.launching_ops.push_back(std::move(op));
    }
    std::sort(report_.launching_ops.begin(), report_.launching_ops.end(),
              [](const LaunchingOpRow& a, const LaunchingOpRow& b) {
                return std::tie(b.host_wait_ns, b.call_ns, a.name) <
                       std::tie(a.host_wait_ns, a.call_ns, b.name);
              });
  }

  void AddCall(const TimedLaunch& launch) {
    const GpuAttribution::Call& call = attribution_.calls()[launch.call];
    const int64_t call_ns = launch.work_ns();
    LaunchingOpRow& op = OpOf(call);
    ++op.launch_count;
    AddTo(op.call_ns, call_ns);
    if (launch.device_ns < call_ns) ++op.shorter_than_call_count;
    if (call.step < 0) return;
    TimeStep& step = report_.steps[static_cast<size_t>(call.step)];
    ++step.launch_count;
    AddTo(step.launch_ns, call_ns);
  }

  absl::Status AddHost() {
    SyncCalls syncs = SumSyncCalls(attribution_, reader_.names(), blocking_copies_);
    report_.syncs = std::move(syncs.rows);
    ASSIGN_OR_RETURN(const DataLoaderWaits waits, ReadDataLoaderWaits(reader_));
    report_.data_loader = waits.sum;
    ASSIGN_OR_RETURN(CollectiveTable collectives, SummarizeCollectives(reader_, 0));
    report_.collectives = SumCollectives(collectives);
    ASSIGN_OR_RETURN(report_.compile, SummarizeCompile(reader_));
    report_.compiled_region_count = std::ssize(report_.compile.regions);
    for (const GraphBreakRow& row : report_.compile.graph_breaks) {
      report_.graph_break_count += row.count;
    }
    report_.host_collectives = std::move(collectives.exposed_on_host);
    RETURN_IF_ERROR(AddHostSplit());
    absl::flat_hash_map<int64_t, const CompileStepRow*> compiled;
    for (const CompileStepRow& row : report_.compile.steps) compiled[row.step] = &row;
    for (size_t i = 0; i < report_.steps.size(); ++i) {
      TimeStep& step = report_.steps[i];
      step.sync_count = syncs.steps[i].count;
      step.sync_ns = syncs.steps[i].total_ns;
      step.data_loader_ns = waits.step_ns[i];
      const auto found = compiled.find(step.index);
      if (found == compiled.end()) continue;
      step.compiled_regions = found->second->regions;
      step.after_graph_breaks = found->second->after_breaks;
      step.compile_ns = found->second->compile_ns;
    }
    return absl::OkStatus();
  }

  absl::Status AddHostSplit() {
    ASSIGN_OR_RETURN(HostSplits host, SplitHostTime(reader_, attribution_, report_.host_collectives,
                                                    report_.compile.compiling, blocking_copies_));
    report_.host_needs = std::move(host.needs);
    report_.host_of_ranges = host.of_ranges;
    report_.host_gaps = std::move(host.gaps);
    report_.loader_starts = std::move(host.loader_starts);
    report_.rounds = host.rounds;
    report_.rounds_of_last_operators = host.rounds_of_last_operators;
    for (size_t i = 0; i < host.steps.size(); ++i) report_.steps[i].host = host.steps[i];
    IntervalSet counted;
    for (const StepRecord& step : attribution_.steps()) {
      counted.Add(step.start_ns, EndOf(step.start_ns, step.duration_ns));
    }
    if (attribution_.steps().empty()) {
      for (const WindowRecord& window : reader_.record().windows) {
        counted.Add(window.start_ns, window.end_ns);
      }
    }
    ASSIGN_OR_RETURN(report_.host_gap_table,
                     SumHostGaps(reader_, report_.host_gaps, [&](int64_t start_ns, int64_t end_ns) {
                       return static_cast<int64_t>(counted.MeasureIn(start_ns, end_ns));
                     }));
    return absl::OkStatus();
  }

  store::CaptureReader& reader_;
  const TimeOptions options_;
  const std::vector<uint32_t> first_ids_;
  GpuAttribution attribution_;
  std::vector<bool> blocking_copies_;                  // By position of the call.
  absl::flat_hash_map<uint32_t, LaunchingOpRow> ops_;  // By name.
  TimeReport report_;
};

}  // namespace

TimeBreakdown BreakdownOf(const IdleRow& row) {
  return {.kernel_time_ns = row.duration_ns,
          .busy_ns = row.busy_ns,
          .idle_ns = row.idle_ns,
          .gap_count = row.gap_count,
          .compute_ns = row.compute_ns,
          .communication_ns = row.communication_ns,
          .exposed_communication_ns = row.exposed_communication_ns,
          .overlapped_communication_ns = row.communication_ns - row.exposed_communication_ns,
          .copy_ns = row.copy_ns,
          .exposed_copy_ns = row.exposed_copy_ns,
          .idle_by_cause = {.host_wait_ns = row.host_wait_ns,
                            .kernel_wait_ns = row.kernel_wait_ns,
                            .other_ns = row.other_ns}};
}

absl::StatusOr<TimeReport> SummarizeTime(store::CaptureReader& recorded,
                                         const TimeOptions& options) {
  BelievedReader reader(recorded);
  return TimeSummary(reader, options).Summarize();
}

}  // namespace profd::report
