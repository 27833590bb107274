// CallRows says where calls stand that come in rows, close to each other: the optimizers of one
// step, the loaders of one batch.
//
//   short S, long L     L S S L S S L S S L ...   rows of three
//
// A gap is short below a twentieth of what is usual, the fifth longest of the last sixteen: two
// thirds of them may be short, and four as long as they like (evaluations, compilations). Short
// gaps alone make no row, as a thread that is often kept from running has long gaps for other
// reasons: all rows of the last sixteen gaps but one must be equally long. Less than sixteen gaps
// say nothing yet: a row that is counted as several calls at first does less harm than calls that
// are lost.
//
// Threads: one. Hot path: no allocation, no clock; some ten ns a call.
#ifndef PROFD_CLIENT_LIB_TORCH_CALL_ROWS_H_
#define PROFD_CLIENT_LIB_TORCH_CALL_ROWS_H_

#include <cstdint>

namespace profd::client::torch {

class CallRows {
 public:
  // A call begins, `gap` ticks after the end of the one before. `is_apart`: it is known to be of
  // another row. Returns its place in its row, from 1.
  uint32_t Add(uint64_t gap, bool is_apart);

  // Of a row; 1: calls stand alone.
  uint32_t length() const { return length_; }

  // Whether enough gaps were seen to tell.
  bool is_known() const { return count_ >= kKept; }

 private:
  static constexpr uint32_t kKept = 16;
  static constexpr uint32_t kLongest = 5;  // That one is the usual one.
  static constexpr uint64_t kShare = 20;
  static constexpr uint32_t kFewestRows = 3;
  static constexpr uint32_t kMostOdd = 1;
  static constexpr uint32_t kAllApart = (1u << kKept) - 1;

  uint64_t UsualGap() const;
  uint32_t CommonLength() const;

  uint64_t gaps_[kKept] = {};  // Gap n at [n % kKept].
  uint32_t apart_ = 0;         // Bit n % kKept: the call after gap n is of another row for sure.
  uint64_t count_ = 0;         // Ever added.
  uint32_t place_ = 1;
  uint32_t length_ = 1;
};

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_CALL_ROWS_H_
