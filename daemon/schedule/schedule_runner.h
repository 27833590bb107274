// ScheduleRunner carries out the schedules of this node: it wakes when a window is due, decides by
// sample_choice.h what of the node samples it, asks the capture manager, and puts what became of
// the window into the history.
//
//   window due ─► paused? ─► node chosen? ─► targets ─► chosen? ─► governor, budgets ─► capture
//                   │            │              │          │             │                 │
//                 paused     not_chosen     no_target  not_chosen  backed_off,        captured,
//                                                                  over_budget        busy, ...
//
// It is one actor: a thread ("profd-schedule") that sleeps from window to window, and an hour at
// most, so that a wall clock that was set is noticed. A window that it comes to later than
// kMaxLateness is recorded as missed, and not made up for: other nodes sampled it in time. Of all
// windows that passed while profd was not running the newest kMaxMissedRows get a row; of those
// that passed more than an hour ago, once the clock has run for an hour without a jump
// (SettledClock).
//
// A schedule captures as its creator: with that principal, under the rules of the day, only what it
// may list and both `capture` and `schedule`.
//
// Threads:    any but its own. Calls wait for the disk: keep them off gRPC threads.
// Ownership:  everything it is given must outlive it. Shut the capture manager down before it:
//             ends of captures are told to it until then.
#ifndef PROFD_DAEMON_SCHEDULE_SCHEDULE_RUNNER_H_
#define PROFD_DAEMON_SCHEDULE_SCHEDULE_RUNNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/watchdog.h"
#include "daemon/capture/access.h"
#include "daemon/capture/ports.h"
#include "daemon/capture/scheduled_captures.h"
#include "daemon/quota/ledger.h"
#include "daemon/schedule/schedule_store.h"
#include "daemon/schedule/schedule_types.h"

namespace profd {

// A schedule as it is now.
struct ScheduleView {
  ScheduleRecord record;
  ScheduleState state = ScheduleState::kActive;
  std::optional<absl::Time> next_window;  // When it is due; nullopt: none is.
  ScheduleTotals totals;
};

// What a declaration came to.
struct AppliedDeclaration {
  ScheduleView view;
  DeclaredChange change = DeclaredChange::kNone;
};

// That a schedule asked for a capture, for the audit log.
struct ScheduledAttempt {
  std::string schedule_id;
  Principal creator;
  TargetInfo target;
  absl::StatusOr<CaptureRecord> result;
};

class ScheduleRunner {
 public:
  static constexpr absl::Duration kMaxLateness = absl::Seconds(5);
  static constexpr int64_t kMaxMissedRows = 1000;
  static constexpr int64_t kMaxWindowPage = 1000;

  struct Options {
    std::string node_name;
    // Decides who may have more schedules; must outlive the runner. The store charges them there,
    // deleted ones included. nullptr: no limit.
    quota::Ledger* ledger = nullptr;
    // Of one principal's records, deleted ones included. Root has no such bound.
    int64_t max_record_bytes = int64_t{2} << 20;
    // The rules as they are when called; unset: OwnerAndRootRules().
    std::function<std::shared_ptr<const AccessRules>()> rules;
    // Called on the runner's thread after every attempt.
    std::function<void(const ScheduledAttempt&)> on_attempt;
    // Likewise for every row that is put into the history, stored or not. A capture that then
    // keeps nothing changes the row, and nothing is told of it.
    std::function<void(const ScheduleWindow&)> on_window;
    // Watches the runner's thread; must outlive the runner. nullptr: not watched.
    Watchdog* watchdog = nullptr;
  };

  ScheduleRunner(Options options, ScheduleStore& store, ScheduledCaptures& captures,
                 TargetPort& targets, Clock& clock);
  ~ScheduleRunner();  // Stops, if that has not happened.

  // Takes up the schedules that the store has; what was due before is missed. Call once, first.
  absl::Status Start();
  // No window is begun any more; later calls fail UNAVAILABLE.
  void Stop();

  // `id` is a ULID, or empty: a new one. INVALID_ARGUMENT, ALREADY_EXISTS (SCHEDULE_EXISTS),
  // RESOURCE_EXHAUSTED (QUOTA_EXCEEDED: their number; SCHEDULE_LIMIT: their size),
  // PERMISSION_DENIED (NOT_ALLOWED). A schedule that is there with an equal spec and creator is
  // returned as it is, but for `nodes`: those are of the newest request.
  absl::StatusOr<ScheduleView> Create(const Caller& caller, const ScheduleSpec& spec,
                                      std::string_view id);
  // Makes the schedule what is declared, if that is newer than what is here; what is here already
  // is left alone. `dry_run`: only says what would change, without the limits. The creator of what
  // it creates or updates is then the caller.
  // INVALID_ARGUMENT; PERMISSION_DENIED; RESOURCE_EXHAUSTED as Create(). FAILED_PRECONDITION
  // (STALE_VERSION): a higher version is here. ALREADY_EXISTS (VERSION_CONFLICT): this version is
  // here with another spec, or deleted.
  absl::StatusOr<AppliedDeclaration> Apply(const Caller& caller,
                                           const ScheduleDeclaration& declaration, bool dry_run);
  // `id` may be a unique prefix, in upper case. NOT_FOUND also for what the caller may not list;
  // INVALID_ARGUMENT (AMBIGUOUS_ID).
  absl::StatusOr<ScheduleView> Get(const Caller& caller, std::string_view id);
  // At most `limit` by id, above `after_id`.
  absl::StatusOr<std::vector<ScheduleView>> List(const Caller& caller, bool include_deleted,
                                                 int64_t limit, std::string_view after_id);
  // As Get(); PERMISSION_DENIED (NOT_ALLOWED). FAILED_PRECONDITION (SCHEDULE_DELETED) for one
  // that was deleted; deleting it again is OK. Deleting raises the version.
  absl::StatusOr<ScheduleView> SetPaused(const Caller& caller, std::string_view id, bool paused);
  absl::StatusOr<ScheduleView> Delete(const Caller& caller, std::string_view id);
  // Newest first, at most `limit` in 1..kMaxWindowPage, all before (`time`, `pid`).
  absl::StatusOr<std::vector<ScheduleWindow>> ListWindows(const Caller& caller, std::string_view id,
                                                          int64_t limit, absl::Time time,
                                                          int64_t pid);

  // Waits until everything posted so far was handled.
  void DrainForTesting();
  // Handles windows that are due by the (fake) clock. When it wakes next, monotonic.
  absl::Duration RunTimersForTesting();

 private:
  class Actor;
  const std::unique_ptr<Actor> actor_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SCHEDULE_SCHEDULE_RUNNER_H_
