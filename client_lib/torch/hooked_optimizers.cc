#include "client_lib/torch/hooked_optimizers.h"

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
  of_type->calls_of_last = is_last ? of_type->calls_of_last + 1 : 1;
  of_type->last = optimizer;
  if (!of_type->is_several && was_seen && !is_last) {
    of_type->is_several = has_changed_ = true;
  } else if (of_type->is_several && of_type->calls_of_last >= kAlone) {
    of_type->is_several = false;
    has_changed_ = true;
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

}  // namespace profd::client::torch
