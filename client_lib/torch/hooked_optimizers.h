// torch's global hooks around Optimizer.step() report which optimizer is called, not only its
// class. Two rules for what to make of that; neither needs torch.
//
//   HookedCall      which of nested calls is the outermost: a wrapper calls the optimizer that it
//                   wraps, a class calls its base's step(). A step() that raises has no end.
//   OptimizerKeys   by which key the step detector knows an optimizer: its class, until an
//                   optimizer is called again after another one of its class (the two Adams of a
//                   GAN); from then on each optimizer of that class has its own key. A program
//                   that makes a new optimizer for each trial keeps one key.
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
  // Never 0. `type` and `optimizer`: addresses.
  uint64_t KeyOf(uint64_t type, uint64_t optimizer);

  // True once after each call that changed what keys stand for: earlier keys are then invalid.
  bool TakeChange();

 private:
  static constexpr uint32_t kMostTypes = 8;  // Further ones have one key each.
  static constexpr uint32_t kKept = 16;
  static constexpr uint32_t kAlone = 16;  // Calls of one alone: the others are no more.

  struct Type {
    uint64_t type = 0;
    uint64_t last = 0;           // Optimizer.
    uint32_t calls_of_last = 0;  // In a row.
    bool is_several = false;
  };

  Type* Find(uint64_t type);
  bool WasSeen(uint64_t optimizer);

  Type types_[kMostTypes];
  uint64_t seen_[kKept] = {};  // Optimizers, in a ring.
  uint32_t seen_count_ = 0;
  bool has_changed_ = false;
};

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_HOOKED_OPTIMIZERS_H_
