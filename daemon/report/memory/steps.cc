#include "daemon/report/memory/steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "daemon/base/median.h"
#include "daemon/report/index/end_of.h"
#include "daemon/report/index/step_lookup.h"
#include "daemon/report/index/wrapping_math.h"

namespace profd::report {
namespace {

// Pairs of steps are compared, so more would take long; then every second, third, ... step is.
constexpr size_t kMostStepsCompared = 1024;

int64_t RoundedMedian(std::vector<double>& values) {
  constexpr double kMost = 9e18;
  return std::llround(std::clamp(Median(values), -kMost, kMost));
}

}  // namespace

void MemorySteps::Add(const MemoryEvent& event, const MemoryTracker& tracker) {
  AdvanceTo(event.time_ns);
  level_ = tracker.allocated_bytes();
  reserved_ = tracker.reserved_bytes();
  if (!in_step_) return;
  MemoryStepRow& row = rows_.back();
  row.end_bytes = level_;
  row.lowest_bytes = std::min(row.lowest_bytes, level_);
  row.peak_bytes = std::max(row.peak_bytes, level_);
  row.peak_reserved_bytes = std::max(row.peak_reserved_bytes, reserved_);
  if (event.is_free) return;
  ++row.allocation_count;
  row.allocated_total_bytes = Sum(row.allocated_total_bytes, event.bytes);
}

void MemorySteps::AdvanceTo(int64_t time_ns) {
  const auto end_of = [](const StepRecord& step) { return EndOf(step.start_ns, step.duration_ns); };
  while (rows_.size() < steps_.size() && steps_[rows_.size()].start_ns <= time_ns) Begin();
  if (in_step_ && end_of(steps_[rows_.size() - 1]) <= time_ns) in_step_ = false;
}

void MemorySteps::Begin() {
  rows_.push_back({.step = steps_[rows_.size()].index,
                   .start_bytes = level_,
                   .end_bytes = level_,
                   .lowest_bytes = level_,
                   .peak_bytes = level_,
                   .peak_reserved_bytes = reserved_});
  in_step_ = true;
}

void MemorySteps::Shift(int64_t bytes) {
  level_ = Sum(level_, bytes);
  for (MemoryStepRow& row : rows_) {
    for (int64_t* level : {&row.start_bytes, &row.end_bytes, &row.lowest_bytes, &row.peak_bytes}) {
      *level = Sum(*level, bytes);
    }
  }
}

std::vector<MemoryStepRow> MemorySteps::Take(const std::vector<TrackedBlock>& live) {
  AdvanceTo(std::numeric_limits<int64_t>::max());
  StepLookup lookup(steps_);
  for (const TrackedBlock& block : live) {
    const size_t position = lookup.PositionAt(block.time_ns);
    if (position >= rows_.size()) continue;
    rows_[position].kept_bytes = Sum(rows_[position].kept_bytes, block.bytes);
    ++rows_[position].kept_blocks;
  }
  if (!rows_.empty() && rows_.size() == steps_.size()) {
    rows_.back().kept_bytes = -1;
    rows_.back().kept_blocks = -1;
  }
  return std::move(rows_);
}

MemoryGrowth GrowthOf(std::span<const MemoryStepRow> steps) {
  MemoryGrowth growth;
  growth.step_count = static_cast<int64_t>(steps.size());
  if (growth.step_count < MemoryGrowth::kFewestSteps) return growth;
  growth.never_falls = true;
  for (size_t i = 1; i < steps.size(); ++i) {
    growth.rising_count += steps[i].end_bytes > steps[i - 1].end_bytes ? 1 : 0;
    growth.never_falls = growth.never_falls && steps[i].end_bytes >= steps[i - 1].end_bytes;
  }
  // The first step may hold more: what it warms up with.
  const int64_t begin_bytes = std::min(steps[0].end_bytes, steps[1].end_bytes);
  growth.net_bytes = Difference(steps.back().end_bytes, begin_bytes);
  int64_t highest = begin_bytes;
  for (const MemoryStepRow& step : steps.subspan(1)) {
    if (step.end_bytes > highest) {
      growth.longest_pause_steps = std::max(growth.longest_pause_steps, growth.steps_since_rise);
      growth.steps_since_rise = 0;
    } else {
      ++growth.steps_since_rise;
    }
    highest = std::max(highest, step.end_bytes);
    growth.deepest_fall_bytes =
        std::max(growth.deepest_fall_bytes, Difference(highest, step.end_bytes));
  }
  const size_t stride = (steps.size() + kMostStepsCompared - 1) / kMostStepsCompared;
  std::vector<double> slopes;
  for (size_t i = 0; i < steps.size(); i += stride) {
    for (size_t j = i + stride; j < steps.size(); j += stride) {
      slopes.push_back(
          (static_cast<double>(steps[j].end_bytes) - static_cast<double>(steps[i].end_bytes)) /
          static_cast<double>(j - i));
    }
  }
  growth.bytes_per_step = RoundedMedian(slopes);
  return growth;
}

}  // namespace profd::report
