#include "daemon/check/chrome_timeline.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>

#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::check {
namespace {

// What a row and a name cost besides their slices.
constexpr size_t kRowBytes = 2048;
constexpr size_t kNameBytes = 128;
constexpr size_t kMostQuotedNameBytes = 120;

std::pair<int64_t, int64_t> PlaceOf(const ChromeEvent& event) {
  return {event.pid.value, event.tid.value};
}

uint64_t FlowKey(const ChromeEvent& event) {
  const std::hash<std::string_view> hash;
  constexpr uint64_t kSpread = 0x9E3779B97F4A7C15;
  // Viewers connect ends of the same id, category, and name. The constant is 2^64 divided by the
  // golden ratio; the product spreads ids that are close to each other.
  uint64_t key = static_cast<uint64_t>(event.id.value) * kSpread;
  key = (key ^ hash(event.category)) * kSpread;
  return (key ^ hash(event.name)) * kSpread;
}

}  // namespace

bool ChromeTimeline::Take(size_t bytes) {
  whole_ = whole_ && taken_bytes_ + bytes <= max_bytes_;
  if (whole_) taken_bytes_ += bytes;
  return whole_;
}

ChromeTimeline::Row& ChromeTimeline::RowOf(const ChromeEvent& event) {
  const auto place = PlaceOf(event);
  const auto found = row_of_.find(place);
  if (found != row_of_.end()) return rows_[found->second];
  // Where rows alone are too many, the rest shares one.
  if (!rows_.empty() && !Take(kRowBytes)) return rows_.front();
  row_of_.emplace(place, rows_.size());
  rows_.push_back(
      {.pid = place.first, .tid = place.second, .slices = {}, .flows = {}, .halves = {}});
  return rows_.back();
}

uint32_t ChromeTimeline::NameOf(std::string_view name) {
  const std::string kept = ForDisplay(name, kMostQuotedNameBytes);
  const auto found = name_of_.find(kept);
  if (found != name_of_.end()) return found->second;
  if (!Take(kNameBytes + 3 * kept.size())) return 0;
  names_.push_back(kept);
  const auto number = static_cast<uint32_t>(names_.size() - 1);
  name_of_.emplace(kept, number);
  return number;
}

void ChromeTimeline::AddSlice(const ChromeEvent& event) {
  Row& row = RowOf(event);
  if (!Take(sizeof(Slice))) return;
  row.slices.push_back({event.time.ns, event.time.ns + std::max<int64_t>(event.duration.ns, 0),
                        event.number, NameOf(event.name)});
}

void ChromeTimeline::AddHalf(const ChromeEvent& event) {
  Row& row = RowOf(event);
  if (Take(sizeof(Half))) row.halves.push_back({event.time.ns, event.phase == 'E'});
}

void ChromeTimeline::AddFlow(const ChromeEvent& event) {
  // What binds to the next slice needs none around it.
  const bool needs_slice = event.phase == 's' || event.binds_enclosing;
  Row& row = RowOf(event);
  if (!Take(sizeof(FlowEnd) + (needs_slice ? sizeof(row.flows[0]) : 0))) return;
  if (needs_slice) row.flows.push_back({event.time.ns, event.number});
  flows_.push_back({FlowKey(event), event.time.ns, event.number, event.phase});
}

void ChromeTimeline::Correlate(const ChromeEvent& event, bool is_work) {
  if (!event.correlation.has_value() || *event.correlation <= 0) return;
  if (Take(sizeof(Correlated))) {
    correlated_.push_back({*event.correlation, event.time.ns, is_work});
  }
}

void ChromeTimeline::AddCall(const ChromeEvent& event) {
  Correlate(event, false);
  // Two are enough to know that there are several.
  if (callers_.size() < 2) callers_.insert(event.pid.value);
}

void ChromeTimeline::AddWork(const ChromeEvent& event) { Correlate(event, true); }

void ChromeTimeline::Judge() {
  for (Row& row : rows_) JudgeNesting(row);
  // Else the slice of an arrow's end, its other end, the call of a work, or the E of a B may be
  // among what was left out.
  if (!whole_) return;
  for (Row& row : rows_) {
    JudgeHalves(row);
    JudgeArrowEnds(row);
  }
  JudgeFlows();
  if (!has_several_callers()) JudgeLaunches();
}

void ChromeTimeline::JudgeNesting(Row& row) {
  // By start, the longer one first, so that an outer slice comes before those that begin with it.
  // Then one stack finds all that do not nest, in O(n log n).
  std::sort(row.slices.begin(), row.slices.end(), [](const Slice& a, const Slice& b) {
    return std::tuple(a.start_ns, b.end_ns, a.event) < std::tuple(b.start_ns, a.end_ns, b.event);
  });
  std::vector<const Slice*> open;
  for (const Slice& slice : row.slices) {
    while (!open.empty() && open.back()->end_ns <= slice.start_ns) open.pop_back();
    if (!open.empty() && open.back()->end_ns < slice.end_ns) {
      log_.Add(Rule::kNesting, "\"", names_[slice.name], "\" (event ", slice.event,
               ") begins inside \"", names_[open.back()->name], "\" (event ", open.back()->event,
               ") and ends ", slice.end_ns - open.back()->end_ns, " ns after it, on row ", row.tid,
               " of process ", row.pid);
      continue;  // Readers put it elsewhere: what follows is held against the others.
    }
    open.push_back(&slice);
  }
}

void ChromeTimeline::JudgeHalves(Row& row) {
  const auto ends = std::ranges::count(row.halves, true, &Half::is_end);
  const int64_t unpaired = std::ssize(row.halves) - 2 * ends;
  if (unpaired != 0) {
    log_.AddMany(Rule::kBeginEnd, std::abs(unpaired),
                 StrCat("row ", row.tid, " of process ", row.pid, " has ", std::abs(unpaired),
                        " more ", unpaired > 0 ? "B than E" : "E than B"));
  }
}

// By sweeping over the slices, which are sorted.
void ChromeTimeline::JudgeArrowEnds(Row& row) const {
  if (row.flows.empty()) return;
  std::sort(row.flows.begin(), row.flows.end());
  // Of events at one time, a begin comes first: an arrow may end where its slice does.
  std::ranges::sort(row.halves, {},
                    [](const Half& half) { return std::tuple(half.time_ns, half.is_end); });
  int64_t depth = 0;
  for (const Half& half : row.halves) {
    depth += half.is_end ? -1 : 1;
    if (depth < 0) return;  // Which slice it ends is unknown.
  }
  if (depth != 0) return;
  auto slice = row.slices.cbegin();
  auto half = row.halves.cbegin();
  int64_t covered_until_ns = std::numeric_limits<int64_t>::min();
  for (const auto& [time_ns, event] : row.flows) {
    for (; slice != row.slices.cend() && slice->start_ns <= time_ns; ++slice) {
      covered_until_ns = std::max(covered_until_ns, slice->end_ns);
    }
    for (; half != row.halves.cend() && half->time_ns <= time_ns; ++half) {
      depth += half->is_end ? -1 : 1;
      if (depth == 0) covered_until_ns = std::max(covered_until_ns, half->time_ns);
    }
    if (depth == 0 && covered_until_ns < time_ns) {
      log_.Add(Rule::kFlowNowhere, "the arrow's end that is event ", event,
               " is in no slice of row ", row.tid, " of process ", row.pid);
    }
  }
}

void ChromeTimeline::JudgeFlows() {
  // Of ends at one time, the last step of an arrow (phase f) comes after the others.
  std::sort(flows_.begin(), flows_.end(), [](const FlowEnd& a, const FlowEnd& b) {
    return std::tuple(a.key, a.time_ns, a.phase == 'f', a.event) <
           std::tuple(b.key, b.time_ns, b.phase == 'f', b.event);
  });
  for (auto first = flows_.cbegin(); first != flows_.cend();) {
    const auto last = std::find_if(first, flows_.cend(),
                                   [&](const FlowEnd& end) { return end.key != first->key; });
    JudgeFlow(first, last);
    first = last;
  }
}

void ChromeTimeline::JudgeFlow(const std::deque<FlowEnd>::const_iterator& first,
                               const std::deque<FlowEnd>::const_iterator& last) {
  const auto begin = std::find_if(first, last, [](const FlowEnd& end) { return end.phase == 's'; });
  for (auto end = first; end != begin; ++end) {
    if (begin == last) {
      log_.Add(Rule::kFlowStart, "event ", end->event, " ends an arrow that begins nowhere");
    } else {
      log_.Add(Rule::kFlowBackwards, "event ", end->event, " ends an arrow ",
               begin->time_ns - end->time_ns, " ns before event ", begin->event, " begins it");
    }
  }
  // From one begin to the next, or to the last.
  for (auto start = begin; start != last;) {
    const auto next =
        std::find_if(std::next(start), last, [](const FlowEnd& end) { return end.phase == 's'; });
    if (std::next(start) == next) {
      log_.Add(Rule::kFlowEnd, "event ", start->event, " begins an arrow that ends nowhere");
    }
    start = next;
  }
}

void ChromeTimeline::JudgeLaunches() {
  std::sort(correlated_.begin(), correlated_.end(), [](const Correlated& a, const Correlated& b) {
    return std::tuple(a.correlation, a.is_work, a.time_ns) <
           std::tuple(b.correlation, b.is_work, b.time_ns);
  });
  for (auto first = correlated_.cbegin(); first != correlated_.cend();) {
    const auto last = std::find_if(first, correlated_.cend(), [&](const Correlated& one) {
      return one.correlation != first->correlation;
    });
    JudgeCorrelation(first, last);
    first = last;
  }
}

// Calls, then work, each by time.
void ChromeTimeline::JudgeCorrelation(const std::deque<Correlated>::const_iterator& first,
                                      const std::deque<Correlated>::const_iterator& last) {
  const auto work = std::find_if(first, last, [](const Correlated& one) { return one.is_work; });
  if (work == last) return;
  const int64_t correlation = first->correlation;
  if (first == work) {
    log_.AddMany(Rule::kWorkWithoutLaunch, last - work,
                 StrCat("no call has the correlation ", correlation));
    return;
  }
  if (work->time_ns < first->time_ns) {
    log_.Add(Rule::kLaunchAfterWork, "the work of correlation ", correlation, " begins ",
             first->time_ns - work->time_ns, " ns before its call");
  }
  if (last - work > 1) {
    log_.Add(Rule::kGraphLaunch, "the call of correlation ", correlation, " launched ", last - work,
             " pieces of work");
  }
}

}  // namespace profd::check
