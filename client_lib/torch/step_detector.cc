#include "client_lib/torch/step_detector.h"

namespace profd::client::torch {

uint32_t LeadingOptimizer::IndexOf(uint64_t name) {
  for (uint32_t i = 0; i < name_count_; ++i) {
    if (names_[i] == name) return i;
  }
  if (name_count_ == kMostNames) return kNobody;
  names_[name_count_] = name;
  return name_count_++;
}

bool LeadingOptimizer::OnStep(uint64_t name) {
  const uint32_t index = IndexOf(name);
  if (index == kNobody) return false;
  if (leader_ == kNobody) leader_ = index;
  return index == leader_ ? OnLeader() : OnOther(index);
}

// A period of the leader ends: who came last in it, if anybody did, may be the better one.
bool LeadingOptimizer::OnLeader() {
  const uint32_t last = last_other_;
  last_other_ = kNobody;
  silence_ = 0;
  if (last == kNobody || has_lost_[last]) {
    challenger_ = kNobody;
    challenged_periods_ = 0;
    return true;
  }
  challenged_periods_ = last == challenger_ ? challenged_periods_ + 1 : 1;
  challenger_ = last;
  if (challenged_periods_ < kPeriods) return true;
  for (uint32_t i = 0; i < name_count_; ++i) has_lost_[i] = i != last;
  leader_ = last;
  challenger_ = kNobody;
  challenged_periods_ = 0;
  return false;
}

bool LeadingOptimizer::OnOther(uint32_t index) {
  last_other_ = index;
  if (++silence_ < kLongestSilence) return false;
  for (bool& lost : has_lost_) lost = false;
  leader_ = index;
  last_other_ = kNobody;
  challenger_ = kNobody;
  challenged_periods_ = 0;
  silence_ = 0;
  return true;
}

void StepDetector::OnOptimizerBegin(uint64_t ticks) {
  if (optimizer_depth_++ == 0) optimizer_begin_ticks_ = ticks;
}

bool StepDetector::OnOptimizerEnd(uint64_t name, uint64_t ticks, uint64_t nodes, uint32_t count) {
  if (optimizer_depth_ == 0 || --optimizer_depth_ != 0) return false;
  const bool last_of_row = IsLastOfRow(nodes, has_batch_since_);
  optimizer_end_ticks_ = ticks;
  optimizer_end_nodes_ = nodes;
  return last_of_row && Leads(name, nodes, count) && IsLastOfBatch();
}

bool StepDetector::OnOptimizerCall(const OptimizerCall& call, uint64_t nodes) {
  optimizer_depth_ = 0;
  optimizer_begin_ticks_ = call.begin_ticks;
  // No row has one of them twice.
  const bool last_of_row = IsLastOfRow(nodes, call.optimizer == called_last_);
  called_last_ = call.optimizer;
  optimizer_end_ticks_ = call.end_ticks;
  optimizer_end_nodes_ = nodes;
  const uint64_t key = keys_.KeyOf(call.type, call.optimizer);
  if (keys_.TakeChange()) leading_ = LeadingOptimizer();
  return last_of_row && leading_.OnStep(key);
}

// Rows are to be known first: they change the work that is done between calls.
bool StepDetector::Leads(uint64_t name, uint64_t nodes, uint32_t count) {
  const uint64_t work = nodes - twins_nodes_;
  twins_nodes_ = nodes;
  if (nodes == 0 || !optimizer_rows_.is_known()) {
    twins_.Skip();
    return leading_.OnStep(name);
  }
  const bool was_split = twins_.is_split();
  const uint64_t identity = twins_.IdentityOf(name, work, count);
  if (twins_.is_split() != was_split) leading_ = LeadingOptimizer();
  return identity != OptimizerTwins::kNobody && leading_.OnStep(identity);
}

// One that is shorter than rows are has none. The work may as well have been done in a closure that
// step() was given.
bool StepDetector::IsLastOfRow(uint64_t nodes, bool is_apart) {
  is_apart = is_apart || nodes != optimizer_end_nodes_;
  has_batch_since_ = false;
  if (optimizer_end_ticks_ == 0) return true;
  const uint32_t place =
      optimizer_rows_.Add(optimizer_begin_ticks_ - optimizer_end_ticks_, is_apart);
  return optimizer_rows_.length() == 1 || place == optimizer_rows_.length();
}

bool StepDetector::IsLastOfBatch() {
  ++steps_in_batch_;
  return steps_per_batch_ <= 1 || steps_in_batch_ == steps_per_batch_;
}

bool StepDetector::OnBatchBegin(uint64_t ticks, uint64_t nodes) {
  has_batch_since_ = true;
  twins_.Forget();
  if (batch_depth_++ != 0) return false;
  const bool is_apart = nodes != batch_nodes_;
  batch_nodes_ = nodes;
  if (batch_end_ticks_ != 0) {
    const uint32_t place = batch_rows_.Add(ticks - batch_end_ticks_, is_apart);
    if (place != 1 && batch_rows_.length() != 1) return false;
  }
  CountStepsOfBatch();
  return true;
}

void StepDetector::OnBatchEnd(uint64_t ticks) {
  if (batch_depth_ != 0 && --batch_depth_ == 0) batch_end_ticks_ = ticks;
}

// As many steps twice in a row are a habit; more than that were none.
void StepDetector::CountStepsOfBatch() {
  const uint32_t count = steps_in_batch_;
  if (count == 0) return;  // Gradient accumulation, or an evaluation.
  if (count == steps_in_last_batch_) {
    steps_per_batch_ = count;
  } else if (count > steps_per_batch_) {
    steps_per_batch_ = 1;
  }
  steps_in_last_batch_ = count;
  steps_in_batch_ = 0;
}

}  // namespace profd::client::torch
