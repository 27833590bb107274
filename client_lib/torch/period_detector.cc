#include "client_lib/torch/period_detector.h"

#include <string.h>

namespace profd::client::torch {

void PeriodDetector::OnBegin(uint32_t name, int64_t now_ns) {
  if (round_length_ == 0) return Keep(name, now_ns);
  names_[count_++ % kKept] = name;
  ++since_begin_;
}

bool PeriodDetector::OnEnd(int64_t now_ns) {
  if (round_length_ == 0) {
    last_end_ns_ = now_ns;
    const bool is_due = count_ >= next_search_ || count_ == kKept;
    if (is_due && (now_ns - first_ns_ >= kWatchNs || count_ == kKept)) Search();
    return false;
  }
  if (EndsRound()) {
    since_begin_ = 0;
    return true;
  }
  if (since_begin_ / kLostRounds >= round_length_) StartOver();
  return false;
}

void PeriodDetector::Keep(uint32_t name, int64_t now_ns) {
  if (count_ == 0) first_ns_ = last_end_ns_ = now_ns;
  if (count_ == kKept) {
    memmove(names_, names_ + kKept / 2, kKept / 2 * sizeof(names_[0]));
    memmove(gaps_us_, gaps_us_ + kKept / 2, kKept / 2 * sizeof(gaps_us_[0]));
    count_ = kKept / 2;
  }
  const int64_t gap_us = (now_ns - last_end_ns_) / 1000;
  gaps_us_[count_] = gap_us < 0 ? 0 : gap_us > UINT32_MAX ? UINT32_MAX : gap_us;
  names_[count_++] = name;
}

void PeriodDetector::Search() {
  next_search_ = count_ + count_ / 8 + 1;
  const uint32_t round = FindRound();
  if (round != 0) return Settle(round);
  if (count_ == kKept) next_search_ = kKept / 2 + kKept / 8;
}

// Of the newest operators, as many as can be, those that are rounds: backwards, a text and how much
// of its begin each of its places ends with (Knuth, Morris, Pratt).
uint32_t PeriodDetector::FindRound() {
  const auto at = [this](uint32_t i) { return names_[count_ - 1 - i]; };
  scratch_[0] = 0;
  for (uint32_t i = 1; i < count_; ++i) {
    uint32_t matched = scratch_[i - 1];
    while (matched != 0 && at(i) != at(matched)) matched = scratch_[matched - 1];
    scratch_[i] = at(i) == at(matched) ? matched + 1 : 0;
  }
  // The longest text first. A text of some length repeats every length - scratch_[length - 1]
  // places.
  for (uint32_t length = count_; length > count_ / 2; --length) {
    const uint32_t round = length - scratch_[length - 1];
    if (length / round >= kRepeats) return round;
  }
  return 0;
}

void PeriodDetector::Settle(uint32_t round) {
  // The place in the newest round whose shortest gap is the longest. What follows its last
  // operator is not known yet: the operator before the round stands for it.
  const uint32_t newest = count_ - round;
  uint32_t begin = newest;
  uint32_t longest_us = 0;
  for (uint32_t i = newest; i < count_; ++i) {
    const uint32_t before = gaps_us_[i - round];
    const uint32_t gap_us = gaps_us_[i] < before ? gaps_us_[i] : before;
    if (gap_us <= longest_us) continue;
    longest_us = gap_us;
    begin = i;
  }
  // How many operators back from there tell it from all other places: at most the whole round.
  uint32_t alike = round;
  for (uint32_t i = 0; i < round; ++i) scratch_[i] = newest + i;
  const auto behind = [&](uint32_t place, uint32_t back) {
    // Rounds are alike, so the one before stands for what lies before the newest.
    return names_[place - 1 - back];
  };
  tail_length_ = 0;
  while (tail_length_ < round && (tail_length_ == 0 || alike > 1)) {
    tail_[tail_length_] = behind(begin, tail_length_);
    uint32_t left = 0;
    for (uint32_t i = 0; i < alike; ++i) {
      if (behind(scratch_[i], tail_length_) == tail_[tail_length_]) scratch_[left++] = scratch_[i];
    }
    alike = left;
    ++tail_length_;
  }
  round_length_ = round;
  since_begin_ = 0;
}

bool PeriodDetector::EndsRound() const {
  for (uint32_t i = 0; i < tail_length_; ++i) {
    if (names_[(count_ - 1 - i) % kKept] != tail_[i]) return false;
  }
  return true;
}

void PeriodDetector::StartOver() {
  round_length_ = 0;
  count_ = 0;
  next_search_ = kFirstSearch;
}

}  // namespace profd::client::torch
