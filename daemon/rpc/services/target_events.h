// TargetEvents stands between ingest and the capture manager and lets others know when the
// list of targets, or the state of one of them, has changed. It passes everything on.
//
//   ingest ──► TargetEvents ──► CaptureManager
//                  └────────► WatchTargets streams (daemon/rpc/services/target_service.cc)
//
// Threads:   any. Subscribers are called on ingest's threads: hand over and return.
// Ownership: `next` must outlive it.
#ifndef PROFD_DAEMON_RPC_SERVICES_TARGET_EVENTS_H_
#define PROFD_DAEMON_RPC_SERVICES_TARGET_EVENTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "daemon/capture/ports.h"

namespace profd::rpc {

class TargetEvents final : public TargetPort::Observer {
 public:
  explicit TargetEvents(TargetPort::Observer& next) : next_(next) {}

  // Calls `on_change` after every change until Unsubscribe() has returned. It must not
  // call back into TargetEvents.
  using SubscriptionId = int64_t;
  SubscriptionId Subscribe(std::function<void()> on_change);
  // Waits for a running call.
  void Unsubscribe(SubscriptionId id);

  void OnTargetAdded(TargetNumber target) override;
  void OnTargetGone(TargetNumber target) override;
  void OnTargetOptedOut(TargetNumber target) override;
  void OnArmed(std::string_view capture_id) override;
  void OnArming(std::string_view capture_id, std::string_view activity) override;
  void OnArmFailed(std::string_view capture_id, absl::Status why) override;
  void OnProgress(std::string_view capture_id, const Progress& progress) override;
  void OnDrained(std::string_view capture_id, DrainResult result) override;

 private:
  void Tell();

  TargetPort::Observer& next_;
  absl::Mutex mu_;  // Held while subscribers are called; they only enqueue.
  SubscriptionId last_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<SubscriptionId, std::function<void()>> subscribers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVICES_TARGET_EVENTS_H_
