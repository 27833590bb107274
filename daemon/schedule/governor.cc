#include "daemon/schedule/governor.h"

#include <algorithm>
#include <utility>

namespace profd {

Governor::Governor(int64_t level, int64_t skips_left)
    : level_(std::clamp<int64_t>(level, 0, kMaxLevel)),
      skips_left_(std::clamp<int64_t>(skips_left, 0, int64_t{1} << (kMaxLevel - 1))) {}

void Governor::Captured(std::string capture_id) {
  if (unjudged_.size() == kMaxUnjudged) unjudged_.erase(unjudged_.begin());
  unjudged_.push_back(std::move(capture_id));
}

void Governor::Judge(std::optional<double> slowdown, double max_slowdown, bool together) {
  if (!unjudged_.empty()) unjudged_.erase(unjudged_.begin());
  if (!slowdown.has_value()) return;
  if (max_slowdown <= 0 || *slowdown <= max_slowdown) {
    level_ = 0;
    skips_left_ = 0;
    is_suspect_ = false;
    return;
  }
  if (together && level_ == 0 && !std::exchange(is_suspect_, true)) return;
  is_suspect_ = false;
  level_ = std::min(level_ + 1, kMaxLevel);
  skips_left_ = together ? 0 : int64_t{1} << (level_ - 1);
}

bool Governor::SkipsTogether(int64_t window_number) const {
  return window_number % one_window_in() != 0;
}

bool Governor::Skip() {
  if (skips_left_ == 0) return false;
  --skips_left_;
  return true;
}

}  // namespace profd
