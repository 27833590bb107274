// What TargetServer knows of one connection; private to target_server*.cc.
#ifndef PROFD_DAEMON_INGEST_TARGET_SERVER_PEER_H_
#define PROFD_DAEMON_INGEST_TARGET_SERVER_PEER_H_

#include <cstdint>

#include "absl/time/time.h"
#include "daemon/capture/capture_types.h"
#include "daemon/ingest/connection.h"
#include "daemon/ingest/target_server.h"

namespace profd {

// What epoll says of a descriptor. Peers have 2 * id (socket) and 2 * id + 1 (pidfd).
inline constexpr uint64_t kListenerTag = 0;
inline constexpr uint64_t kWakeupTag = 1;

struct TargetServer::Peer {
  Connection connection;
  TargetNumber target = 0;  // 0: no HELLO yet.
  int64_t process_start_ticks = 0;
  bool hung_up = false;
  // Until HELLO, or, hung up, until the process's end is no more expected.
  absl::Duration deadline = absl::InfiniteDuration();
  // A capture whose memory it has not let go of; 0: none.
  uint64_t unanswered_number = 0;

  bool pending() const { return target == 0; }
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_TARGET_SERVER_PEER_H_
