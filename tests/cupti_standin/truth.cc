#include <algorithm>

#include "tests/cupti_standin/settings.h"
#include "tests/cupti_standin/work.h"

namespace sgpu {

uint32_t Truth::Add(const sgpu_truth_rec& record) {
  if (settings().truth.load(std::memory_order_relaxed) == 0) return kNoTruth;
  const std::lock_guard lock(mu_);
  records_.push_back(record);
  return cleared_ + static_cast<uint32_t>(records_.size()) - 1;
}

void Truth::SetFate(uint32_t index, sgpu_fate fate) {
  if (index == kNoTruth) return;
  const std::lock_guard lock(mu_);
  if (index >= cleared_) records_[index - cleared_].fate = fate;
}

void Truth::SetTimes(uint32_t index, uint64_t start_ns, uint64_t end_ns) {
  if (index == kNoTruth) return;
  const std::lock_guard lock(mu_);
  if (index < cleared_) return;
  records_[index - cleared_].start_ns = start_ns;
  records_[index - cleared_].end_ns = end_ns;
}

uint32_t Truth::Copy(sgpu_truth_rec* out, uint32_t max) {
  const std::lock_guard lock(mu_);
  const auto count = static_cast<uint32_t>(records_.size());
  if (out != nullptr) std::copy_n(records_.begin(), std::min(count, max), out);
  return count;
}

void Truth::Clear() {
  const std::lock_guard lock(mu_);
  cleared_ += static_cast<uint32_t>(records_.size());
  records_.clear();
}

Truth& truth() {
  static Truth* const truth = new Truth;
  return *truth;
}

}  // namespace sgpu
