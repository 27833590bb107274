#include "daemon/ingest/status_page_view.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <new>
#include <optional>
#include <utility>

#include "daemon/base/median.h"
#include "daemon/base/status_macros.h"
#include "daemon/ingest/decode/untrusted_values.h"

namespace profd {
namespace {

constexpr double kNsInSecond = 1e9;
// No mark for this many steps' time: the rate says nothing about now.
constexpr double kStaleSteps = 10;
constexpr double kStaleNs = 10 * kNsInSecond;

// The mark of `step`, unless it is being written or is another step's by now.
std::optional<uint64_t> ReadTicks(const wire::StatusStep& slot, int64_t step) {
  const auto wanted = static_cast<uint64_t>(step) + 1;
  // The target may overwrite the slot at any time. The number is read before and after the ticks:
  // if it is the same, they belong together.
  if (slot.step_plus_1.load(std::memory_order_acquire) != wanted) return std::nullopt;
  const uint64_t ticks = slot.ticks.load(std::memory_order_acquire);
  if (slot.step_plus_1.load(std::memory_order_acquire) != wanted) return std::nullopt;
  return ticks;
}

int64_t LengthNs(double ns_per_tick, uint64_t start_ticks, uint64_t end_ticks) {
  return llrint(static_cast<double>(end_ticks - start_ticks) * ns_per_tick);
}

// Of the steps in [first_step, end_step).
template <typename Mark>
std::vector<int64_t> LengthsOf(double ns_per_tick, const std::vector<Mark>& marks,
                               int64_t first_step, int64_t end_step) {
  std::vector<int64_t> lengths;
  for (size_t i = 1; i < marks.size(); ++i) {
    const Mark& start = marks[i - 1];
    if (start.step < first_step || start.step >= end_step) continue;
    lengths.push_back(LengthNs(ns_per_tick, start.ticks, marks[i].ticks));
  }
  return lengths;
}

}  // namespace

absl::StatusOr<StatusPageView> StatusPageView::Create(uint64_t step_mark_count,
                                                      const TickClock& clock) {
  ASSIGN_OR_RETURN(MappedMemfd memory, MappedMemfd::Create("profd-status", wire::kStatusPageBytes));
  if (!memory.Allocate(0, wire::kStatusPageBytes)) {
    return absl::ResourceExhaustedError("no memory left for a status page on this node");
  }
  StatusPageView view(std::move(memory), clock);
  view.page_->step_mark_count.store(std::min(step_mark_count, kMaxUntrustedCount),
                                    std::memory_order_relaxed);
  return view;
}

StatusPageView::StatusPageView(MappedMemfd memory, const TickClock& clock)
    : memory_(std::move(memory)), page_(new (memory_.data()) wire::StatusPage{}), clock_(&clock) {
  page_->magic = wire::kStatusPageMagic;
  page_->version = wire::kStatusPageVersion;
}

void StatusPageView::Read(double ns_per_tick, TargetInfo& info) const {
  info.step_mark_count = ReadCount(page_->step_mark_count);
  info.current_step = info.step_mark_count - 1;
  info.foreign_step_mark_count = ReadCount(page_->foreign_step_mark_count);
  info.dropped_event_count = ReadCount(page_->dropped_event_count);
  info.batch_count = ReadCount(page_->batch_count);
  info.step_source = ReadSource();
  ReadPace(ns_per_tick, info);
}

StepSource StatusPageView::ReadSource() const {
  const uint32_t source = page_->step_source.load(std::memory_order_relaxed);
  // Sources to come are not known.
  return source <= wire::kMaxStepSource ? static_cast<StepSource>(source) : StepSource::kNone;
}

std::vector<StatusPageView::Mark> StatusPageView::ReadMarks() const {
  const int64_t count = ReadCount(page_->step_mark_count);
  const uint64_t now = clock_->Now();
  std::vector<Mark> marks;  // Newest first.
  marks.reserve(wire::kStatusPageSteps);
  for (int64_t step = count - 1; step >= std::max<int64_t>(0, count - wire::kStatusPageSteps);
       --step) {
    const auto ticks = ReadTicks(page_->steps[step % wire::kStatusPageSteps], step);
    const uint64_t latest = marks.empty() ? now : marks.back().ticks;
    // The length of a step needs both of its marks, so the run ends at the first mark that is not
    // there or cannot be true.
    if (!ticks.has_value() || *ticks > latest) break;
    marks.push_back({step, *ticks});
  }
  std::reverse(marks.begin(), marks.end());
  return marks;
}

void StatusPageView::ReadPace(double ns_per_tick, TargetInfo& info) const {
  const std::vector<Mark> marks = ReadMarks();
  if (marks.empty()) return;
  const double idle_ns = static_cast<double>(clock_->Now() - marks.back().ticks) * ns_per_tick;
  info.since_last_step_ns = llrint(idle_ns);
  std::vector<int64_t> lengths = LengthsOf(ns_per_tick, marks, 0, INT64_MAX);
  if (lengths.empty()) return;
  info.median_step_ns = Median(lengths);
  const double span_ns =
      static_cast<double>(marks.back().ticks - marks.front().ticks) * ns_per_tick;
  if (span_ns <= 0) return;
  const double step_ns = span_ns / static_cast<double>(marks.size() - 1);
  if (idle_ns > std::max(kStaleNs, kStaleSteps * step_ns)) return;
  info.steps_per_second = kNsInSecond / step_ns;
}

int64_t StatusPageView::MedianStepNs(double ns_per_tick, int64_t first_step,
                                     int64_t end_step) const {
  std::vector<int64_t> lengths = LengthsOf(ns_per_tick, ReadMarks(), first_step, end_step);
  return lengths.empty() ? 0 : Median(lengths);
}

RecentSteps StatusPageView::GetRecentSteps(double ns_per_tick) const {
  RecentSteps recent = {
      .source = ReadSource(), .current_step = ReadCount(page_->step_mark_count) - 1, .steps = {}};
  const int64_t first_of_source = ReadCount(page_->source_first_step);
  const std::vector<Mark> marks = ReadMarks();
  if (!marks.empty()) {  // Of one moment, though the target goes on.
    recent.current_step = marks.back().step;
    recent.since_current_ns = LengthNs(ns_per_tick, marks.back().ticks, clock_->Now());
  }
  for (size_t i = 1; i < marks.size(); ++i) {
    const Mark& start = marks[i - 1];
    if (start.step < first_of_source) continue;
    recent.steps.push_back(
        {.step = start.step, .duration_ns = LengthNs(ns_per_tick, start.ticks, marks[i].ticks)});
  }
  return recent;
}

}  // namespace profd
