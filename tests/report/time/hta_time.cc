#include "tests/report/time/hta_time.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/report/believed/believed_reader.h"
#include "daemon/report/gpu/device_work.h"
#include "daemon/report/index/end_of.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/index/gpu_names.h"
#include "daemon/report/index/merge_runs.h"
#include "daemon/report/index/wrapping_math.h"
#include "daemon/report/time/kernel_types.h"
#include "daemon/report/time/launch_timing.h"

namespace profd::report {
namespace {

constexpr int64_t kMicrosecond = 1000;

// Rounds times to whole microseconds of the trace's clock, in ns since the capture's start.
class HtaRounding {
 public:
  explicit HtaRounding(const CaptureRecord& record)
      : rounds_(record.imported.time_unit_ns < kMicrosecond),
        phase_ns_((record.start_unix_ns % kMicrosecond + kMicrosecond) % kMicrosecond) {}
  int64_t Down(int64_t time_ns) const { return Difference(time_ns, Past(time_ns)); }
  int64_t Up(int64_t time_ns) const {
    const int64_t past_ns = Past(time_ns);
    return past_ns == 0 ? time_ns : Sum(time_ns, kMicrosecond - past_ns);
  }

 private:
  // Since the last whole microsecond, 0..999.
  int64_t Past(int64_t time_ns) const {
    return rounds_ ? (time_ns % kMicrosecond + kMicrosecond + phase_ns_) % kMicrosecond : 0;
  }

  bool rounds_;  // False for a trace in whole microseconds.
  int64_t phase_ns_;
};

class HtaWindow {
 public:
  explicit HtaWindow(const store::CaptureReader& reader) : rounding_(reader.record()) {
    if (reader.steps().size() < 2) return;
    drops_last_step_ = true;
    last_step_start_ns_ = std::numeric_limits<int64_t>::min();
    for (const StepRecord& step : reader.steps()) {
      last_step_start_ns_ = std::max(last_step_start_ns_, rounding_.Up(step.start_ns));
    }
  }
  // Whether work that this call launched counts; nullptr: unknown call.
  bool Holds(const GpuAttribution::Call* call) const {
    if (!drops_last_step_) return true;
    return call != nullptr && rounding_.Up(call->start_ns) < last_step_start_ns_;
  }

 private:
  const HtaRounding rounding_;
  bool drops_last_step_ = false;
  int64_t last_step_start_ns_ = std::numeric_limits<int64_t>::max();
};

bool StartsWithAny(std::string_view name, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}
bool HasAny(std::string_view name, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return name.find(part) != name.npos; });
}

Work WorkByName(std::string_view name) {
  if (StartsWithAny(name, {"nccl", "hip", "hccl"}) || HasAny(name, {"ncclKernel"})) {
    return Work::kCommunication;
  }
  if (StartsWithAny(name, {"Memcpy", "Memset", "dma"})) return Work::kCopy;
  const bool is_launch =
      name.starts_with("cuda") && name.find("LaunchKernel") != std::string_view::npos;
  const bool is_other =
      is_launch || HasAny(name, {"Memcpy", "Memset", "dma", "Sync"}) ||
      StartsWithAny(name, {"Stream Wait Event", "runFunction", "job_exe", "packet", "pe_exe",
                           "cpum_exe_subgraph", "collective_subgraph_execution"});
  return is_other ? Work::kOther : Work::kCompute;
}

// By the names that traces show, which are demangled; each is looked at once.
class WorkByNames {
 public:
  explicit WorkByNames(std::span<const std::string> names) : names_(names), known_(names.size()) {}

  Work Of(const Activity& activity) {
    if (IsMemoryWork(activity.kind)) return Work::kCopy;
    if (activity.kind != GpuRowKind::kKernel) return Work::kCompute;
    std::optional<Work>& known = known_[activity.name];
    if (!known.has_value()) known = WorkByName(demangler_.Demangle(names_[activity.name]));
    return *known;
  }

 private:
  const std::span<const std::string> names_;
  std::vector<std::optional<Work>> known_;
  Demangler demangler_;
};

enum class Launch : uint8_t { kNone, kQueued, kCounted };

Launch LaunchOf(std::string_view name) {
  constexpr std::array<std::string_view, 4> kCounted = {"cudaLaunchKernel", "cudaLaunchKernelExC",
                                                        "cudaMemcpyAsync", "cudaMemsetAsync"};
  constexpr std::array<std::string_view, 7> kQueued = {
      "cuLaunchKernel", "cuLaunchKernelEx", "hipLaunchKernel",    "hipExtModuleLaunchKernel",
      "hipMemcpyAsync", "hipMemsetAsync",   "hipMemcpyWithStream"};
  if (std::find(kCounted.begin(), kCounted.end(), name) != kCounted.end()) return Launch::kCounted;
  return std::find(kQueued.begin(), kQueued.end(), name) != kQueued.end() ? Launch::kQueued
                                                                          : Launch::kNone;
}

// Something that ran, in its rounded times.
struct Piece {
  int64_t start_ns;
  int64_t end_ns;
  const GpuAttribution::Call* call;
  int64_t call_start_ns;  // With a call only.
  uint32_t stream;
  Work work;
  bool is_wait;  // "Stream Sync"
};

bool IsHostWait(const Piece& piece, int64_t since_ns) {
  return piece.call != nullptr && piece.call_start_ns > since_ns;
}

void AddGap(const Piece& next, int64_t since_ns, IdleCauses& causes) {
  const int64_t gap_ns = Difference(next.start_ns, since_ns);
  int64_t& cause = IsHostWait(next, since_ns)    ? causes.host_wait_ns
                   : gap_ns < kKernelWaitLimitNs ? causes.kernel_wait_ns
                                                 : causes.other_ns;
  cause = Sum(cause, gap_ns);
}

// The union of what is added by start. What ends before it begins counts below zero.
class RoundedUnion {
 public:
  // True: nothing ran right before it.
  bool Add(int64_t start_ns, int64_t end_ns) {
    if (!groups_.empty() && start_ns <= latest_end_ns_) {
      latest_end_ns_ = std::max(latest_end_ns_, end_ns);
      groups_.back().end_ns = std::max(groups_.back().end_ns, end_ns);
      return false;
    }
    latest_end_ns_ = groups_.empty() ? end_ns : std::max(latest_end_ns_, end_ns);
    groups_.push_back({start_ns, end_ns, 0});
    return true;
  }
  bool empty() const { return groups_.empty(); }
  int64_t begin_ns() const { return groups_.front().start_ns; }
  int64_t end_ns() const { return groups_.back().end_ns; }
  Intervals groups() const { return groups_; }
  int64_t total_ns() const {
    int64_t total_ns = 0;
    for (const auto& group : groups_) {
      total_ns = Sum(total_ns, Difference(group.end_ns, group.start_ns));
    }
    return total_ns;
  }

 private:
  std::vector<IntervalSet::Interval> groups_;
  int64_t latest_end_ns_ = 0;
};

class HtaReport {
 public:
  HtaReport(store::CaptureReader& reader, const GpuAttribution& attribution,
            const HtaWindow& window, const DeviceWork& work, size_t device)
      : reader_(reader),
        attribution_(attribution),
        window_(window),
        work_(work),
        device_(device),
        rounding_(reader.record()) {}

  absl::Status Fill(TimeReport& report) {
    AddActivities();
    RETURN_IF_ERROR(AddWaits());
    MergeRuns(pieces_, [](const Piece& a, const Piece& b) { return a.start_ns < b.start_ns; });
    FillWhole(report);
    FillStreams(report);
    FillLaunches(report);
    return absl::OkStatus();
  }

 private:
  void AddPiece(int64_t start_ns, int64_t end_ns, const GpuAttribution::Call* call, uint32_t stream,
                Work work, bool is_wait) {
    pieces_.push_back({rounding_.Up(start_ns), rounding_.Down(end_ns), call,
                       call == nullptr ? 0 : rounding_.Up(call->start_ns), stream, work, is_wait});
  }

  void AddActivities() {
    WorkByNames names(reader_.names());
    pieces_.reserve(work_.activities().size());
    for (const Activity& activity : work_.activities()) {
      if (work_.DeviceOf(activity) != device_) continue;
      AddPiece(activity.start_ns, activity.end_ns, activity.call, activity.stream,
               names.Of(activity), /*is_wait=*/false);
    }
  }

  absl::Status AddWaits() {
    constexpr uint32_t kNoStream = std::numeric_limits<uint32_t>::max();
    // Traces in whole microseconds give a wait for all streams a number of its own, 4294967295,
    // which is a stream to HTA; later ones give it -1, which is none.
    const bool counts_all = reader_.record().imported.time_unit_ns >= kMicrosecond;
    const uint16_t number = work_.devices()[device_];
    return reader_.ForEach<profd::SyncRow>([&](const SyncBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        if (batch.stream[i] == kNoStream && !counts_all) continue;
        if (batch.device[i] != number && batch.device[i] != kNoGpuDevice) continue;
        const GpuAttribution::Call* call = attribution_.Find(batch.correlation[i]);
        if (!window_.Holds(call)) continue;
        AddPiece(batch.start_ns[i], EndOf(batch.start_ns[i], batch.duration_ns[i]), call, 0,
                 Work::kOther, /*is_wait=*/true);
      }
      return absl::OkStatus();
    });
  }

  void FillWhole(TimeReport& report) const {
    RoundedUnion all;
    RoundedUnion compute;
    RoundedUnion communication;
    RoundedUnion copies;
    TimeBreakdown& whole = report.whole;
    for (const Piece& piece : pieces_) {
      const bool was_busy = !all.empty();
      const int64_t since_ns = was_busy ? all.end_ns() : 0;
      if (all.Add(piece.start_ns, piece.end_ns) && was_busy) {
        AddGap(piece, since_ns, whole.idle_by_cause);
        ++whole.gap_count;
      }
      if (piece.work == Work::kCompute) compute.Add(piece.start_ns, piece.end_ns);
      if (piece.work == Work::kCommunication) communication.Add(piece.start_ns, piece.end_ns);
      if (piece.work == Work::kCopy) copies.Add(piece.start_ns, piece.end_ns);
    }
    if (all.empty()) return;
    report.kernel_types = TimesByType(compute.groups(), communication.groups(), copies.groups());
    whole.kernel_time_ns = Difference(all.end_ns(), all.begin_ns());
    whole.busy_ns = all.total_ns();
    whole.idle_ns = Difference(whole.kernel_time_ns, whole.busy_ns);
    whole.compute_ns = compute.total_ns();
    whole.communication_ns = communication.total_ns();
    whole.overlapped_communication_ns = OverlapNs(report.kernel_types);
    whole.exposed_communication_ns =
        Difference(whole.communication_ns, whole.overlapped_communication_ns);
    whole.copy_ns = copies.total_ns();
    for (const KernelTypeTime& type : report.kernel_types) {
      if (!type.compute && !type.communication) whole.exposed_copy_ns = type.total_ns;
    }
    if (whole.communication_ns > 0) {
      report.overlap = static_cast<double>(whole.overlapped_communication_ns) /
                       static_cast<double>(whole.communication_ns);
    }
  }

  void FillStreams(TimeReport& report) const {
    struct Stream {
      StreamIdleRow row;
      IdleCauses causes;
      RoundedUnion busy;
      int64_t until_ns = 0;
    };
    std::vector<Stream> streams(work_.streams().size());
    for (const Piece& piece : pieces_) {
      if (piece.is_wait) continue;
      Stream& stream = streams[piece.stream];
      if (stream.row.activity_count++ > 0) {
        AddGap(piece, stream.until_ns, stream.causes);
        if (piece.start_ns > stream.until_ns) ++stream.row.gap_count;
      }
      stream.busy.Add(piece.start_ns, piece.end_ns);
      stream.until_ns = piece.end_ns;
    }
    for (size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].row.activity_count == 0) continue;
      StreamIdleRow row = streams[i].row;
      const IdleCauses& causes = streams[i].causes;
      row.device = work_.devices()[device_];
      row.context = work_.streams()[i].context;
      row.stream = work_.streams()[i].stream;
      row.busy_ns = streams[i].busy.total_ns();
      row.host_wait_ns = causes.host_wait_ns;
      row.kernel_wait_ns = causes.kernel_wait_ns;
      row.other_ns = causes.other_ns;
      row.idle_ns = Sum(Sum(causes.host_wait_ns, causes.kernel_wait_ns), causes.other_ns);
      report.streams.push_back(row);
    }
  }

  void FillLaunches(TimeReport& report) const {
    std::vector<std::optional<Launch>> known(reader_.names().size());
    std::vector<TimedLaunch> counted;
    std::vector<TimedLaunch> queued;
    counted.reserve(pieces_.size());
    queued.reserve(pieces_.size());
    for (const Piece& piece : pieces_) {
      if (piece.is_wait) continue;
      const int64_t device_ns = Difference(piece.end_ns, piece.start_ns);
      AddKernel(piece, device_ns, report.launches);
      if (piece.call == nullptr) continue;
      std::optional<Launch>& launch = known[piece.call->name];
      if (!launch.has_value()) launch = LaunchOf(reader_.names()[piece.call->name]);
      if (*launch == Launch::kNone) continue;
      queued.push_back({.call_start_ns = piece.call_start_ns,
                        .call_end_ns = rounding_.Down(piece.call->end_ns),
                        .start_ns = piece.start_ns,
                        .device_ns = device_ns,
                        .call = 0,
                        .stream = piece.stream});
      if (*launch == Launch::kCounted) counted.push_back(queued.back());
    }
    AddLaunches(counted, report.launches);
    std::vector<int64_t> numbers;
    for (const DeviceWork::Stream& stream : work_.streams()) numbers.push_back(stream.stream);
    report.queues = QueueLengths(queued, numbers);
  }

  static void AddKernel(const Piece& piece, int64_t device_ns, LaunchStatistics& statistics) {
    if (piece.work != Work::kCompute && piece.work != Work::kCommunication) return;
    ++statistics.kernel_count;
    statistics.kernel_ns = Sum(statistics.kernel_ns, device_ns);
    if (device_ns >= kShortKernelNs) return;
    ++statistics.short_kernel_count;
    statistics.short_kernel_ns = Sum(statistics.short_kernel_ns, device_ns);
  }

  store::CaptureReader& reader_;
  const GpuAttribution& attribution_;
  const HtaWindow& window_;
  const DeviceWork& work_;
  const size_t device_;
  const HtaRounding rounding_;
  std::vector<Piece> pieces_;  // By start, once all are there.
};

}  // namespace

absl::StatusOr<TimeReport> SummarizeAsHta(store::CaptureReader& recorded) {
  BelievedReader reader(recorded);
  ASSIGN_OR_RETURN(const GpuAttribution attribution, GpuAttribution::BuildCalls(reader));
  ASSIGN_OR_RETURN(DeviceWork work, DeviceWork::Read(reader, attribution));
  const HtaWindow window(reader);
  work.KeepOnly([&](const Activity& activity) { return window.Holds(activity.call); });
  std::vector<BusyTime> busy(work.devices().size());
  for (const Activity& activity : work.activities()) {
    busy[work.DeviceOf(activity)].Add(0, activity.start_ns, activity.end_ns);
  }
  const auto most = std::max_element(
      busy.begin(), busy.end(),
      [](const BusyTime& a, const BusyTime& b) { return a.total_ns() < b.total_ns(); });
  if (most == busy.end()) return absl::NotFoundError("the trace has no work of a GPU");
  TimeReport report;
  const auto device = static_cast<size_t>(most - busy.begin());
  RETURN_IF_ERROR(HtaReport(reader, attribution, window, work, device).Fill(report));
  return report;
}

}  // namespace profd::report
