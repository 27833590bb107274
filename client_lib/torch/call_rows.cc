#include "client_lib/torch/call_rows.h"

namespace profd::client::torch {

uint32_t CallRows::Add(uint64_t gap, bool is_apart) {
  const bool goes_on = !is_apart && is_known() && gap < UsualGap() / kShare;
  const uint32_t index = count_++ % kKept;
  gaps_[index] = gap;
  apart_ = (apart_ & ~(1u << index)) | uint32_t{is_apart} << index;
  if (is_known()) length_ = apart_ == kAllApart ? 1 : CommonLength();
  place_ = goes_on ? place_ + 1 : 1;
  return place_;
}

uint64_t CallRows::UsualGap() const {
  uint64_t longest[kLongest] = {};  // Longest first.
  for (uint64_t moved : gaps_) {
    for (uint64_t& kept : longest) {
      if (moved <= kept) continue;
      const uint64_t shorter = kept;
      kept = moved;
      moved = shorter;
    }
  }
  return longest[kLongest - 1];
}

// Of the rows that lie wholly in what is kept; by a majority vote first, as one may be odd.
uint32_t CallRows::CommonLength() const {
  const uint64_t short_limit = UsualGap() / kShare;
  uint32_t rows = 0;
  uint32_t length = 0;    // Of the row that goes on.
  bool is_whole = false;  // Its begin was seen.
  uint32_t candidate = 1;
  uint32_t votes = 0;
  uint32_t lengths[kKept] = {};
  for (uint64_t n = count_ - kKept; n < count_; ++n) {
    const uint32_t index = n % kKept;
    const bool begins = (apart_ >> index & 1) != 0 || gaps_[index] >= short_limit;
    if (!begins) {
      ++length;
      continue;
    }
    if (is_whole) {
      lengths[rows++] = length;
      if (votes == 0) candidate = length;
      votes = length == candidate ? votes + 1 : votes - 1;
    }
    is_whole = true;
    length = 1;
  }
  uint32_t odd = 0;
  for (uint32_t i = 0; i < rows; ++i) odd += lengths[i] != candidate ? 1 : 0;
  return rows >= kFewestRows && odd <= kMostOdd ? candidate : 1;
}

}  // namespace profd::client::torch
