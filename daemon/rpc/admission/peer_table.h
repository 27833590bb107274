// PeerTable: which connection, by the name gRPC gives it ("fd:4103"), belongs to whom.
//
// A number can come back for another connection. gRPC keeps the descriptor of a connection
// open as long as a call on it exists, so a call never meets its successor's entry; on top
// of that numbers are handed out in a cycle, and an entry is removed only by the ticket it
// was added with, so that a late removal cannot hit a successor.
//
// Threads:   any.
// Ownership: the ledger must outlive the table.
#ifndef PROFD_DAEMON_RPC_ADMISSION_PEER_TABLE_H_
#define PROFD_DAEMON_RPC_ADMISSION_PEER_TABLE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "daemon/quota/ledger.h"
#include "daemon/rpc/admission/peer.h"

namespace profd::rpc {

class PeerTable {
 public:
  // `ledger` decides who gets more connections; nullptr: only the two limits do.
  PeerTable(int64_t max_connections, int64_t max_connections_per_uid,
            quota::Ledger* ledger = nullptr)
      : max_connections_(max_connections),
        max_connections_per_uid_(max_connections_per_uid),
        ledger_(ledger) {}

  struct Ticket {
    int fd = -1;
    int64_t generation = 0;
  };

  // Counts a connection against the limits; false: there are too many. Add() or
  // Release() follows.
  bool Reserve(const Principal& who);
  void Release(const Principal& who);
  // `fd` is open and about to be given to gRPC; its connection was reserved.
  Ticket Add(int fd, const Peer& peer);
  // The connection is closed. Does nothing if the ticket's entry is not there any more.
  void Remove(Ticket ticket);

  // By grpc::ServerContext::peer(). nullopt: not one of ours.
  std::optional<Peer> Find(std::string_view grpc_peer) const;

  int64_t size() const;

 private:
  struct Entry {
    int64_t generation;
    Peer peer;
  };
  void ReleaseLocked(const Principal& who) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int64_t max_connections_;
  const int64_t max_connections_per_uid_;
  quota::Ledger* const ledger_;
  mutable absl::Mutex mu_;  // Before the ledger's.
  absl::flat_hash_map<int, Entry> entries_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, int64_t> count_by_uid_ ABSL_GUARDED_BY(mu_);
  int64_t count_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t last_generation_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_ADMISSION_PEER_TABLE_H_
