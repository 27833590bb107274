// How long ranks wait in sends and receives, as in a pipeline, whose stages exchange activations.
//
//   stage 0   ├── work ──┤send├── work ──┤send├
//   stage 1   ├── recv ───────┤ work ├─ recv ─┤ work ├
//             └─ wait ───┘           └wait┘
//
// A receive lasts until the peer has sent, and a send that is not buffered until the peer has begun
// to receive. Captures do not always name the peer. So a send or a receive waits for as long as it
// is exposed beyond the shortest one of its kind and size on any rank: that one is all transfer.
// Where each one waits, that is too little: the wait is a lower bound.
//
// Threads: any. Errors: none; any numbers are safe.
#ifndef PROFD_DAEMON_REPORT_RANKS_PEER_WAITS_H_
#define PROFD_DAEMON_REPORT_RANKS_PEER_WAITS_H_

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "daemon/report/ranks/collectives.h"

namespace profd::report {

// By member, then by the number of the step. Of members that are nullptr, nothing.
using PeerWaits = std::vector<std::map<int64_t, int64_t>>;
PeerWaits PeerWaitsOf(std::span<const CollectiveTable* const> members);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_RANKS_PEER_WAITS_H_
