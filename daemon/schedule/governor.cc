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

}  // namespace profd
