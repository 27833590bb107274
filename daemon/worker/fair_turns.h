// FairTurns decides whose report runs next. Only one report runs at any time; a report that has
// used its slice is paused while others go first. Time is shared equally between principals, not
// between reports: eight reports of one user together get as much as one report of another user.
//
//   waiting ──Next()──► has the turn ──Leave(kWants)──► paused ──Next()──► has the turn
//   (no lane)           (in a lane)  └─Leave(kAway)───► away (slow reader) ──Want()──► paused
//                             └───────────────────────── End() ──► the lane is free
//
// A lane is a place for one report that has begun: a worker process with its memory.
// * One principal takes a second lane only if two lanes stay free, never a third of four.
// * The last free lane is root's.
// * If all lanes are taken, LaneToEnd() names a report that has held its lane for long enough.
//
// The next turn goes to the principal that has used the least time among those that want it. A
// principal that was idle starts level with the others: idle time is not saved up.
//
// Threads: none of its own; the caller holds a lock. Times are given, so tests use fake ones.
#ifndef PROFD_DAEMON_WORKER_FAIR_TURNS_H_
#define PROFD_DAEMON_WORKER_FAIR_TURNS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"

namespace profd::worker {

class FairTurns {
 public:
  struct Options {
    int lanes = 4;
    int64_t max_waiting = 256;  // Reports without a lane; root may exceed it.
    int64_t max_waiting_per_principal = 8;
    absl::Duration crowded_wait = absl::Seconds(1);   // LaneToEnd(): someone waits this long,
    absl::Duration crowded_hold = absl::Seconds(10);  // and a report has had its lane this long.
    std::string root_principal = "uid:0";
  };
  using JobId = uint64_t;
  enum class Then { kWants, kAway };

  struct Turn {
    int lane = 0;
    std::optional<JobId> job;  // Begins in the lane now; nullopt: the lane's report goes on.
  };

  explicit FairTurns(Options options);

  // Returns false if too many wait, in all or of this principal.
  bool Add(std::string_view principal, JobId job, absl::Duration now);
  // Gives the turn away, if it is free and wanted.
  std::optional<Turn> Next(absl::Duration now);

  // The lane that has the turn gives it back after `used`. kAway: it asks again with Want().
  void Leave(int lane, absl::Duration used, Then then);
  void Want(int lane);
  // The lane's report is over. `used`: with the turn, since it got it last; 0 if it had not.
  void End(int lane, absl::Duration used);

  // Whether another report would run if `lane` gave its turn back now.
  bool OthersWant(int lane) const;
  // The lane whose report has to end because others wait for a lane; nullopt: none.
  std::optional<int> LaneToEnd(absl::Duration now) const;

  int64_t waiting() const { return waiting_; }
  bool idle() const;  // Nobody waits and all lanes are free.

 private:
  enum class LaneState { kFree, kHasTurn, kWants, kAway };
  struct Lane {
    LaneState state = LaneState::kFree;
    std::string principal;
    absl::Duration since;  // The start of its report.
    uint64_t served = 0;   // When it had the turn last, by turns_.
  };
  struct Job {
    JobId id = 0;
    absl::Duration since;
  };
  struct Principal {
    absl::Duration used;  // Virtual: see Activate().
    std::deque<Job> waiting;
    int lanes = 0;
    uint64_t served = 0;

    bool active() const { return lanes > 0 || !waiting.empty(); }
  };
  using Principals = std::map<std::string, Principal, std::less<>>;

  int FreeLanes() const;
  bool MayTakeLane(std::string_view name, const Principal& principal) const;
  // The lane of `name` that wants the turn, the one that had it least recently; -1: none.
  int WantingLane(std::string_view name) const;
  Principal& Activate(std::string_view name);
  void Charge(std::string_view name, absl::Duration used);
  void ForgetIdle();

  const Options options_;
  std::vector<Lane> lanes_;
  Principals principals_;
  std::optional<int> holder_;
  int64_t waiting_ = 0;
  uint64_t turns_ = 0;
};

}  // namespace profd::worker

#endif  // PROFD_DAEMON_WORKER_FAIR_TURNS_H_
