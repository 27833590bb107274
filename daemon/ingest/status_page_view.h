// StatusPageView is the daemon's end of one target's status page: makes it, and reads
// what the target says of itself. All of it is hearsay: values are bounded so that no
// reader stumbles over them, and otherwise believed only as "the target says".
//
// Threads:   any; reads are single loads, while another process writes.
// Ownership: owns the page; the target keeps its own mapping when this one is gone.
#ifndef PROFD_DAEMON_INGEST_STATUS_PAGE_VIEW_H_
#define PROFD_DAEMON_INGEST_STATUS_PAGE_VIEW_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/capture/capture_types.h"
#include "daemon/capture/ports.h"
#include "daemon/ingest/decode/tick_clock.h"
#include "daemon/ingest/mapped_memfd.h"
#include "proto/wire/status_page.h"

namespace profd {

class StatusPageView {
 public:
  // `step_mark_count` as HELLO has it, so that the page is right before the next mark.
  // `clock` must outlive the view. RESOURCE_EXHAUSTED.
  static absl::StatusOr<StatusPageView> Create(uint64_t step_mark_count, const TickClock& clock);

  // What the target maps. The view needs it no more.
  UniqueFd ReleaseFd() { return memory_.ReleaseFd(); }

  // Sets the fields of `info` that the page knows. `ns_per_tick`: TickClock::NsPerTick().
  void Read(double ns_per_tick, TargetInfo& info) const;

  // TargetPort::MedianStepNs.
  int64_t MedianStepNs(double ns_per_tick, int64_t first_step, int64_t end_step) const;
  // TargetPort::GetRecentSteps.
  RecentSteps GetRecentSteps(double ns_per_tick) const;

 private:
  struct Mark {
    int64_t step;
    uint64_t ticks;
  };
  StatusPageView(MappedMemfd memory, const TickClock& clock);

  // The marks in the ring that can be true, oldest first: consecutive steps up to the
  // newest, times that do not decrease and do not lie ahead of us.
  std::vector<Mark> ReadMarks() const;
  StepSource ReadSource() const;
  // Sets the fields of `info` that the marks tell.
  void ReadPace(double ns_per_tick, TargetInfo& info) const;

  MappedMemfd memory_;
  wire::StatusPage* page_;
  const TickClock* clock_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_STATUS_PAGE_VIEW_H_
