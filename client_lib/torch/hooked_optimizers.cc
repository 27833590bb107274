#include "client_lib/torch/hooked_optimizers.h"

#include <algorithm>

namespace profd::client::torch {

void HookedCall::Enter(uint64_t optimizer, uint64_t ticks) {
  const bool is_same = optimizer == optimizer_;
  // Another call of it has ended and left this one open: the open one raised.
  const bool has_raised = is_same ? has_left_ : ++inner_count_ > kMostInner;
  if (depth_ == 0 || has_raised) {
    optimizer_ = optimizer;
    begin_ticks_ = ticks;
    depth_ = 1;
    inner_count_ = 0;
    has_left_ = false;
  } else if (is_same) {
    ++depth_;
  }
}

bool HookedCall::Leave(uint64_t optimizer, uint64_t ticks) {
  if (depth_ == 0) {  // Its begin was not reported.
    begin_ticks_ = ticks;
    return true;
  }
  if (optimizer != optimizer_) return false;
  has_left_ = true;
  return --depth_ == 0;
}

uint64_t OptimizerKeys::KeyOf(uint64_t type, uint64_t optimizer) {
  const bool was_seen = WasSeen(optimizer);
  Type* of_type = Find(type);
  if (of_type == nullptr) return type | 1;
  const bool is_last = of_type->last == optimizer;
  const bool is_new = optimizer > of_type->newest;
  of_type->calls_of_last = is_last ? of_type->calls_of_last + 1 : 1;
  of_type->last = optimizer;
  of_type->newest = std::max(of_type->newest, optimizer);
  if (of_type->is_several) {
    const bool are_replaced = AreReplaced(*of_type, optimizer, is_new);
    if (are_replaced || of_type->calls_of_last >= kAlone) {
      *of_type = {.type = type,
                  .last = optimizer,
                  .newest = of_type->newest,
                  .calls_of_last = of_type->calls_of_last};
      has_changed_ = true;
    }
  } else if (!is_last) {
    const bool comes_back = ComesBack(*of_type, optimizer);
    if (was_seen || comes_back) {
      of_type->is_several = has_changed_ = true;
      of_type->newest_of_several = of_type->newest;
    }
  }
  return (of_type->is_several ? optimizer : type) | 1;
}

bool OptimizerKeys::TakeChange() {
  const bool has_changed = has_changed_;
  has_changed_ = false;
  return has_changed;
}

OptimizerKeys::Type* OptimizerKeys::Find(uint64_t type) {
  for (Type& known : types_) {
    if (known.type == 0) known.type = type;
    if (known.type == type) return &known;
  }
  return nullptr;
}

bool OptimizerKeys::WasSeen(uint64_t optimizer) {
  for (const uint64_t seen : seen_) {
    if (seen == optimizer) return true;
  }
  seen_[seen_count_++ % kKept] = optimizer;
  return false;
}

// `optimizer` is called after another one of its class. Whether it is the one that is remembered.
bool OptimizerKeys::ComesBack(Type& of_type, uint64_t optimizer) {
  if (of_type.remembered == optimizer) return true;
  if (++of_type.turns > of_type.most_turns) {
    of_type.remembered = optimizer;
    of_type.turns = 0;
    of_type.most_turns = std::min(2 * of_type.most_turns + 1, kLongestRound);
  }
  return false;
}

// Of several: whether those that took turns are no more.
bool OptimizerKeys::AreReplaced(Type& of_type, uint64_t optimizer, bool is_new) {
  if (optimizer <= of_type.newest_of_several) {
    of_type.newer_calls = of_type.newer_count = 0;
    return false;
  }
  ++of_type.newer_calls;
  of_type.newer_count += is_new ? 1 : 0;
  return of_type.newer_count >= kNewer ||
         (of_type.newer_count >= 2 && of_type.newer_calls >= kNewerCalls);
}

}  // namespace profd::client::torch
