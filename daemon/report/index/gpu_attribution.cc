#include "daemon/report/index/gpu_attribution.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "daemon/base/status_macros.h"
#include "daemon/report/index/end_of.h"
#include "daemon/report/index/merge_runs.h"
#include "daemon/report/index/redispatch.h"
#include "daemon/report/index/step_lookup.h"

namespace profd::report {
namespace {

using Call = GpuAttribution::Call;

// Finds the paths of one thread's calls. Ranges come in order of their end, children before
// their parents, so a path is known only when its outermost range has ended: until then a call
// holds the position of its innermost range here, plus one.
class ThreadPaths {
 public:
  explicit ThreadPaths(std::span<Call> calls) : calls_(calls), sweep_(calls) {}

  void EndRange(int64_t start_ns, int64_t end_ns, uint32_t name, bool is_outermost,
                RangePaths& paths) {
    bool holds_calls = false;
    sweep_.EndRange(start_ns, end_ns, [&](size_t call) {
      Take(call, start_ns);
      holds_calls = true;
    });
    AddRange(start_ns, name, holds_calls);
    if (is_outermost) Resolve(paths);
  }
  // It ends where another one begins, which may be around what came later.
  void EndCutRange(int64_t start_ns, int64_t end_ns, uint32_t name) {
    bool holds_calls = false;
    sweep_.EndCutRange(start_ns, end_ns, [&](size_t call) {
      Take(call, start_ns);
      holds_calls = true;
    });
    std::vector<Parentless> later;
    while (!parentless_.empty() && parentless_.back().start_ns >= end_ns) {
      later.push_back(parentless_.back());
      parentless_.pop_back();
    }
    AddRange(start_ns, name, holds_calls);
    parentless_.insert(parentless_.end(), later.rbegin(), later.rend());
  }
  // The range before the one that ends next, which began at `start_ns`, is the same call, and so
  // has its name. That one is cut at `cut_ns`, if there is one.
  void FoldPrevious(int64_t start_ns, std::optional<int64_t> cut_ns, uint32_t name) {
    for (auto at = parentless_.rbegin(); at != parentless_.rend(); ++at) {
      if (cut_ns.has_value() && at->start_ns >= *cut_ns) continue;
      if (at->start_ns >= start_ns) ranges_[at->position].name = name;
      return;
    }
  }

  // Nothing encloses what came so far.
  void Resolve(RangePaths& paths) {
    for (size_t i = ranges_.size(); i-- > 0;) {  // Parents before their children.
      Range& range = ranges_[i];
      range.path = paths.Child(
          range.parent == kNoParent ? RangePaths::kNone : ranges_[range.parent].path, range.name);
    }
    for (; resolved_ < sweep_.next(); ++resolved_) {
      uint32_t& path = calls_[resolved_].path;
      if (path != RangePaths::kNone) path = ranges_[path - 1].path;
    }
    sweep_.EndOutermost();
    ranges_.clear();
    parentless_.clear();
  }

 private:
  static constexpr uint32_t kNoParent = std::numeric_limits<uint32_t>::max();
  struct Range {
    uint32_t name;
    union {
      uint32_t parent;  // Position in ranges_; greater than its own.
      uint32_t path;    // Once resolved.
    };
  };
  struct Parentless {
    int64_t start_ns;
    uint32_t position;
  };

  // Of the range that is added next.
  void Take(size_t call, int64_t start_ns) {
    calls_[call].path = static_cast<uint32_t>(ranges_.size()) + 1;
    calls_[call].range_start_ns = start_ns;
  }
  void AddRange(int64_t start_ns, uint32_t name, bool holds_calls) {
    const auto position = static_cast<uint32_t>(ranges_.size());
    while (!parentless_.empty() && parentless_.back().start_ns >= start_ns) {
      ranges_[parentless_.back().position].parent = position;
      parentless_.pop_back();
      holds_calls = true;
    }
    if (!holds_calls) return;
    ranges_.push_back({.name = name, .parent = kNoParent});
    parentless_.push_back({start_ns, position});
  }

  const std::span<Call> calls_;
  CallSweep sweep_;
  size_t resolved_ = 0;        // Calls before this one hold their paths.
  std::vector<Range> ranges_;  // Those with calls inside, by end.
  std::vector<Parentless> parentless_;
};

// Ranges of imported traces that overlap without nesting: each is cut where the next one begins
// that begins in it and outlasts it, and so is what is nested in it.
class RangeCuts {
 public:
  static absl::StatusOr<RangeCuts> Build(store::CaptureReader& reader) {
    RangeCuts cuts;
    if (reader.record().imported.source.empty()) return cuts;
    std::vector<std::vector<Range>> threads(reader.threads().size());
    RETURN_IF_ERROR(
        reader.ForEach<RangeRow>(kRangeStart | kRangeDuration, {}, [&](const RangeBatch& batch) {
          if (batch.thread >= threads.size()) threads.resize(batch.thread + size_t{1});
          if (batch.thread >= cuts.cutters_.size()) cuts.cutters_.resize(batch.thread + size_t{1});
          for (size_t i = 0; i < batch.size; ++i) {
            const Range range = {batch.start_ns[i], EndOf(batch.start_ns[i], batch.duration_ns[i])};
            if (CutsOneOf(threads[batch.thread], range)) {
              cuts.cutters_[batch.thread].push_back(range);
            }
          }
          return absl::OkStatus();
        }));
    for (std::vector<Range>& cutters : cuts.cutters_) {
      std::ranges::sort(cutters, {}, &Range::start_ns);
    }
    return cuts;
  }

  bool empty() const { return cutters_.empty(); }

  // Where the range is cut; nullopt: it is not.
  std::optional<int64_t> CutOf(uint32_t thread, int64_t start_ns, int64_t end_ns) const {
    if (thread >= cutters_.size()) return std::nullopt;
    const std::vector<Range>& cutters = cutters_[thread];
    auto at = std::ranges::upper_bound(cutters, start_ns, {}, &Range::start_ns);
    for (size_t n = 0; n < kMostLooks && at != cutters.end() && at->start_ns < end_ns; ++n, ++at) {
      if (at->end_ns > end_ns) return at->start_ns;
    }
    return std::nullopt;
  }

 private:
  struct Range {
    int64_t start_ns;
    int64_t end_ns;
  };
  // Those that a later one may cut are among the last: more are forgotten.
  static constexpr size_t kMostOpen = 4096;
  // At cutters inside of a range that only cut what is inside of it, too.
  static constexpr size_t kMostLooks = 256;

  // Whether `range` begins in one that has ended. Ranges come in order of their end. `ended`: those
  // that are in none that has ended, by start and by end.
  static bool CutsOneOf(std::vector<Range>& ended, const Range& range) {
    while (!ended.empty() && ended.back().start_ns >= range.start_ns) ended.pop_back();
    const bool cuts = !ended.empty() && ended.back().end_ns > range.start_ns &&
                      ended.back().end_ns < range.end_ns;
    ended.push_back(range);
    if (ended.size() > 2 * kMostOpen) ended.erase(ended.begin(), ended.begin() + kMostOpen);
    return cuts;
  }

  std::vector<std::vector<Range>> cutters_;  // By thread, then by start.
};

}  // namespace

uint32_t RangePaths::Child(uint32_t parent, uint32_t name) {
  // Ranges repeat themselves: most often it is the child that it was the last time.
  if (const uint32_t last = last_child_[parent]; last != kNone && nodes_[last].name == name) {
    return last;
  }
  if (nodes_[parent].depth == kMaxDepth) return parent;
  const auto next = static_cast<uint32_t>(nodes_.size());
  const auto [at, inserted] = children_.try_emplace(uint64_t{parent} << 32 | name, next);
  if (inserted) {
    nodes_.push_back({name, parent, nodes_[parent].depth + 1});
    last_child_.push_back(kNone);
  }
  last_child_[parent] = at->second;
  return at->second;
}

absl::StatusOr<GpuAttribution> GpuAttribution::BuildCalls(store::CaptureReader& reader) {
  GpuAttribution attribution;
  const CaptureRecord& record = reader.record();
  if (record.imported.source.empty() && !record.windows.empty()) {
    attribution.window_start_ns_ = record.windows.front().start_ns;
  }
  RETURN_IF_ERROR(attribution.ReadCalls(reader));
  attribution.IndexCorrelations();
  attribution.FindSteps(reader);
  return attribution;
}

absl::StatusOr<GpuAttribution> GpuAttribution::Build(store::CaptureReader& reader, OpKinds* kinds) {
  ASSIGN_OR_RETURN(GpuAttribution attribution, BuildCalls(reader));
  RETURN_IF_ERROR(attribution.FindPaths(reader, kinds));
  return attribution;
}

absl::Status GpuAttribution::ReadCalls(store::CaptureReader& reader) {
  std::vector<std::vector<Call>> by_thread(reader.threads().size());
  RETURN_IF_ERROR(reader.ForEach<ApiRow>([&](const ApiBatch& batch) {
    if (batch.thread >= by_thread.size()) by_thread.resize(batch.thread + 1);
    std::vector<Call>& calls = by_thread[batch.thread];
    ReserveMore(calls, batch.size);
    for (size_t i = 0; i < batch.size; ++i) {
      calls.push_back({.start_ns = batch.start_ns[i],
                       .end_ns = EndOf(batch.start_ns[i], batch.duration_ns[i]),
                       .thread = batch.thread,
                       .name = batch.name[i],
                       .correlation = batch.correlation[i],
                       .is_driver = batch.is_driver[i] != 0});
    }
    return absl::OkStatus();
  }));
  thread_begin_.push_back(0);
  for (std::vector<Call>& calls : by_thread) {
    MergeRuns(calls, [](const Call& a, const Call& b) { return a.start_ns < b.start_ns; });
    if (calls_.empty()) {
      calls_ = std::move(calls);
    } else {
      calls_.insert(calls_.end(), calls.begin(), calls.end());
      calls = {};
    }
    thread_begin_.push_back(calls_.size());
  }
  return absl::OkStatus();
}

void GpuAttribution::IndexCorrelations() {
  constexpr uint64_t kMostSlotsPerCall = 16;  // As much memory as the call itself.
  uint64_t first = std::numeric_limits<uint32_t>::max();
  uint64_t last = 0;
  for (const Call& call : calls_) {
    if (call.correlation == 0) continue;
    first = std::min<uint64_t>(first, call.correlation);
    last = std::max<uint64_t>(last, call.correlation);
  }
  if (last == 0) return;
  // Correlations are mostly consecutive, so a table by number finds a call in one access. Where
  // they are far apart, as a hostile file may have them, pairs are sorted and searched instead, and
  // memory stays in proportion to the calls.
  if (last - first < kMostSlotsPerCall * calls_.size()) {
    first_correlation_ = first;
    by_slot_.assign(last - first + 1, kNoCall);
    for (uint32_t i = 0; i < calls_.size(); ++i) {
      if (calls_[i].correlation == 0) continue;
      uint32_t& slot = by_slot_[calls_[i].correlation - first];
      if (slot == kNoCall || calls_[i].start_ns < calls_[slot].start_ns) slot = i;
    }
    return;
  }
  for (uint32_t i = 0; i < calls_.size(); ++i) {
    if (calls_[i].correlation != 0) sparse_.emplace_back(calls_[i].correlation, i);
  }
  std::sort(sparse_.begin(), sparse_.end(), [this](const auto& a, const auto& b) {
    return std::tuple(a.first, calls_[a.second].start_ns, a.second) <
           std::tuple(b.first, calls_[b.second].start_ns, b.second);
  });
}

const GpuAttribution::Call* GpuAttribution::FindSparse(uint32_t correlation) const {
  const auto at =
      std::lower_bound(sparse_.begin(), sparse_.end(), correlation,
                       [](const auto& entry, uint32_t wanted) { return entry.first < wanted; });
  return at == sparse_.end() || at->first != correlation ? nullptr : &calls_[at->second];
}

void GpuAttribution::FindSteps(store::CaptureReader& reader) {
  StepLookup lookup(reader.steps());
  steps_.assign(lookup.steps().begin(), lookup.steps().end());
  if (steps_.empty()) return;
  for (Call& call : calls_) {
    const size_t position = lookup.PositionAt(call.start_ns);
    call.step = position == StepLookup::kNone ? -1 : static_cast<int32_t>(position);
  }
}

std::span<const Call> GpuAttribution::CallsOf(uint32_t thread) const {
  if (thread + size_t{1} >= thread_begin_.size()) return {};
  return std::span(calls_).subspan(thread_begin_[thread],
                                   thread_begin_[thread + 1] - thread_begin_[thread]);
}

absl::Status GpuAttribution::FindPaths(store::CaptureReader& reader, OpKinds* kinds) {
  if (calls_.empty()) return absl::OkStatus();
  // Only ranges that reach into the time of the calls can be around one. Chunks of others are not
  // read.
  store::TimeFilter filter = {calls_.front().start_ns, calls_.front().start_ns};
  std::vector<std::optional<ThreadPaths>> threads(thread_begin_.size() - 1);
  for (size_t i = 0; i < threads.size(); ++i) {
    const std::span<Call> calls =
        std::span(calls_).subspan(thread_begin_[i], thread_begin_[i + 1] - thread_begin_[i]);
    if (calls.empty()) continue;
    threads[i].emplace(calls);
    filter.begin_ns = std::min(filter.begin_ns, calls.front().start_ns);
    filter.end_ns = std::max(filter.end_ns, calls.back().start_ns);
  }
  filter.end_ns = EndOf(filter.end_ns, 1);
  uint32_t columns = kRangeStart | kRangeDuration | kRangeName | kRangeDepth;
  std::optional<Redispatches> redispatches;
  if (kinds != nullptr) {
    columns |= kinds->columns();
    ASSIGN_OR_RETURN(redispatches, Redispatches::Build(reader));
  }
  ASSIGN_OR_RETURN(const RangeCuts cuts, RangeCuts::Build(reader));
  RETURN_IF_ERROR(reader.ForEach<RangeRow>(columns, filter, [&](const RangeBatch& batch) {
    if (batch.thread >= threads.size() || !threads[batch.thread].has_value()) {
      return absl::OkStatus();
    }
    ThreadPaths& thread = *threads[batch.thread];
    const std::span<const uint32_t> names = kinds == nullptr ? batch.name : kinds->Of(batch);
    std::span<const uint8_t> folds;
    if (redispatches.has_value()) folds = redispatches->FindFolds(batch, names, *kinds);
    for (size_t i = 0; i < batch.size; ++i) {
      const int64_t start_ns = batch.start_ns[i];
      const int64_t end_ns = EndOf(start_ns, batch.duration_ns[i]);
      const std::optional<int64_t> cut_ns =
          cuts.empty() ? std::nullopt : cuts.CutOf(batch.thread, start_ns, end_ns);
      if (!folds.empty() && folds[i] != 0) thread.FoldPrevious(start_ns, cut_ns, names[i]);
      if (cut_ns.has_value()) {
        thread.EndCutRange(start_ns, *cut_ns, names[i]);
      } else {
        thread.EndRange(start_ns, end_ns, names[i], batch.depth[i] == 0, paths_);
      }
    }
    return absl::OkStatus();
  }));
  for (std::optional<ThreadPaths>& thread : threads) {
    if (thread.has_value()) thread->Resolve(paths_);
  }
  return absl::OkStatus();
}

}  // namespace profd::report
