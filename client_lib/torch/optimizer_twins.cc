#include "client_lib/torch/optimizer_twins.h"

namespace profd::client::torch {
namespace {

// Of an optimizer's name and its work; never OptimizerTwins::kNobody.
uint64_t KeyOf(uint64_t name, uint64_t nodes) {
  const uint64_t mixed = (name ^ nodes * 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
  return (mixed ^ mixed >> 31) | 1;
}

}  // namespace

uint64_t OptimizerTwins::IdentityOf(uint64_t name, uint64_t nodes, uint32_t count) {
  const uint64_t key = KeyOf(name, nodes);
  keys_[seen_ % kKept] = key;
  names_[seen_ % kKept] = name;
  ++seen_;
  ++calls_;
  if (!is_split_) Consider(name, count);
  return is_split_ ? SplitIdentity(key) : name;
}

bool OptimizerTwins::TakeQuestion() {
  const bool is_question = is_question_;
  is_question_ = false;
  return is_question;
}

void OptimizerTwins::Forget() {
  if (!is_split_) seen_ = 0;
}

void OptimizerTwins::Consider(uint64_t name, uint32_t count) {
  if (are_several_) return SplitAtPeriod();
  const bool may_ask = question_count_ < kMostQuestions && calls_ >= next_question_;
  if (has_asked_ ? count == kUnknownCount : !may_ask) return;
  const uint32_t period = Period();
  const uint32_t kinds = period >= 2 ? KindsOf(name, period) : 0;
  if (kinds < 2) return;
  if (!has_asked_) return Ask();
  has_asked_ = false;
  are_several_ = count >= kinds;
  if (are_several_) SplitAtPeriod();
}

void OptimizerTwins::Ask() {
  is_question_ = true;
  has_asked_ = true;
  ++question_count_;
  next_question_ = calls_ * kQuestionSpacing;
}

// At the first call of a period, as it was counted from the first call of all: so the last of a
// period is the last one that the program's loop calls.
void OptimizerTwins::SplitAtPeriod() {
  const uint32_t period = Period();
  are_several_ = period >= 2;
  if (!are_several_ || (calls_ - 1) % period != 0) return;
  are_several_ = false;
  is_split_ = true;
  misses_ = 0;
  known_count_ = period;
  for (uint32_t i = 0; i < period; ++i) known_[i] = keys_[(seen_ - 1 - i) % kKept];
}

uint64_t OptimizerTwins::SplitIdentity(uint64_t key) {
  bool is_known = false;
  for (uint32_t i = 0; i < known_count_; ++i) is_known |= known_[i] == key;
  misses_ = (misses_ << 1 | uint32_t{!is_known}) & ((1u << kKept) - 1);
  if (is_known) return key;
  if (__builtin_popcount(misses_) > static_cast<int>(kMostMisses)) {
    is_split_ = false;
    return names_[(seen_ - 1) % kKept];
  }
  return kNobody;
}

// Of all that is kept, the shortest; 0: it repeats nothing.
uint32_t OptimizerTwins::Period() const {
  if (seen_ < kKept) return 0;
  for (uint32_t period = 1; period <= kLongestPeriod; ++period) {
    bool repeats = true;
    for (uint64_t n = seen_ - kKept + period; n < seen_ && repeats; ++n) {
      repeats = keys_[n % kKept] == keys_[(n - period) % kKept];
    }
    if (repeats) return period;
  }
  return 0;
}

// Of work, that calls of `name` had in the last period.
uint32_t OptimizerTwins::KindsOf(uint64_t name, uint32_t period) const {
  uint64_t found[kLongestPeriod];
  uint32_t count = 0;
  for (uint64_t n = seen_ - period; n < seen_; ++n) {
    if (names_[n % kKept] != name) continue;
    bool is_new = true;
    for (uint32_t i = 0; i < count; ++i) is_new = is_new && found[i] != keys_[n % kKept];
    if (is_new) found[count++] = keys_[n % kKept];
  }
  return count;
}

}  // namespace profd::client::torch
