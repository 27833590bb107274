#include "daemon/report/index/short_replays.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/capture/event_kinds.h"
#include "daemon/report/index/end_of.h"
#include "daemon/report/index/gpu_names.h"
#include "daemon/report/index/wrapping_math.h"

namespace profd::report {
namespace {

// Fewer are not enough to say what a graph does.
constexpr int64_t kFewestEqual = 3;
constexpr uint32_t kReplayColumns = kGpuTime | kGpuWhat | kGpuWhere | kGpuCause;

struct Replay {
  int64_t launch_ns = 0;
  int64_t start_ns = std::numeric_limits<int64_t>::max();
  int64_t end_ns = std::numeric_limits<int64_t>::min();
  uint64_t content = 0;  // The same for equal work, in whatever order.
  int64_t count = 0;
  uint32_t graph = 0;  // 0: the capture does not say.
  uint32_t first_name = 0;
  uint16_t device = 0;
  bool is_whole_graph = false;  // One row for all of its work.
};

uint64_t Mix(uint64_t value) {
  value *= 0x9E3779B97F4A7C15U;
  return value ^ value >> 29;
}
// Names count, and of copies the kind.
uint64_t WorkOf(const GpuBatch& batch, size_t i) {
  return uint64_t{batch.name[i]} << 8 | static_cast<uint64_t>(batch.kind[i]);
}

class ShortReplaySearch {
 public:
  ShortReplaySearch(store::CaptureReader& reader, const GpuAttribution& attribution)
      : reader_(reader), attribution_(attribution) {}

  absl::StatusOr<ShortReplays> Find() {
    FindLaunches();
    if (replays_.empty()) return ShortReplays();
    RETURN_IF_ERROR(reader_.ForEach<GpuRow>(kReplayColumns, {}, [&](const GpuBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) Add(batch, i);
      return absl::OkStatus();
    }));
    FindCandidates();
    if (candidates_.empty()) return ShortReplays();
    RETURN_IF_ERROR(ReadWorkOfCandidates());
    return Result();
  }

 private:
  struct Candidate {
    size_t replay;
    size_t whole;  // A replay of the same graph that is.
  };
  using Works = std::map<uint64_t, int64_t>;  // How often a replay does what.

  void FindLaunches() {
    std::vector<bool> launches;  // By name.
    launches.reserve(reader_.names().size());
    for (const std::string& name : reader_.names()) launches.push_back(LaunchesGraph(name));
    for (const GpuAttribution::Call& call : attribution_.calls()) {
      if (!launches[call.name] || attribution_.Find(call.correlation) != &call) continue;
      by_correlation_.emplace(call.correlation, replays_.size());
      replays_.push_back({.launch_ns = call.start_ns});
    }
  }

  Replay* ReplayOf(const GpuBatch& batch, size_t i) {
    const auto found = by_correlation_.find(batch.correlation[i]);
    return found == by_correlation_.end() ? nullptr : &replays_[found->second];
  }

  void Add(const GpuBatch& batch, size_t i) {
    Replay* const replay = ReplayOf(batch, i);
    if (replay == nullptr) return;
    ++replay->count;
    replay->content += Mix(WorkOf(batch, i));
    replay->device = batch.device[i];
    if (batch.graph_id[i] != 0) replay->graph = batch.graph_id[i];
    if (static_cast<GpuRowKind>(batch.kind[i]) == GpuRowKind::kGraphLaunch) {
      replay->is_whole_graph = true;
    }
    if (batch.start_ns[i] < replay->start_ns) {
      replay->start_ns = batch.start_ns[i];
      replay->first_name = batch.name[i];
    }
    replay->end_ns = std::max(replay->end_ns, EndOf(batch.start_ns[i], batch.duration_ns[i]));
  }

  // Graphs without a number are distinguished by their first work.
  void FindCandidates() {
    std::map<std::tuple<uint16_t, uint32_t, uint32_t>, std::vector<size_t>> graphs;
    for (size_t i = 0; i < replays_.size(); ++i) {
      const Replay& replay = replays_[i];
      if (replay.count == 0 || replay.is_whole_graph) continue;
      graphs[{replay.device, replay.graph, replay.graph == 0 ? replay.first_name : 0}].push_back(i);
    }
    for (auto& [graph, replays] : graphs) FindCandidatesOf(replays);
  }

  void FindCandidatesOf(std::vector<size_t>& replays) {
    using Variant = std::pair<int64_t, uint64_t>;  // Count, content.
    const auto variant_of = [&](size_t i) {
      return Variant(replays_[i].count, replays_[i].content);
    };
    std::map<Variant, int64_t> variants;
    for (const size_t i : replays) ++variants[variant_of(i)];
    if (variants.size() < 2) return;
    const auto most =
        std::ranges::max_element(variants, {}, [](const auto& variant) { return variant.second; });
    const int64_t total = std::ssize(replays);
    if (most->second < kFewestEqual || 4 * most->second < 3 * total) return;
    // Replays that differ in the same way, or do more: the graph has conditional nodes.
    const bool is_conditional = std::ranges::any_of(variants, [&](const auto& variant) {
      return variant.first != most->first &&
             (variant.second > 1 || variant.first.first >= most->first.first);
    });
    if (is_conditional) return;
    std::ranges::sort(replays, {}, [&](size_t i) { return replays_[i].launch_ns; });
    const auto is_whole = [&](size_t i) { return variant_of(i) == most->first; };
    const auto first = std::ranges::find_if(replays, is_whole);
    const auto last = std::ranges::find_if(replays.rbegin(), replays.rend(), is_whole).base();
    for (auto at = first; at != last; ++at) {
      const bool is_short = replays_[*at].count < most->first.first;
      if (is_short) candidates_.push_back({*at, *first});
    }
  }

  absl::Status ReadWorkOfCandidates() {
    for (const Candidate& candidate : candidates_) {
      works_.try_emplace(candidate.replay);
      works_.try_emplace(candidate.whole);
    }
    return reader_.ForEach<GpuRow>(kReplayColumns, {}, [&](const GpuBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        busy_[batch.device[i]].push_back(
            {batch.start_ns[i], EndOf(batch.start_ns[i], batch.duration_ns[i])});
        const auto found = by_correlation_.find(batch.correlation[i]);
        if (found == by_correlation_.end()) continue;
        const auto works = works_.find(found->second);
        if (works != works_.end()) ++works->second[WorkOf(batch, i)];
      }
      return absl::OkStatus();
    });
  }

  // All of its work is also in the whole replay, and some that the whole one does exactly once is
  // missing: not rounds of a loop alone.
  bool LacksWork(const Candidate& candidate) {
    const Works& whole = works_[candidate.whole];
    const Works& part = works_[candidate.replay];
    const bool is_part = std::ranges::all_of(part, [&](const auto& work) {
      const auto found = whole.find(work.first);
      return found != whole.end() && work.second <= found->second;
    });
    return is_part && std::ranges::any_of(whole, [&](const auto& work) {
             return work.second == 1 && !part.contains(work.first);
           });
  }

  // From its launch, or when the device had done what it did before: the host may be many replays
  // ahead.
  int64_t BeginOf(const Replay& replay, const std::vector<IntervalSet::Interval>& busy) const {
    const auto before =
        std::ranges::lower_bound(busy, replay.start_ns, {}, &IntervalSet::Interval::start_ns);
    const int64_t launch_ns = std::min(replay.launch_ns, replay.start_ns);
    if (before == busy.begin()) return launch_ns;
    return std::min(replay.start_ns, std::max(launch_ns, std::prev(before)->end_ns));
  }

  ShortReplays Result() {
    ShortReplays result;
    for (auto& [device, busy] : busy_) {
      std::ranges::sort(busy, {}, &IntervalSet::Interval::start_ns);
      // The end of all work so far.
      for (size_t i = 1; i < busy.size(); ++i) {
        busy[i].end_ns = std::max(busy[i].end_ns, busy[i - 1].end_ns);
      }
    }
    std::vector<IntervalSet::Interval> times;
    for (const Candidate& candidate : candidates_) {
      if (!LacksWork(candidate)) continue;
      const Replay& replay = replays_[candidate.replay];
      const Replay& whole = replays_[candidate.whole];
      ++result.count;
      result.missing_count += whole.count - replay.count;
      const std::vector<IntervalSet::Interval>& busy = busy_[replay.device];
      const auto next =
          std::ranges::lower_bound(busy, replay.end_ns, {}, &IntervalSet::Interval::start_ns);
      const int64_t full_end_ns =
          Sum(replay.start_ns, std::max<int64_t>(0, Difference(whole.end_ns, whole.start_ns)));
      int64_t end_ns = std::max(replay.end_ns, full_end_ns);
      if (next != busy.end()) end_ns = std::min(end_ns, next->start_ns);
      times.push_back({BeginOf(replay, busy), end_ns});
    }
    std::ranges::sort(times, {}, &IntervalSet::Interval::start_ns);
    for (const IntervalSet::Interval& time : times) result.times.Add(time.start_ns, time.end_ns);
    return result;
  }

  store::CaptureReader& reader_;
  const GpuAttribution& attribution_;
  absl::flat_hash_map<uint32_t, size_t> by_correlation_;
  std::vector<Replay> replays_;
  std::vector<Candidate> candidates_;
  absl::flat_hash_map<size_t, Works> works_;  // Of candidates, and of whole replays.
  absl::flat_hash_map<uint16_t, std::vector<IntervalSet::Interval>> busy_;  // By device.
};

}  // namespace

absl::StatusOr<ShortReplays> FindShortReplays(store::CaptureReader& reader,
                                              const GpuAttribution& attribution) {
  return ShortReplaySearch(reader, attribution).Find();
}

}  // namespace profd::report
