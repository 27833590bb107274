#include "daemon/rpc/services/target_events.h"

#include <utility>

namespace profd::rpc {

TargetEvents::SubscriptionId TargetEvents::Subscribe(std::function<void()> on_change) {
  absl::MutexLock lock(&mu_);
  subscribers_.emplace(++last_id_, std::move(on_change));
  return last_id_;
}

void TargetEvents::Unsubscribe(SubscriptionId id) {
  absl::MutexLock lock(&mu_);
  subscribers_.erase(id);
}

void TargetEvents::Tell() {
  absl::MutexLock lock(&mu_);
  // Under the mutex, so that no call is under way when Unsubscribe() returns and its subscriber is
  // destroyed. Subscribers only wake their streams.
  for (const auto& [id, on_change] : subscribers_) on_change();
}

void TargetEvents::OnTargetAdded(TargetNumber target) {
  next_.OnTargetAdded(target);
  Tell();
}

void TargetEvents::OnTargetGone(TargetNumber target) {
  next_.OnTargetGone(target);
  Tell();
}

void TargetEvents::OnTargetOptedOut(TargetNumber target) {
  next_.OnTargetOptedOut(target);
  Tell();
}

void TargetEvents::OnArmed(std::string_view capture_id) {
  next_.OnArmed(capture_id);
  Tell();
}

void TargetEvents::OnArming(std::string_view capture_id, std::string_view activity) {
  next_.OnArming(capture_id, activity);
}

void TargetEvents::OnArmFailed(std::string_view capture_id, absl::Status why) {
  next_.OnArmFailed(capture_id, std::move(why));
  Tell();
}

void TargetEvents::OnProgress(std::string_view capture_id, const Progress& progress) {
  next_.OnProgress(capture_id, progress);
}

void TargetEvents::OnDrained(std::string_view capture_id, DrainResult result) {
  next_.OnDrained(capture_id, std::move(result));
  Tell();
}

}  // namespace profd::rpc
