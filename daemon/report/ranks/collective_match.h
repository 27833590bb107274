// Matches the collectives of different ranks by (communicator, sequence number, operation, size).
// Times are not used, because alignment depends on the result.
//
// Without sequence numbers, the order within a step is used: ranks that run one program call the
// same collectives in the same order. If no capture has communicators, all ranks count as one
// communicator. If only some have, collectives without one are left out, and so are duplicates of
// one rank. Groups of the same ranks are distinguished by the names that torch and the program gave
// them; names that not all members have are ignored, first torch's and then the program's.
#ifndef PROFD_DAEMON_REPORT_RANKS_COLLECTIVE_MATCH_H_
#define PROFD_DAEMON_REPORT_RANKS_COLLECTIVE_MATCH_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/report/ranks/collectives.h"

namespace profd::report {

// One collective, as several ranks ran it.
struct MatchedCollective {
  struct Part {
    uint32_t member;  // Index into the matched tables.
    uint32_t row;     // Index into its rows.
  };
  uint32_t communicator = 0;  // The same number for the same communicator.
  CollectiveKind kind = CollectiveKind::kOther;
  std::vector<Part> parts;  // By member, each once; two or more.
};

// Returns matches by communicator, then in the order of the first member that has it. nullptr
// members have no collectives.
std::vector<MatchedCollective> MatchCollectives(std::span<const CollectiveTable* const> members);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_RANKS_COLLECTIVE_MATCH_H_
