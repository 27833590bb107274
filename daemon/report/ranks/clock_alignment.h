// Aligns the clocks of a job's ranks.
//
//   0. Members of one host share a clock: their offset is 0, and nothing shifts them.
//   1. What each node's clock was measured to be ahead, where it was measured (8 probes, the
//      one with the shortest way; good to some microseconds).
//   2. Matched collectives that no rank can end before all have begun, refined: they end on all
//      ranks at about the same time. A rank's clock is off by the median of how much later than
//      the others it saw them end. With 30 or more collectives, and a drift above the remaining
//      noise, a line replaces the median: through the medians of the first and the last third.
//      Medians are used because about 10 % of collectives end late on some rank.
//   3. Communicators are solved one by one and joined where they share ranks, the one with the
//      most collectives first. What stays apart is put right by the probes, or by wall clocks.
//   4. A pairing is checked against time: of one collective, no rank can end before all have begun.
//      One that would need a larger shift of the clocks than was measured, or is plausible, is
//      rejected. Where a clock was not measured, so is one that contradicts the clocks by more than
//      1 ms, as they were read and as aligned. All of a communicator are, if more than half of
//      them are. A clock that would leave the bound of its probe is not refined.
//   5. Where no clock was measured, and one shift of each clock makes all pairings fit, the clocks
//      may be further apart than is plausible: a host may have no NTP. Unless pairings are by
//      number, the shift has to be many steps, or the pairings may be off by some.
//
// The residual is how far a clock may still be off. It is found without knowing the truth: by
// aligning with the even and with the odd collectives alone, and comparing. It is at least the
// shift that the pairings would still need, rejected ones included. A rank that ends
// all collectives late by the same time looks to this, and to all that follows, like a clock that
// is ahead.
//
// Threads: any. Errors: none; any numbers are safe.
#ifndef PROFD_DAEMON_REPORT_RANKS_CLOCK_ALIGNMENT_H_
#define PROFD_DAEMON_REPORT_RANKS_CLOCK_ALIGNMENT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/capture/capture_types.h"
#include "daemon/report/ranks/collective_match.h"
#include "daemon/report/ranks/collectives.h"

namespace profd::report {

// A node's wall clock minus the common clock, and the bound on the error of that difference.
struct ClockProbe {
  int64_t offset_ns = 0;
  int64_t bound_ns = 0;
};

// How far wall clocks that were not measured may be apart: NTP keeps them far closer.
inline constexpr int64_t kPlausibleClockOffsetNs = 1'000'000'000;

// Unless many collectives agree on it. Further apart, the captures are not of one run.
inline constexpr int64_t kFarthestClockOffsetNs = int64_t{3'600} * 1'000'000'000;

// Returns the host whose clock the capture's times are of; empty: not known. The node of an import
// may be the one that imported the trace.
std::string ClockHostOf(const CaptureRecord& record);

struct ClockMember {
  int64_t start_unix_ns = 0;  // The origin of the times of `collectives`.
  std::optional<ClockProbe> probe;
  const CollectiveTable* collectives = nullptr;  // nullptr: none are known.
  std::string host;  // Members of the same one share a clock; empty: not known.
};

enum class ClockBasis {
  kWallClock,    // Only the node's own wall clock.
  kProbe,        // Its measured offset.
  kCollectives,  // Refined on matched collectives.
  kShared,       // All members have this clock.
};
std::string_view ToString(ClockBasis basis);  // "wall_clock"

// One rank's clock: common = its own - offset - drift * (its own - reference).
struct AlignedClock {
  ClockBasis basis = ClockBasis::kWallClock;
  int64_t reference_unix_ns = 0;
  double offset_ns = 0;
  double drift = 0;  // 1e-6: it gains a microsecond per second.
  // The possible error: the residual, or the probe's bound; -1: unknown.
  int64_t error_ns = -1;

  int64_t ToCommon(int64_t unix_ns) const;
};

struct ClockAlignment {
  std::vector<AlignedClock> members;
  int64_t collective_count = 0;  // Used.
  std::vector<bool> rejected;    // By match: its times do not fit one collective.
  int64_t rejected_count = 0;
  // The largest shift between two clocks that a rejected one would need, beyond their alignment.
  int64_t largest_shift_ns = 0;
  int64_t refined_count = 0;  // Members whose clock was refined on them.
  // Of clocks that were refined, over members and time; -1: none was, or too few to tell.
  int64_t residual_p50_ns = -1;
  int64_t residual_p99_ns = -1;
  // Distance of a collective's ends from their median after alignment: mostly differences between
  // ranks, not between clocks. -1: none.
  int64_t spread_p50_ns = -1;
  int64_t spread_p99_ns = -1;
};
// `matches` must come from the members' collectives.
ClockAlignment AlignClocks(std::span<const ClockMember> members,
                           std::span<const MatchedCollective> matches);

// Returns the matches that were not rejected.
std::vector<MatchedCollective> AcceptedMatches(std::span<const MatchedCollective> matches,
                                               const ClockAlignment& alignment);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_RANKS_CLOCK_ALIGNMENT_H_
