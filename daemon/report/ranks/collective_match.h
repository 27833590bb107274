// Which collective of one rank is which of another: by (communicator, sequence number, operation,
// size), never by time, which is what alignment has yet to find.
//
// Where no sequence number is told, the order within a step is one: ranks that run one program
// call the same collectives in the same order. Where no communicator is told in any of the
// captures, all ranks are taken for one; where some tell theirs, those that do not are left out,
// and so is whatever one rank has twice.
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
    uint32_t member;  // Index into what was matched.
    uint32_t row;     // Index into its rows.
  };
  uint32_t communicator = 0;  // The same number for the same communicator.
  CollectiveKind kind = CollectiveKind::kOther;
  std::vector<Part> parts;  // By member, each once; two or more.
};

// By communicator, then in the order of the first member that has it. Members that are nullptr
// have none.
std::vector<MatchedCollective> MatchCollectives(std::span<const CollectiveTable* const> members);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_RANKS_COLLECTIVE_MATCH_H_
