#include "daemon/report/believed/impossible_times.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/report/index/by_name.h"
#include "daemon/report/index/gpu_names.h"
#include "daemon/report/index/launch_statistics.h"
#include "daemon/report/index/wrapping_math.h"

namespace profd::report {
namespace {

// Traces of GPUs show overlaps of up to 13 us in a stream, of kernels that outlast their successor
// never.
constexpr int64_t kOutlastsNs = 10'000;
// A successor that begins this much too early, and before half of its predecessor was over, does
// not wait for it.
constexpr int64_t kOverlapNs = 1'000'000;
// Launched work begins sooner on an idle GPU; and much sooner after the last thing that was
// recorded of the host, because a profiler that stops lets the GPU finish.
constexpr int64_t kDetachedNs = 60'000'000'000;
constexpr int64_t kQuietNs = 5'000'000'000;
// Clocks of GPU and host may differ by less.
constexpr int64_t kLateNs = 10'000'000;
constexpr int64_t kLateClockNs = 50'000;
// Work of a name that lasts this many times as long as all others of it, of which there are some.
constexpr int64_t kFarLonger = 100;
constexpr int64_t kFewestAlike = 5;
// Work that an idle GPU begins with at nearly the same distance from its launch, each time.
constexpr size_t kFewestShifted = 10;
constexpr uint64_t kIdleNs = 50'000;
constexpr int64_t kShiftSpreadNs = 1'000'000;
constexpr double kNearlyAll = 0.9;
// If more than this share of a stream's work begins out of order, its launches or its clock are
// wrong, and no single row can be blamed.
constexpr double kMostOutOfOrder = 0.1;
// Calls that make a stream wait for something else than GPU work.
constexpr std::string_view kHoldBack[] = {"StreamWaitValue", "LaunchHostFunc", "BatchMemOp",
                                          "AddCallback"};
// How many successors are compared. Of a graph's nodes, which run side by side, there may be more.
constexpr size_t kMostSuccessors = 64;

struct Row {
  int64_t start_ns;
  int64_t end_ns;
  int64_t awaited_ns;  // The host had waited for it by then.
  uint32_t stream;
  uint32_t name;
  uint32_t correlation;
  bool is_node;
};

bool WaitsForDevice(std::string_view call) {
  return call.find("DeviceSynchronize") != std::string_view::npos ||
         call.starts_with("cuCtxSynchronize");
}
bool WaitsForStream(std::string_view call) {
  return call.find("StreamSynchronize") != std::string_view::npos;
}

// When the host knew that work was done: at the end of the first call that waited for it, and began
// after the work was launched.
class DeviceWaits {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  // `is_wait`: by a call's name.
  absl::Status Read(store::CaptureReader& reader, bool (*is_wait)(std::string_view)) {
    std::vector<bool> waits;  // By name.
    waits.reserve(reader.names().size());
    for (const std::string& name : reader.names()) waits.push_back(is_wait(name));
    if (std::ranges::find(waits, true) == waits.end()) return absl::OkStatus();
    RETURN_IF_ERROR(reader.ForEach<ApiRow>([&](const ApiBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        // One that failed may have waited for nothing; of one without a length, the end is unknown.
        if (!waits[batch.name[i]] || batch.result[i] != 0 || batch.duration_ns[i] <= 0) continue;
        waits_.emplace_back(batch.start_ns[i], Sum(batch.start_ns[i], batch.duration_ns[i]));
      }
      return absl::OkStatus();
    }));
    std::ranges::sort(waits_);
    int64_t end_ns = kNever;
    // A minimum from the back: of all waits that begin at or after this one, the earliest end.
    // DoneBy() is one binary search then.
    for (size_t i = waits_.size(); i-- > 0;) {
      end_ns = std::min(end_ns, waits_[i].second);
      waits_[i].second = end_ns;
    }
    return absl::OkStatus();
  }

  int64_t DoneBy(int64_t launched_ns) const {
    const auto wait = std::ranges::lower_bound(waits_, launched_ns, {},
                                               [](const auto& each) { return each.first; });
    return wait == waits_.end() ? kNever : wait->second;
  }

 private:
  std::vector<std::pair<int64_t, int64_t>> waits_;  // By start; the end of this or a later one.
};

// From the first to the last that is recorded of the host.
class HostSpan {
 public:
  absl::Status Read(store::CaptureReader& reader) {
    const auto add = [&](const auto& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        start_ns_ = std::min(start_ns_, batch.start_ns[i]);
        end_ns_ = std::max(end_ns_, Sum(batch.start_ns[i], batch.duration_ns[i]));
      }
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(reader.ForEach<RangeRow>(kRangeStart | kRangeDuration, {}, add));
    return reader.ForEach<ApiRow>(add);
  }

  // Whether the host did nothing for kQuietNs before and after.
  bool IsFarFrom(int64_t time_ns) const {
    return (time_ns > end_ns_ && Distance(end_ns_, time_ns) > uint64_t{kQuietNs}) ||
           (time_ns < start_ns_ && Distance(time_ns, start_ns_) > uint64_t{kQuietNs});
  }

 private:
  int64_t start_ns_ = std::numeric_limits<int64_t>::max();
  int64_t end_ns_ = std::numeric_limits<int64_t>::min();
};

class TimeSearch {
 public:
  TimeSearch(store::CaptureReader& reader, const GpuAttribution& attribution)
      : reader_(reader),
        attribution_(attribution),
        graphs_(reader.names(), &LaunchesGraph),
        tolerance_ns_(kOutlastsNs + 2 * std::clamp<int64_t>(reader.record().imported.time_unit_ns,
                                                            0, kOutlastsNs)),
        clock_error_ns_(std::clamp<int64_t>(reader.record().gpu.clock_error_ns, 0, kQuietNs)) {}

  absl::StatusOr<ImpossibleTimes> Find() {
    constexpr uint32_t kColumns = kGpuTime | kGpuWhat | kGpuWhere | kGpuCause;
    RETURN_IF_ERROR(waits_.Read(reader_, &WaitsForDevice));
    RETURN_IF_ERROR(reader_.ForEach<GpuRow>(kColumns, {}, [&](const GpuBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) Add(batch, i);
      return absl::OkStatus();
    }));
    std::sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
      return std::tie(a.start_ns, a.end_ns) < std::tie(b.start_ns, b.end_ns);
    });
    if (WaitsAreForAll()) FindUnawaited();
    FindShifted();
    const bool any_far = std::ranges::any_of(
        rows_, [&](const Row& row) { return AwayFromLaunch(row) > uint64_t{kQuietNs}; });
    if (any_far) {
      RETURN_IF_ERROR(host_.Read(reader_));
      FindDetached();
    }
    FindOutOfOrder();
    // Stable, so that the rows of a stream keep their order in time, which FindOverlong() relies
    // on.
    std::stable_sort(rows_.begin(), rows_.end(),
                     [](const Row& a, const Row& b) { return a.stream < b.stream; });
    for (size_t i = 0; i < rows_.size(); ++i) FindOverlong(i);
    if (WaitsAreForAll()) FindOutlastingWaits();
    if (WaitsAreForAll() && streams_.keys().size() == 1) RETURN_IF_ERROR(FindOverlongLast());
    return std::move(times_);
  }

 private:
  using StreamKey = std::tuple<uint16_t, uint32_t, uint64_t>;  // Device, context, stream.

  void Add(const GpuBatch& batch, size_t i) {
    const GpuAttribution::Call* call = attribution_.Find(batch.correlation[i]);
    rows_.push_back({batch.start_ns[i], Sum(batch.start_ns[i], batch.duration_ns[i]),
                     call == nullptr ? DeviceWaits::kNever : waits_.DoneBy(call->end_ns),
                     streams_.Of({batch.device[i], batch.context[i], batch.stream[i]}),
                     batch.name[i], batch.correlation[i],
                     batch.graph_id[i] != 0 || batch.graph_node_id[i] != 0 ||
                         (call != nullptr && graphs_.Of(call->name))});
  }

  // A thread waits for one GPU, and its call does not say which. What a trace lists may be all GPUs
  // of the machine.
  bool WaitsAreForAll() const {
    const CaptureRecord& record = reader_.record();
    if (record.imported.source.empty() && record.gpu.devices.size() > 1) return false;
    return std::ranges::all_of(streams_.keys(), [&](const StreamKey& key) {
      return std::get<0>(key) == std::get<0>(streams_.keys()[0]) &&
             std::get<1>(key) == std::get<1>(streams_.keys()[0]);
    });
  }

  static int64_t DistanceOf(int64_t from_ns, int64_t to_ns) {
    return static_cast<int64_t>(
        std::min<uint64_t>(Distance(from_ns, to_ns), std::numeric_limits<int64_t>::max()));
  }

  // Removes rows that begin long after the host waited for them.
  void FindUnawaited() {
    std::erase_if(rows_, [&](const Row& row) {
      if (row.start_ns <= row.awaited_ns) return false;
      const int64_t after_ns = DistanceOf(row.awaited_ns, row.start_ns);
      if (after_ns <= kLateNs + clock_error_ns_) return false;
      LeaveOut(row, after_ns);
      return true;
    });
  }

  void LeaveOut(const Row& row, int64_t away_ns) {
    ++times_.detached_count;
    times_.detached_ns = std::max(times_.detached_ns, away_ns);
    times_.possible_ns[{row.start_ns, Difference(row.end_ns, row.start_ns)}] =
        ImpossibleTimes::kLeftOut;
  }

  // After the others: of work that outlasts a wait and its successor, the shorter time counts.
  void FindOutlastingWaits() {
    for (const Row& row : rows_) {
      const auto found =
          times_.possible_ns.find({row.start_ns, Difference(row.end_ns, row.start_ns)});
      const int64_t end_ns =
          found == times_.possible_ns.end() ? row.end_ns : Sum(row.start_ns, found->second);
      if (end_ns <= row.awaited_ns) continue;
      const int64_t after_ns = DistanceOf(row.awaited_ns, end_ns);
      if (after_ns > kLateNs + clock_error_ns_) {
        const int64_t possible_ns = Difference(row.awaited_ns, row.start_ns);
        if (found != times_.possible_ns.end()) {
          found->second = std::max<int64_t>(0, possible_ns);
          NoteOverlong(row, found->second);
        } else if (possible_ns > 0) {
          SetOverlong(row, possible_ns);
        } else {
          LeaveOut(row, after_ns);
        }
      } else if (after_ns > kLateClockNs + tolerance_ns_ + clock_error_ns_) {
        ++times_.late_count;
        times_.late_ns = std::max(times_.late_ns, after_ns);
      }
    }
  }

  // Whether the program has calls that make streams wait for something else than GPU work: each
  // launch may then begin equally late.
  bool MayHoldBack() {
    return std::ranges::any_of(reader_.names(), [](std::string_view name) {
      return std::ranges::any_of(kHoldBack, [&](std::string_view call) {
        return name.starts_with("cu") && name.find(call) != std::string_view::npos;
      });
    });
  }

  // Removes all that was launched if an idle GPU begins with it at the same distance from the
  // launch each time: the GPU's clock is off by that much.
  void FindShifted() {
    if (MayHoldBack()) return;
    std::vector<int64_t> distances_ns;  // Of those that begin on an idle GPU.
    size_t launched = 0;
    int64_t until_ns = std::numeric_limits<int64_t>::min();
    for (const Row& row : rows_) {
      const GpuAttribution::Call* const call = attribution_.Find(row.correlation);
      const bool is_idle = row.start_ns > until_ns && Distance(until_ns, row.start_ns) > kIdleNs;
      until_ns = std::max(until_ns, row.end_ns);
      if (call == nullptr) continue;
      ++launched;
      if (is_idle) distances_ns.push_back(Difference(row.start_ns, call->end_ns));
    }
    // Work in a queue begins at the same distance, too, but soon after other work.
    if (distances_ns.size() < kFewestShifted || 2 * distances_ns.size() < launched) return;
    std::ranges::sort(distances_ns);
    const int64_t shift_ns = distances_ns[distances_ns.size() / 2];
    const auto alike = std::ranges::count_if(distances_ns, [&](int64_t distance_ns) {
      return DistanceOf(std::min(distance_ns, shift_ns), std::max(distance_ns, shift_ns)) <=
             kShiftSpreadNs;
    });
    if (DistanceOf(std::min<int64_t>(shift_ns, 0), std::max<int64_t>(shift_ns, 0)) < kLateNs ||
        static_cast<double>(alike) < kNearlyAll * static_cast<double>(distances_ns.size())) {
      return;
    }
    std::erase_if(rows_, [&](const Row& row) {
      if (attribution_.Find(row.correlation) == nullptr) return false;
      LeaveOut(row, DistanceOf(std::min<int64_t>(shift_ns, 0), std::max<int64_t>(shift_ns, 0)));
      return true;
    });
  }

  // 0: it begins within the call, or its launch is not known.
  uint64_t AwayFromLaunch(const Row& row) const {
    const GpuAttribution::Call* call = attribution_.Find(row.correlation);
    if (call == nullptr) return 0;
    return row.start_ns > call->end_ns     ? Distance(call->end_ns, row.start_ns)
           : row.start_ns < call->start_ns ? Distance(row.start_ns, call->start_ns)
                                           : 0;
  }

  // Removes rows that begin long before or after their launch, while their GPU did nothing.
  void FindDetached() {
    absl::flat_hash_map<uint16_t, int64_t> until_ns;  // By device.
    std::erase_if(rows_, [&](const Row& row) {
      const auto [until, is_first] = until_ns.try_emplace(std::get<0>(streams_.keys()[row.stream]),
                                                          std::numeric_limits<int64_t>::min());
      const uint64_t far_ns = host_.IsFarFrom(row.start_ns) ? kQuietNs : kDetachedNs;
      const bool was_idle = is_first || (row.start_ns > until->second &&
                                         Distance(until->second, row.start_ns) > far_ns);
      const uint64_t away_ns = was_idle ? AwayFromLaunch(row) : 0;
      if (away_ns <= far_ns) {
        until->second = std::max(until->second, row.end_ns);
        return false;
      }
      LeaveOut(row, static_cast<int64_t>(
                        std::min<uint64_t>(away_ns, std::numeric_limits<int64_t>::max())));
      return true;
    });
  }

  // Removes rows that begin well after at least two that their thread launched later in the same
  // stream, which does its work in the order of the launches.
  void FindOutOfOrder() {
    struct Launched {
      uint32_t stream;
      uint32_t thread;
      int64_t call_ns;
      size_t row;
    };
    std::vector<Launched> launched;
    for (size_t i = 0; i < rows_.size(); ++i) {
      const GpuAttribution::Call* const call = attribution_.Find(rows_[i].correlation);
      if (call == nullptr || rows_[i].is_node) continue;
      launched.push_back({rows_[i].stream, call->thread, call->start_ns, i});
    }
    std::ranges::sort(launched, [](const Launched& a, const Launched& b) {
      return std::tie(a.stream, a.thread, a.call_ns, a.row) <
             std::tie(b.stream, b.thread, b.call_ns, b.row);
    });
    std::vector<int64_t> late_ns(rows_.size());  // By row; 0: it is in order.
    for (size_t begin = 0; begin < launched.size();) {
      size_t end = begin;
      while (end < launched.size() && launched[end].stream == launched[begin].stream &&
             launched[end].thread == launched[begin].thread) {
        ++end;
      }
      const auto count = MarkOutOfOrder(
          end - begin, [&](size_t i) { return launched[begin + i].row; }, late_ns);
      if (static_cast<double>(count) > kMostOutOfOrder * static_cast<double>(end - begin)) {
        for (size_t i = begin; i < end; ++i) late_ns[launched[i].row] = 0;
      }
      begin = end;
    }
    size_t at = 0;
    std::erase_if(rows_, [&](const Row& row) {
      const int64_t late = late_ns[at++];
      if (late > 0) LeaveOut(row, late);
      return late > 0;
    });
  }

  // `row_at(i)`: the i-th of `count` rows in the order of their launches. Returns how many it
  // marked.
  template <typename RowAt>
  size_t MarkOutOfOrder(size_t count, RowAt row_at, std::vector<int64_t>& late_ns) const {
    constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
    int64_t first_ns = kNone;  // The two earliest begins of what was launched later.
    int64_t second_ns = kNone;
    size_t marked = 0;
    for (size_t i = count; i-- > 0;) {
      const Row& row = rows_[row_at(i)];
      if (row.start_ns > second_ns && Difference(row.start_ns, second_ns) > kOverlapNs) {
        late_ns[row_at(i)] = Difference(row.start_ns, first_ns);
        ++marked;
        continue;
      }
      second_ns = std::min(second_ns, std::max(first_ns, row.start_ns));
      first_ns = std::min(first_ns, row.start_ns);
    }
    return marked;
  }

  static bool AreOfOneGraph(const Row& a, const Row& b) {
    return a.is_node && b.is_node && a.correlation == b.correlation;
  }

  void FindOverlong(size_t at) {
    const Row& row = rows_[at];
    const size_t end = std::min(rows_.size(), at + 1 + kMostSuccessors);
    for (size_t i = at + 1; i < end; ++i) {
      const Row& next = rows_[i];
      if (next.stream != row.stream || next.start_ns >= row.end_ns) return;
      if (AreOfOneGraph(row, next)) continue;
      const int64_t possible_ns = Difference(next.start_ns, row.start_ns);
      const int64_t overlap_ns = Difference(row.end_ns, next.start_ns);
      const bool outlasts =
          next.end_ns < row.end_ns && Difference(row.end_ns, next.end_ns) > tolerance_ns_;
      if (!outlasts && (overlap_ns <= kOverlapNs || overlap_ns <= possible_ns)) continue;
      SetOverlong(row, possible_ns);
      return;
    }
  }

  // Of the only stream, which a wait for a stream may well have been for: its last work, if it
  // lasts far longer than other work of that name ever does, and beyond that wait.
  absl::Status FindOverlongLast() {
    if (rows_.empty()) return absl::OkStatus();
    const Row& last = rows_.back();
    const GpuAttribution::Call* const call = attribution_.Find(last.correlation);
    if (call == nullptr ||
        times_.possible_ns.contains({last.start_ns, Difference(last.end_ns, last.start_ns)})) {
      return absl::OkStatus();
    }
    int64_t alike = 0;
    int64_t longest_ns = 0;
    for (const Row& row : std::span(rows_).first(rows_.size() - 1)) {
      if (row.name != last.name) continue;
      ++alike;
      longest_ns = std::max(longest_ns, Difference(row.end_ns, row.start_ns));
    }
    const bool is_far_longer =
        alike >= kFewestAlike && Difference(last.end_ns, last.start_ns) / kFarLonger > longest_ns;
    if (!is_far_longer) return absl::OkStatus();
    DeviceWaits waits;
    RETURN_IF_ERROR(waits.Read(reader_, &WaitsForStream));
    const int64_t awaited_ns = waits.DoneBy(call->end_ns);
    if (last.end_ns <= awaited_ns || DistanceOf(awaited_ns, last.end_ns) <= kLateNs) {
      return absl::OkStatus();
    }
    SetOverlong(last, std::max<int64_t>(0, Difference(awaited_ns, last.start_ns)));
    return absl::OkStatus();
  }

  void SetOverlong(const Row& row, int64_t possible_ns) {
    ++times_.overlong_count;
    times_.possible_ns[{row.start_ns, Difference(row.end_ns, row.start_ns)}] = possible_ns;
    NoteOverlong(row, possible_ns);
  }

  void NoteOverlong(const Row& row, int64_t possible_ns) {
    const int64_t recorded_ns = Difference(row.end_ns, row.start_ns);
    if (recorded_ns - possible_ns <= times_.overlong_ns - times_.overlong_possible_ns) return;
    times_.overlong_name = row.name;
    times_.overlong_ns = recorded_ns;
    times_.overlong_possible_ns = possible_ns;
  }

  store::CaptureReader& reader_;
  const GpuAttribution& attribution_;
  ByName<bool> graphs_;  // Calls whose work is the nodes of one, with or without their numbers.
  const int64_t tolerance_ns_;
  const int64_t clock_error_ns_;  // How far the GPU's times may be off from the host's.
  DeviceWaits waits_;
  HostSpan host_;
  Numbering<StreamKey> streams_;
  std::vector<Row> rows_;
  ImpossibleTimes times_;
};

}  // namespace

absl::StatusOr<ImpossibleTimes> FindImpossibleTimes(store::CaptureReader& reader,
                                                    const GpuAttribution& attribution) {
  return TimeSearch(reader, attribution).Find();
}

}  // namespace profd::report
