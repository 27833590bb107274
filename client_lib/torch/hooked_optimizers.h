// torch's global hooks around Optimizer.step() report which optimizer is called, not only its
// class. Two rules for what to make of that; neither needs torch.
//
//   HookedCall      which of nested calls is the outermost: a wrapper calls the optimizer that it
//                   wraps, a class calls its base's step(). A step() that raises has no end.
//   OptimizerKeys   by which key the step detector knows an optimizer: its class, until an
//                   optimizer is called again after another one of its class (the two Adams of a
//                   GAN); from then on each optimizer of that class has its own key, until they are
//                   replaced by newer ones. A program that makes a new optimizer for each
//                   trial keeps one key.
//
// Threads: each object one. Hot path: no allocation, no clock; some ns a call.
#ifndef PROFD_CLIENT_LIB_TORCH_HOOKED_OPTIMIZERS_H_
#define PROFD_CLIENT_LIB_TORCH_HOOKED_OPTIMIZERS_H_

#include <cstdint>

namespace profd::client::torch {

class HookedCall {
 public:
  // The step() of `optimizer` begins.
  void Enter(uint64_t optimizer, uint64_t ticks);

  // It ends. Whether it was the outermost one.
  bool Leave(uint64_t optimizer, uint64_t ticks);

  // When the outermost call that ended last began.
  uint64_t begin_ticks() const { return begin_ticks_; }

 private:
  // Calls of other optimizers in one step(). After more of them, that step() must have raised.
  static constexpr uint32_t kMostInner = 16;

  uint64_t optimizer_ = 0;  // The outermost one.
  uint64_t begin_ticks_ = 0;
  uint32_t depth_ = 0;  // Of its calls within each other.
  uint32_t inner_count_ = 0;
  bool has_left_ = false;  // One of its calls, since it began.
};

class OptimizerKeys {
 public:
  // Never 0. `type`: an address. `optimizer`: a number; none that came later has a lower one, or
  // one that another had. Both are even.
  uint64_t KeyOf(uint64_t type, uint64_t optimizer);

  // True once after each call that changed what keys stand for: earlier keys are then invalid.
  bool TakeChange();

 private:
  static constexpr uint32_t kMostTypes = 8;  // Further ones have one key each.
  static constexpr uint32_t kKept = 16;
  static constexpr uint32_t kAlone = 16;  // Calls of one alone: the others are no more.
  static constexpr uint32_t kLongestRound = 4095;
  // Without a call of those that were several, of newer ones: those were replaced.
  static constexpr uint32_t kNewerCalls = 16;  // Of two or more.
  static constexpr uint32_t kNewer = 4;

  // Rounds may be longer than the last kKept optimizers: one is remembered until it is called
  // again, or for twice as many turns as the one before it (Brent: An Improved Monte Carlo
  // Factorization Algorithm, BIT 20, 1980).
  struct Type {
    uint64_t type = 0;
    uint64_t last = 0;           // Optimizer.
    uint64_t newest = 0;         // The highest number.
    uint32_t calls_of_last = 0;  // In a row.
    uint64_t remembered = 0;     // Optimizer.
    uint32_t turns = 0;          // Of others since then.
    uint32_t most_turns = 0;
    bool is_several = false;
    // Since it is: the newest at first, and calls of newer ones in a row, and how many these are.
    uint64_t newest_of_several = 0;
    uint32_t newer_calls = 0;
    uint32_t newer_count = 0;
  };

  Type* Find(uint64_t type);
  bool WasSeen(uint64_t optimizer);
  static bool ComesBack(Type& of_type, uint64_t optimizer);
  static bool AreReplaced(Type& of_type, uint64_t optimizer, bool is_new);

  Type types_[kMostTypes];
  uint64_t seen_[kKept] = {};  // Optimizers, in a ring.
  uint32_t seen_count_ = 0;
  bool has_changed_ = false;
};

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_HOOKED_OPTIMIZERS_H_
