// Who is at the other end of a connection to the control socket, from what the kernel says.
//
// A local caller is its uid. Two things take that away: a peer in another pid or user namespace,
// or in a container that profd is not in, is not a caller at all. A uid there may be
// somebody else's here, and the only thing that may reach out of a container is the
// agent's socket, to register as a target. Where the kernel does not let us look at the
// peer's namespaces, other uids keep what is theirs and root is refused. A peer that has
// ended before we looked is refused: it may have passed the connection on.
//
// Known gap: before Linux 6.5 (SO_PEERPIDFD) a peer whose pid was given to another process
// between connect and accept is taken for that process's place, though never for its uid.
//
// Threads: any.
#ifndef PROFD_DAEMON_RPC_ADMISSION_PEER_H_
#define PROFD_DAEMON_RPC_ADMISSION_PEER_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/capture/access.h"
#include "daemon/privilege/process_reader.h"

namespace profd::rpc {

// The caller, on this machine or another.
struct Peer {
  Principal principal;
  int64_t pid = 0;           // Local: in our pid namespace; 0: not in it.
  bool outside = true;       // Of our namespaces or container: may not call.
  bool place_known = false;  // Whether its namespaces could be read.
  std::string address;       // For the audit log: "unix:4711", "ipv4:10.0.0.7:41234".
};

// Facts about a process that decide whether it is outside.
struct ProcessPlace {
  std::string user_namespace;  // Device and inode; empty: not readable.
  std::string pid_namespace;
  std::string container;  // From its cgroup; empty: in none (or not readable).
  std::string job;        // Slurm's, likewise; for quotas alone.
};

ProcessPlace PlaceFrom(const ProcFacts& facts);

// The 64 hex digits that container runtimes put into the path of a container's cgroup, of
// the innermost one; empty: none. `cgroup` is the text of /proc/PID/cgroup.
std::string ContainerOf(std::string_view cgroup);

// The rule above.
bool IsOutside(int64_t uid, int64_t pid, const ProcessPlace& peer, const ProcessPlace& ours);

// Who connected an AF_UNIX stream socket, in one system call. INTERNAL if the kernel will not say.
struct PeerIds {
  int64_t uid = 0;
  int64_t gid = 0;
  int64_t pid = 0;  // As in Peer.
};
absl::StatusOr<PeerIds> PeerIdsOf(int socket_fd);

// The same and all the rest, some of it read from /proc. RESOURCE_EXHAUSTED: nothing can be read
// for want of file descriptors.
absl::StatusOr<Peer> IdentifyPeer(int socket_fd,
                                  ProcessReader& processes = ProcessReader::Direct());

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_ADMISSION_PEER_H_
