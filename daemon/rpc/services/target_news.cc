#include "daemon/rpc/services/target_news.h"

#include <utility>

namespace profd::rpc {

TargetNews::SubscriptionId TargetNews::Subscribe(std::function<void()> on_change) {
  absl::MutexLock lock(&mu_);
  subscribers_.emplace(++last_id_, std::move(on_change));
  return last_id_;
}

void TargetNews::Unsubscribe(SubscriptionId id) {
  absl::MutexLock lock(&mu_);
  subscribers_.erase(id);
}

void TargetNews::Tell() {
  absl::MutexLock lock(&mu_);
  for (const auto& [id, on_change] : subscribers_) on_change();
}

void TargetNews::OnTargetAdded(TargetNumber target) {
  next_.OnTargetAdded(target);
  Tell();
}

void TargetNews::OnTargetGone(TargetNumber target) {
  next_.OnTargetGone(target);
  Tell();
}

void TargetNews::OnArmed(std::string_view capture_id) {
  next_.OnArmed(capture_id);
  Tell();
}

void TargetNews::OnArming(std::string_view capture_id, std::string_view activity) {
  next_.OnArming(capture_id, activity);
}

void TargetNews::OnArmFailed(std::string_view capture_id, absl::Status why) {
  next_.OnArmFailed(capture_id, std::move(why));
  Tell();
}

void TargetNews::OnProgress(std::string_view capture_id, const Progress& progress) {
  next_.OnProgress(capture_id, progress);
}

void TargetNews::OnDrained(std::string_view capture_id, DrainResult result) {
  next_.OnDrained(capture_id, std::move(result));
  Tell();
}

}  // namespace profd::rpc
