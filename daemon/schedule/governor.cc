#include "daemon/schedule/governor.h"

#include <algorithm>

namespace profd {

Governor::Governor(int64_t level, int64_t skips_left)
    : level_(std::clamp<int64_t>(level, 0, kMaxLevel)),
      skips_left_(std::clamp<int64_t>(skips_left, 0, int64_t{1} << (kMaxLevel - 1))) {}

void Governor::Judge(std::optional<double> slowdown, double max_slowdown) {
  unjudged_.clear();
  if (!slowdown.has_value()) return;
  if (max_slowdown <= 0 || *slowdown <= max_slowdown) {
    level_ = 0;
    skips_left_ = 0;
    return;
  }
  level_ = std::min(level_ + 1, kMaxLevel);
  skips_left_ = int64_t{1} << (level_ - 1);
}

bool Governor::Skip() {
  if (skips_left_ == 0) return false;
  --skips_left_;
  return true;
}

std::optional<double> SlowdownOf(const CaptureRecord& record) {
  if (record.step_before_ns <= 0) return std::nullopt;
  const int64_t worst = std::max(record.step_during_ns, record.step_after_ns);
  if (worst <= 0) return std::nullopt;
  return static_cast<double>(worst) / static_cast<double>(record.step_before_ns) - 1;
}

}  // namespace profd
