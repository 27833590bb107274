// PeriodDetector says where the rounds begin in which a thread repeats its outermost operators: the
// steps of a loop that has neither optimizer nor DataLoader. Pure rules, fed by periodicity.cc;
// each is tested by name in tests/client_lib/torch/period_detector_test.cc.
//
//   a round       the shortest one that the thread has repeated three times and more, for half of
//                 what it did, looked for once it has been watched for a second or for kKept
//                 operators: the layers of a model are rounds, too, but not for so long
//   it begins     after the operator that is followed by the longest time without one
//   from then on  where that operator ends, after the same operators as in the round, as many as
//                 tell it from others of its name; so a round with more in it is one longer step
//   another loop  once four rounds' worth of operators brought no begin, all is looked for anew
//
// Known gap: of rounds within rounds that both go on for long, the inner one counts.
//
// Threads:  one at a time.
// Hot path: a few stores an operator; a search, of some 100 µs at most, whenever the history has
//           grown by an eighth; none once the round is known.
#ifndef PROFD_CLIENT_LIB_TORCH_PERIOD_DETECTOR_H_
#define PROFD_CLIENT_LIB_TORCH_PERIOD_DETECTOR_H_

#include <cstdint>

namespace profd::client::torch {

class PeriodDetector {
 public:
  static constexpr uint32_t kKept = 8192;  // Operators; a round has a third of them at most.
  static constexpr int64_t kWatchNs = 1'000'000'000;

  // An outermost operator `name` (any number that stands for it) begins and ends. True: a step
  // begins after it.
  void OnBegin(uint32_t name, int64_t now_ns);
  bool OnEnd(int64_t now_ns);

  // Forgets all: another thread, or another loop.
  void StartOver();

  // Operators of a round; 0: not known yet. While it is known, times are not looked at.
  uint32_t round_length() const { return round_length_; }

 private:
  static constexpr uint32_t kRepeats = 3;
  static constexpr uint32_t kFirstSearch = 16;
  static constexpr uint32_t kLostRounds = 4;

  void Keep(uint32_t name, int64_t now_ns);
  void Search();
  uint32_t FindRound();
  void Settle(uint32_t round);
  bool EndsRound() const;

  // While it is looked for: the history, oldest first. Then its last entries stay the newest
  // operators, in a ring.
  uint32_t names_[kKept] = {};
  uint32_t gaps_us_[kKept] = {};  // Before each.
  uint32_t scratch_[kKept] = {};
  uint32_t count_ = 0;
  uint32_t next_search_ = kFirstSearch;
  int64_t first_ns_ = 0;
  int64_t last_end_ns_ = 0;

  // Once it is known.
  uint32_t round_length_ = 0;
  uint32_t tail_[kKept / kRepeats] = {};  // The operators before a begin, the nearest first.
  uint32_t tail_length_ = 0;
  uint32_t since_begin_ = 0;  // Operators.
};

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_PERIOD_DETECTOR_H_
