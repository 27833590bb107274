// TargetRegistry is the list of this node's targets and of what captures cost them: which
// target has a live capture, and whose quota its capture memory counts against.
//
// A target's capture ends in two steps: the capture is over (its events are stored), and
// the target has let go of the memory. Usually they come together. A target that was
// stopped (SIGSTOP) keeps its mapping: until it answers or ends, its memory stays counted
// and it cannot be captured again.
//
// Threads:   any.
// Ownership: the ledger must outlive the registry.
#ifndef PROFD_DAEMON_INGEST_TARGET_REGISTRY_H_
#define PROFD_DAEMON_INGEST_TARGET_REGISTRY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "daemon/capture/capture_types.h"
#include "daemon/capture/ports.h"
#include "daemon/ingest/decode/tick_clock.h"
#include "daemon/ingest/status_page_view.h"
#include "daemon/quota/ledger.h"
#include "proto/wire/frame.h"

namespace profd {

class TargetRegistry {
 public:
  explicit TargetRegistry(quota::Ledger& ledger) : ledger_(ledger) {}

  struct MemoryUse {
    int64_t reserved_bytes = 0;  // By live captures, and by targets that still hold some.
    int64_t cap_bytes = 0;
  };
  MemoryUse memory_use() const;

  // The clock for targets whose ticks are of that kind; made at its first use, kept.
  TickClock& ClockOf(wire::ClockKind kind);

  // Takes a place for a target from the quota of its uid and job, pod, or container.
  // RESOURCE_EXHAUSTED (QUOTA_EXCEEDED).
  absl::StatusOr<quota::Reservation> ReservePlace(const TargetInfo& info,
                                                  std::string_view root_container);
  // Adds a target; returns its number.
  TargetNumber Add(TargetInfo info, TickClock& clock, StatusPageView page,
                   quota::Reservation place);
  // What it held is free again.
  void Remove(TargetNumber target);
  // Returns true if the target asks not to be captured, and did not before.
  bool MergeMetadata(TargetNumber target, const std::map<std::string, std::string>& metadata);
  int64_t size() const;

  std::vector<TargetInfo> List() const;
  std::optional<TargetInfo> Find(TargetNumber target) const;
  int64_t MedianStepNs(TargetNumber target, int64_t first_step, int64_t end_step) const;
  RecentSteps GetRecentSteps(TargetNumber target) const;

  struct Reservation {
    uint64_t memory_bytes;
    TickClock* clock;
  };
  // Reserves the memory of a capture for request.holder. Errors as TargetPort::Arm.
  absl::StatusOr<Reservation> Reserve(TargetNumber target, const ArmRequest& request);
  // The capture is over. `held`: the target has its memory still.
  void EndCapture(TargetNumber target, bool held);
  // The target let go of what it held, if it did.
  void LetGo(TargetNumber target);

 private:
  struct Target {
    TargetInfo info;
    TickClock* clock;
    StatusPageView page;
    quota::Reservation place;
    std::string live_capture;   // Id; empty: none.
    bool holds_memory = false;  // Of its last capture.
  };
  static TargetInfo InfoOf(const Target& target);

  quota::Ledger& ledger_;
  mutable absl::Mutex mu_;  // Before the ledger's.
  std::map<TargetNumber, Target> targets_ ABSL_GUARDED_BY(mu_);
  std::map<wire::ClockKind, std::unique_ptr<TickClock>> clocks_ ABSL_GUARDED_BY(mu_);
  TargetNumber last_number_ ABSL_GUARDED_BY(mu_) = 0;
  // Of live captures, also of targets that are gone, and of targets that still hold some.
  std::map<TargetNumber, quota::Reservation> memory_ ABSL_GUARDED_BY(mu_);
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_TARGET_REGISTRY_H_
