#include "daemon/report/findings/quality.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/budget.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/text.h"
#include "daemon/capture/event_kinds.h"
#include "daemon/report/believed/believed_reader.h"
#include "daemon/report/index/earlier_work.h"
#include "daemon/report/index/gpu_names.h"
#include "daemon/report/index/short_replays.h"

namespace profd::report {
namespace {

// Kernels that are launched into a graph while it is made do not run.
bool BeginsGraphCapture(std::string_view name) {
  return name.find("StreamBeginCapture") != std::string_view::npos;
}

class EventCheck {
 public:
  EventCheck(store::CaptureReader& reader, const GpuAttribution& attribution)
      : reader_(reader),
        attribution_(attribution),
        tolerance_ns_(std::max<int64_t>(
            {0, reader.record().imported.time_unit_ns, reader.record().gpu.clock_error_ns})),
        earlier_work_(reader.record()),
        has_work_(attribution.calls().size()) {}

  absl::StatusOr<EventChecks> Check() {
    const bool is_imported = !reader_.record().imported.source.empty();
    const uint32_t columns =
        kGpuTime | kGpuCause | kGpuWhere | (is_imported ? uint32_t{kGpuWhat} : 0U);
    RETURN_IF_ERROR(reader_.ForEach<GpuRow>(columns, {}, [&](const GpuBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        AddRow(batch, i);
        if (!is_imported) continue;
        has_copies_ |= IsMemoryWork(static_cast<GpuRowKind>(batch.kind[i]));
      }
      return absl::OkStatus();
    }));
    const std::vector<Name> kinds = KindsOfNames();
    if (IsAnySilent(kinds)) RETURN_IF_ERROR(FindFailedCalls());
    counts_copies_ = is_imported && (!has_copies_ || !CopiesWithKernels());
    RETURN_IF_ERROR(earlier_work_.AddWaits(reader_));
    checks_.unknown_gpu_ns = earlier_work_.LongestNs();
    CountLaunches(kinds);
    if (checks_.graph_launch_count > checks_.silent_graph_count) {
      ASSIGN_OR_RETURN(const ShortReplays replays, FindShortReplays(reader_, attribution_));
      checks_.short_graph_count =
          std::min(replays.count, checks_.graph_launch_count - checks_.silent_graph_count);
      checks_.missing_node_count = replays.missing_count;
    }
    RETURN_IF_ERROR(CountImpossibleTimes());
    if (checks_.orphan_count > 0) RETURN_IF_ERROR(CountEarlierWork());
    RETURN_IF_ERROR(reader_.ForEach<RangeRow>(kRangeFlags, {}, [&](const RangeBatch& batch) {
      checks_.range_count += static_cast<int64_t>(batch.size);
      for (const uint8_t flags : batch.flags) {
        const bool open = (flags & kRangeOpen) != 0;
        const bool truncated = (flags & kRangeTruncated) != 0;
        if (open || truncated) ++checks_.cut_range_count;
        if (open && truncated) ++checks_.spanning_range_count;
        const bool unended = (flags & kRangeUnended) != 0;
        if (unended) ++checks_.unended_range_count;
        if (unended && open) ++checks_.left_open_count;
      }
      return absl::OkStatus();
    }));
    if (checks_.unended_range_count > 0) RETURN_IF_ERROR(NameUnendedRanges());
    return checks_;
  }

 private:
  void AddRow(const GpuBatch& batch, size_t i) {
    ++checks_.gpu_row_count;
    const GpuAttribution::Call* call = attribution_.Find(batch.correlation[i]);
    earlier_work_.Add(batch.device[i], batch.start_ns[i], call);
    if (call == nullptr) {
      ++checks_.orphan_count;
      return;
    }
    has_work_[static_cast<size_t>(call - attribution_.calls().data())] = true;
    int64_t before_ns = 0;
    if (batch.start_ns[i] >= call->start_ns ||
        __builtin_sub_overflow(call->start_ns, batch.start_ns[i], &before_ns) ||
        before_ns <= tolerance_ns_) {
      return;
    }
    ++checks_.inversion_count;
    checks_.worst_inversion_ns = std::max(checks_.worst_inversion_ns, before_ns);
  }

  // A stream does its work in the order of its launches: what it does before the first work that
  // was launched in the window was launched before the window, by a host that runs ahead.
  absl::Status CountEarlierWork() {
    constexpr uint32_t kColumns = kGpuTime | kGpuWhere | kGpuCause;
    absl::flat_hash_map<StreamInWindow, int64_t> first_launched_ns;
    RETURN_IF_ERROR(reader_.ForEach<GpuRow>(kColumns, {}, [&](const GpuBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        if (attribution_.Find(batch.correlation[i]) == nullptr) continue;
        const auto [at, is_new] =
            first_launched_ns.try_emplace(StreamOf(batch, i), batch.start_ns[i]);
        if (!is_new) at->second = std::min(at->second, batch.start_ns[i]);
      }
      return absl::OkStatus();
    }));
    return reader_.ForEach<GpuRow>(kColumns, {}, [&](const GpuBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        if (attribution_.Find(batch.correlation[i]) != nullptr) continue;
        const auto first = first_launched_ns.find(StreamOf(batch, i));
        if (first == first_launched_ns.end()) continue;
        if (batch.start_ns[i] < first->second) ++checks_.earlier_work_count;
      }
      return absl::OkStatus();
    });
  }

  // Device, context, stream, and the number of windows that began before.
  using StreamInWindow = std::tuple<uint32_t, uint32_t, uint32_t, size_t>;
  StreamInWindow StreamOf(const GpuBatch& batch, size_t i) const {
    const std::vector<WindowRecord>& windows = reader_.record().windows;
    const auto next = std::upper_bound(
        windows.begin(), windows.end(), batch.start_ns[i],
        [](int64_t time_ns, const WindowRecord& window) { return time_ns < window.start_ns; });
    // Work of the first window may have begun before it.
    const auto window = static_cast<size_t>(next - windows.begin());
    return {batch.device[i], batch.context[i], batch.stream[i], std::max<size_t>(window, 1)};
  }

  absl::Status CountImpossibleTimes() {
    ASSIGN_OR_RETURN(ImpossibleCalls calls, FindImpossibleCalls(reader_));
    checks_.host_call_count = calls.call_count;
    checks_.overlong_call_count = calls.overlong_count;
    checks_.overlong_call_ns = calls.overlong_ns;
    checks_.overlong_call_possible_ns = calls.overlong_possible_ns;
    if (calls.overlong_count > 0) checks_.overlong_call_name = Display(calls.overlong_name);
    if (checks_.gpu_row_count == 0) return absl::OkStatus();
    BelievedCalls believed(reader_, std::move(calls));
    ASSIGN_OR_RETURN(const ImpossibleTimes times, FindImpossibleTimes(believed, attribution_));
    checks_.overlong_count = times.overlong_count;
    checks_.overlong_ns = times.overlong_ns;
    checks_.overlong_possible_ns = times.overlong_possible_ns;
    checks_.detached_count = times.detached_count;
    checks_.detached_ns = times.detached_ns;
    // Of a clock that is late, the end of the work contradicts the host, as the begin does of one
    // that is early. Of a row, both may.
    checks_.inversion_count =
        std::min(checks_.gpu_row_count, checks_.inversion_count + times.late_count);
    checks_.worst_inversion_ns = std::max(checks_.worst_inversion_ns, times.late_ns);
    if (times.overlong_count > 0) checks_.overlong_name = Display(times.overlong_name);
    return absl::OkStatus();
  }

  std::string Display(uint32_t name) const {
    constexpr size_t kMaxNameBytes = 80;
    return ForDisplay(Demangler().Demangle(reader_.names()[name]), kMaxNameBytes);
  }

  absl::Status NameUnendedRanges() {
    absl::flat_hash_map<std::string_view, int64_t> counts;
    RETURN_IF_ERROR(
        reader_.ForEach<RangeRow>(kRangeFlags | kRangeName, {}, [&](const RangeBatch& batch) {
          for (size_t i = 0; i < batch.size; ++i) {
            if ((batch.flags[i] & kRangeUnended) != 0) ++counts[reader_.names()[batch.name[i]]];
          }
          return absl::OkStatus();
        }));
    const auto most =
        std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
          return std::tie(a.second, b.first) < std::tie(b.second, a.first);
        });
    if (most != counts.end()) checks_.unended_range_name = most->first;
    return absl::OkStatus();
  }

  enum class Name : uint8_t { kOther, kLaunch, kGraphLaunch, kCapture, kAsyncCopy };
  static bool IsLaunch(Name name) { return name == Name::kLaunch || name == Name::kGraphLaunch; }
  // Of files that have copies: two whole traces of torch lack 29 % and 62 % of their memsets, which
  // may be of no bytes.
  bool MayHaveNoWork(std::string_view call) const {
    return has_copies_ && call.find("Memset") != std::string_view::npos;
  }
  std::vector<Name> KindsOfNames() const {
    std::vector<Name> kinds;
    kinds.reserve(reader_.names().size());
    for (const std::string& name : reader_.names()) {
      kinds.push_back(LaunchesGraph(name)                             ? Name::kGraphLaunch
                      : LaunchesWork(name)                            ? Name::kLaunch
                      : BeginsGraphCapture(name)                      ? Name::kCapture
                      : IsAsyncCopyCall(name) && !MayHaveNoWork(name) ? Name::kAsyncCopy
                                                                      : Name::kOther);
    }
    return kinds;
  }

  bool IsAnySilent(const std::vector<Name>& kinds) const {
    const std::span<const GpuAttribution::Call> calls = attribution_.calls();
    for (size_t i = 0; i < calls.size(); ++i) {
      const Name kind = kinds[calls[i].name];
      if (!has_work_[i] && (IsLaunch(kind) || kind == Name::kAsyncCopy)) return true;
    }
    return false;
  }

  // A call that failed started no work. One that has work may report an error of earlier work.
  absl::Status FindFailedCalls() {
    return reader_.ForEach<ApiRow>([&](const ApiBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        if (batch.result[i] == 0) continue;
        failed_.try_emplace({batch.start_ns[i], batch.thread, batch.name[i]}, batch.result[i]);
      }
      return absl::OkStatus();
    });
  }
  bool HasFailed(const GpuAttribution::Call& call) const {
    return failed_.contains({call.start_ns, call.thread, call.name});
  }
  void AddFailed(const GpuAttribution::Call& call) {
    ++checks_.failed_launch_count;
    if (first_failed_ns_.has_value() && *first_failed_ns_ <= call.start_ns) return;
    first_failed_ns_ = call.start_ns;
    checks_.failed_result =
        std::max<int64_t>(failed_.at({call.start_ns, call.thread, call.name}), 0);
  }

  // ROCm has kernels copy, which need not name the call.
  bool CopiesWithKernels() const {
    return std::ranges::any_of(reader_.names(),
                               [](std::string_view name) { return name.starts_with("hip"); });
  }

  void CountLaunches(const std::vector<Name>& kinds) {
    const std::span<const GpuAttribution::Call> calls = attribution_.calls();
    // Without steps, reports are about the time from the first to the last work. What was launched
    // before or after that work may have run before or after that time.
    int64_t first_ns = std::numeric_limits<int64_t>::min();
    int64_t last_ns = std::numeric_limits<int64_t>::max();
    if (reader_.steps().empty() && checks_.gpu_row_count > checks_.orphan_count) {
      std::swap(first_ns, last_ns);
      for (size_t i = 0; i < calls.size(); ++i) {
        if (!IsLaunch(kinds[calls[i].name]) || !has_work_[i]) continue;
        first_ns = std::min(first_ns, calls[i].start_ns);
        last_ns = std::max(last_ns, calls[i].start_ns);
      }
      // No launch has work, so none is known to lie beyond it.
      if (first_ns > last_ns) std::swap(first_ns, last_ns);
    }
    if (counts_copies_) CountSilentCopies(kinds, first_ns, last_ns);
    for (size_t i = 0; i < calls.size(); ++i) {
      if (kinds[calls[i].name] == Name::kCapture) checks_.captures_graphs = true;
      if (!IsLaunch(kinds[calls[i].name])) continue;
      // A call of the driver within one of the runtime may have its correlation: one launch.
      const GpuAttribution::Call* first = attribution_.Find(calls[i].correlation);
      if (first != nullptr && first != &calls[i]) continue;
      if (calls[i].start_ns < first_ns || calls[i].start_ns > last_ns) continue;
      if (!has_work_[i] && HasFailed(calls[i])) {
        AddFailed(calls[i]);
        continue;
      }
      ++checks_.launch_count;
      if (!has_work_[i]) ++checks_.silent_launch_count;
      if (kinds[calls[i].name] != Name::kGraphLaunch) continue;
      ++checks_.graph_launch_count;
      if (!has_work_[i]) ++checks_.silent_graph_count;
    }
  }

  // A file may lack what the calls made, all of it or a part. One call may have had nothing to do.
  void CountSilentCopies(const std::vector<Name>& kinds, int64_t first_ns, int64_t last_ns) {
    constexpr int64_t kFewest = 4;
    const std::span<const GpuAttribution::Call> calls = attribution_.calls();
    int64_t count = 0;
    int64_t silent_count = 0;
    for (size_t i = 0; i < calls.size(); ++i) {
      if (kinds[calls[i].name] != Name::kAsyncCopy || calls[i].correlation == 0) continue;
      if (attribution_.Find(calls[i].correlation) != &calls[i]) continue;
      if (calls[i].start_ns < first_ns || calls[i].start_ns > last_ns) continue;
      if (!has_work_[i] && HasFailed(calls[i])) continue;
      ++count;
      if (!has_work_[i]) ++silent_count;
    }
    if (silent_count < kFewest) return;
    checks_.launch_count += count;
    checks_.silent_launch_count += silent_count;
  }

  store::CaptureReader& reader_;
  const GpuAttribution& attribution_;
  const int64_t tolerance_ns_;
  bool has_copies_ = false;     // Of imported captures.
  bool counts_copies_ = false;  // Calls that copy count as launches.
  EarlierWork earlier_work_;
  std::vector<bool> has_work_;  // By position of the call.
  // The results of calls that failed, by start, thread, and name.
  absl::flat_hash_map<std::tuple<int64_t, uint32_t, uint32_t>, int32_t> failed_;
  std::optional<int64_t> first_failed_ns_;
  EventChecks checks_;
};

}  // namespace

absl::StatusOr<EventChecks> CheckEvents(store::CaptureReader& reader,
                                        const GpuAttribution& attribution) {
  return EventCheck(reader, attribution).Check();
}

absl::StatusOr<EventChecks> CheckEvents(store::CaptureReader& reader) {
  ASSIGN_OR_RETURN(const GpuAttribution attribution, GpuAttribution::Build(reader));
  return CheckEvents(reader, attribution);
}

absl::StatusOr<EventChecks> CheckEventsForSeal(store::CaptureReader& reader) {
  const ScopedHeapLimit limit("the quality check", kSummaryHeapBytes);
  return CheckEvents(reader);
}

absl::StatusOr<Quality> SummarizeQuality(store::CaptureReader& reader) {
  if (!reader.record().graded.grade.empty()) return QualityOf(reader.record());
  ASSIGN_OR_RETURN(const EventChecks events, CheckEvents(reader));
  return QualityOf(reader.record(), &events);
}

}  // namespace profd::report
