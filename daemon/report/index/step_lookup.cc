#include "daemon/report/index/step_lookup.h"

#include <algorithm>
#include <string>

#include "daemon/base/str_cat.h"

namespace profd::report {
namespace {

// "3, 4, 5" or, of many, "3 to 1002".
std::string Describe(std::span<const StepRecord> steps) {
  if (steps.empty()) return "none: it was taken by time";
  if (steps.size() > 8) return StrCat(steps.front().index, " to ", steps.back().index);
  std::string text;
  for (const StepRecord& step : steps) StrAppend(&text, text.empty() ? "" : ", ", step.index);
  return text;
}

}  // namespace

StepLookup::StepLookup(std::span<const StepRecord> steps) : steps_(steps.begin(), steps.end()) {
  std::stable_sort(steps_.begin(), steps_.end(), [](const StepRecord& a, const StepRecord& b) {
    return a.start_ns < b.start_ns;
  });
}

bool StepLookup::Contains(size_t position, int64_t time_ns) const {
  if (position >= steps_.size() || time_ns < steps_[position].start_ns) return false;
  // As unsigned, so that no number in a stranger's file can overflow.
  return static_cast<uint64_t>(time_ns) - static_cast<uint64_t>(steps_[position].start_ns) <
         static_cast<uint64_t>(steps_[position].duration_ns);
}

size_t StepLookup::PositionAt(int64_t time_ns) {
  if (Contains(last_, time_ns)) return last_;
  if (Contains(last_ + 1, time_ns)) return ++last_;
  const auto after =
      std::upper_bound(steps_.begin(), steps_.end(), time_ns,
                       [](int64_t time, const StepRecord& step) { return time < step.start_ns; });
  if (after == steps_.begin()) return kNone;
  const auto position = static_cast<size_t>(after - steps_.begin()) - 1;
  if (!Contains(position, time_ns)) return kNone;
  return last_ = position;
}

absl::StatusOr<StepRecord> StepLookup::WithIndex(int64_t index) const {
  const auto found = std::find_if(steps_.begin(), steps_.end(),
                                  [&](const StepRecord& step) { return step.index == index; });
  if (found != steps_.end()) return *found;
  return absl::InvalidArgumentError(
      StrCat("step ", index, " is not in the capture; its steps are ", Describe(steps_)));
}

}  // namespace profd::report
