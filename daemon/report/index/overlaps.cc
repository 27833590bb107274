#include "daemon/report/index/overlaps.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/report/index/end_of.h"

namespace profd::report {
namespace {

// As client_lib/core/recorder.cc and CaptureBuilder::LaneFor() name lanes.
constexpr std::string_view kLaneName = "overlapping ranges of ";

// The OS thread that a lane belongs to; 0: its name does not give it.
int64_t OwnerOf(const store::ReaderThread& lane) {
  const std::string_view name = lane.name;
  if (!name.starts_with(kLaneName)) return 0;
  const std::string_view digits = name.substr(kLaneName.size());
  uint32_t owner = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), owner);
  return error == std::errc() && end == digits.end() ? owner : 0;
}

// The ranges of each thread that is in a group; of others 0.
absl::StatusOr<std::vector<size_t>> CountRanges(store::CaptureReader& reader,
                                                std::span<const uint32_t> groups) {
  std::vector<size_t> counts(groups.size());
  RETURN_IF_ERROR(reader.ForEach<RangeRow>(kRangeStart, {}, [&](const RangeBatch& batch) {
    if (groups[batch.thread] != kNoOverlaps) counts[batch.thread] += batch.size;
    return absl::OkStatus();
  }));
  return counts;
}

bool IsPython(const RangeBatch& batch, size_t i) {
  return batch.category[i] == static_cast<uint8_t>(wire::RangeCategory::kPython);
}

}  // namespace

std::vector<uint32_t> OverlapGroups(std::span<const store::ReaderThread> threads) {
  absl::flat_hash_map<int64_t, uint32_t> by_owner;
  for (const store::ReaderThread& thread : threads) {
    if (!IsLane(thread)) continue;
    if (const int64_t owner = OwnerOf(thread); owner != 0) {
      by_owner.try_emplace(owner, static_cast<uint32_t>(by_owner.size()));
    }
  }
  std::vector<uint32_t> groups(threads.size(), kNoOverlaps);
  for (size_t i = 0; i < threads.size(); ++i) {
    const auto found =
        by_owner.find(IsLane(threads[i]) ? OwnerOf(threads[i]) : threads[i].os_thread);
    if (found != by_owner.end()) groups[i] = found->second;
  }
  return groups;
}

absl::StatusOr<OverlapSelfTimes> OverlapSelfTimes::Build(
    store::CaptureReader& reader, std::span<const GpuAttribution::Call> calls,
    int64_t most_ranges) {
  OverlapSelfTimes times;
  times.groups_ = OverlapGroups(reader.threads());
  for (const uint32_t group : times.groups_) {
    if (group != kNoOverlaps) times.group_count_ = std::max(times.group_count_, group + 1);
  }
  if (times.empty()) return times;
  ASSIGN_OR_RETURN(const std::vector<size_t> counts, CountRanges(reader, times.groups_));
  std::vector<size_t> sizes(times.group_count_);
  for (size_t thread = 0; thread < counts.size(); ++thread) {
    if (times.Has(static_cast<uint32_t>(thread))) sizes[times.groups_[thread]] += counts[thread];
  }
  for (const GpuAttribution::Call& call : calls) {
    if (times.Has(call.thread)) ++sizes[times.groups_[call.thread]];
  }
  if (std::accumulate(sizes.begin(), sizes.end(), size_t{0}) > static_cast<size_t>(most_ranges)) {
    times.group_count_ = 0;
    times.is_too_much_ = true;
    return times;
  }
  std::vector<std::vector<Piece>> pieces(times.group_count_);
  for (size_t group = 0; group < pieces.size(); ++group) pieces[group].reserve(sizes[group]);
  times.of_ranges_.resize(times.groups_.size());
  for (size_t thread = 0; thread < counts.size(); ++thread) {
    times.of_ranges_[thread].reserve(counts[thread]);
  }
  times.next_.resize(times.groups_.size());
  RETURN_IF_ERROR(reader.ForEach<RangeRow>(
      kRangeStart | kRangeDuration | kRangeCategory, {}, [&](const RangeBatch& batch) {
        if (!times.Has(batch.thread)) return absl::OkStatus();
        std::vector<uint64_t>& self = times.of_ranges_[batch.thread];
        for (size_t i = 0; i < batch.size; ++i) {
          const auto index = static_cast<uint32_t>(self.size());
          self.push_back(0);
          if (IsPython(batch, i)) continue;
          pieces[times.groups_[batch.thread]].push_back(
              {batch.start_ns[i], EndOf(batch.start_ns[i], batch.duration_ns[i]), batch.thread,
               index});
        }
        return absl::OkStatus();
      }));
  times.of_calls_.resize(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!times.Has(calls[i].thread)) continue;
    pieces[times.groups_[calls[i].thread]].push_back(
        {calls[i].start_ns, calls[i].end_ns, kCall, static_cast<uint32_t>(i)});
  }
  for (std::vector<Piece>& of_group : pieces) {
    times.Sweep(of_group);
    of_group = {};
  }
  return times;
}

void OverlapSelfTimes::Sweep(std::vector<Piece>& pieces) {
  // Of those that begin together the longest first. Rows come in the order of their ends, so of
  // equal ones the last is the outermost.
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return std::tuple(a.start_ns, b.end_ns, a.thread == kCall, b.index, a.thread) <
           std::tuple(b.start_ns, a.end_ns, b.thread == kCall, a.index, b.thread);
  });
  std::vector<size_t> open;  // By begin. Those that have ended leave once they are the last.
  int64_t now_ns = std::numeric_limits<int64_t>::min();
  const auto advance = [&](int64_t until_ns) {
    while (!open.empty() && now_ns < until_ns) {
      const Piece& last = pieces[open.back()];
      const int64_t to_ns = std::min(last.end_ns, until_ns);
      if (to_ns > now_ns) {
        const uint64_t took = static_cast<uint64_t>(to_ns) - static_cast<uint64_t>(now_ns);
        (last.thread == kCall ? of_calls_[last.index] : of_ranges_[last.thread][last.index]) +=
            took;
        now_ns = to_ns;
      }
      if (last.end_ns <= now_ns) open.pop_back();
    }
    now_ns = std::max(now_ns, until_ns);
  };
  for (size_t i = 0; i < pieces.size(); ++i) {
    advance(pieces[i].start_ns);
    open.push_back(i);
  }
  advance(std::numeric_limits<int64_t>::max());
}

void OverlapSelfTimes::Next(const RangeBatch& batch, std::span<uint64_t> self) {
  const std::vector<uint64_t>& all = of_ranges_[batch.thread];
  size_t& next = next_[batch.thread];
  for (size_t i = 0; i < batch.size; ++i) self[i] = all[next++];
}

absl::StatusOr<RowDepths> RowDepths::Build(store::CaptureReader& reader, int64_t most_ranges) {
  RowDepths depths;
  std::vector<uint32_t> groups = OverlapGroups(reader.threads());
  if (std::ranges::all_of(groups, [](uint32_t group) { return group == kNoOverlaps; })) {
    return depths;
  }
  ASSIGN_OR_RETURN(const std::vector<size_t> counts, CountRanges(reader, groups));
  if (std::accumulate(counts.begin(), counts.end(), size_t{0}) > static_cast<size_t>(most_ranges)) {
    return depths;
  }
  struct Range {
    int64_t start_ns;
    int64_t end_ns;
    size_t index;
  };
  std::vector<std::vector<Range>> ranges(groups.size());
  for (size_t thread = 0; thread < ranges.size(); ++thread) ranges[thread].reserve(counts[thread]);
  RETURN_IF_ERROR(
      reader.ForEach<RangeRow>(kRangeStart | kRangeDuration, {}, [&](const RangeBatch& batch) {
        if (groups[batch.thread] == kNoOverlaps) return absl::OkStatus();
        std::vector<Range>& of_thread = ranges[batch.thread];
        for (size_t i = 0; i < batch.size; ++i) {
          of_thread.push_back({batch.start_ns[i], EndOf(batch.start_ns[i], batch.duration_ns[i]),
                               of_thread.size()});
        }
        return absl::OkStatus();
      }));
  depths.groups_ = std::move(groups);
  depths.depths_.resize(ranges.size());
  depths.next_.resize(ranges.size());
  for (size_t thread = 0; thread < ranges.size(); ++thread) {
    std::vector<Range>& of_thread = ranges[thread];
    // As in OverlapSelfTimes.
    std::sort(of_thread.begin(), of_thread.end(), [](const Range& a, const Range& b) {
      return std::tuple(a.start_ns, b.end_ns, b.index) < std::tuple(b.start_ns, a.end_ns, a.index);
    });
    depths.depths_[thread].resize(of_thread.size());
    std::vector<const Range*> open;
    for (const Range& range : of_thread) {
      // One that comes first in the file has ended, also where it ends as this one begins.
      while (!open.empty() &&
             (open.back()->end_ns < range.start_ns ||
              (open.back()->end_ns == range.start_ns && open.back()->index < range.index))) {
        open.pop_back();
      }
      depths.depths_[thread][range.index] = static_cast<uint16_t>(
          std::min<size_t>(open.size(), std::numeric_limits<uint16_t>::max()));
      open.push_back(&range);
    }
    of_thread = {};
  }
  return depths;
}

std::span<const uint16_t> RowDepths::Next(const RangeBatch& batch) {
  if (groups_.empty() || groups_[batch.thread] == kNoOverlaps) return batch.depth;
  const std::span<const uint16_t> all = depths_[batch.thread];
  return all.subspan(std::exchange(next_[batch.thread], next_[batch.thread] + batch.size),
                     batch.size);
}

}  // namespace profd::report
