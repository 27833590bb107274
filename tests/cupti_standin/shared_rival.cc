#include "tests/cupti_standin/shared_rival.h"

#include "tests/cupti_standin/records.h"

namespace sgpu {

SharedRival& shared_rival() {
  static SharedRival* const rival = new SharedRival;
  return *rival;
}

uint64_t SharedRival::kinds() const { return IsJoined() ? 1ULL << kRuntime | 1ULL << kKernel : 0; }

void SharedRival::NoteCall(uint32_t domain) {
  if (!IsJoined() || domain != SGPU_DOMAIN_RUNTIME) return;
  const std::lock_guard lock(mu_);
  ++records_;
}

void SharedRival::NoteWork(uint32_t kind, uint64_t end_ns) {
  if (!IsJoined() || kind != kKernel) return;
  const std::lock_guard lock(mu_);
  ++records_;
  running_.push_back(end_ns);
}

void SharedRival::Flush(bool is_forced, uint64_t now_ns) {
  const std::lock_guard lock(mu_);
  std::erase_if(running_, [now_ns](uint64_t end_ns) { return end_ns <= now_ns; });
  if (!is_forced) return;
  unfinished_ += running_.size();
  running_.clear();
}

void SharedRival::Reset() {
  is_joined_ = false;
  const std::lock_guard lock(mu_);
  running_.clear();
  records_ = unfinished_ = 0;
}

void SharedRival::AddTo(sgpu_stats_rec& stats) {
  const std::lock_guard lock(mu_);
  stats.rival_records = records_;
  stats.rival_unfinished = unfinished_;
}

}  // namespace sgpu
