// Who is at the other end of a socket, as the kernel tells it.
//
// Threads: any.
#ifndef PROFD_DAEMON_INGEST_PROCESS_INFO_H_
#define PROFD_DAEMON_INGEST_PROCESS_INFO_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/base/unique_fd.h"
#include "daemon/capture/capture_types.h"
#include "daemon/privilege/process_reader.h"

namespace profd {

// A process that cannot be mistaken for a later one of the same pid: `pidfd` names it.
struct PeerProcess {
  int64_t pid = 0;  // In our pid namespace.
  int64_t uid = 0;
  int64_t gid = 0;
  UniqueFd pidfd;  // Readable once the process has ended.
};

// The process that connected `socket`, from SO_PEERCRED. NOT_FOUND: it has ended, or
// lives where our pid namespace does not reach.
absl::StatusOr<PeerProcess> IdentifyPeer(int socket);

// True once the process of `pidfd` has ended.
bool HasEnded(int pidfd);

// True if a signal has stopped the process of that pid, which began at `start_ticks`. False: it
// runs or waits, or cannot be seen. A thread that strace(1) holds for a moment is not stopped.
bool IsStopped(int64_t pid, int64_t start_ticks);
// The CPU time that it has used, in clock ticks; nullopt: it is not stopped, neither by a signal
// nor by a debugger. Two looks with one time saw one stop, or several between which it hardly ran.
std::optional<int64_t> CpuTicksOfStopped(int64_t pid, int64_t start_ticks);

// What /proc says of a process. `command` and `cgroup` are cleaned for display.
struct ProcessFacts {
  int64_t start_ticks = 0;  // With the pid, names the process.
  int64_t parent_pid = 0;
  int64_t namespace_pid = 0;
  // In another pid or user namespace than we, or it cannot be told.
  bool foreign_namespace = true;
  std::string command;
  std::string cgroup;
  Workload workload;           // Without the names of the pod.
  std::string root_container;  // RootContainerOf() its cgroup.
};

// Interprets what /proc says. `self` is our own folder there, for the namespaces that are ours.
ProcessFacts ProcessFactsFrom(const ProcFacts& proc,
                              const std::filesystem::path& self = "/proc/self");

// Reads and interprets the process of `pidfd`. NOT_FOUND: it has ended, or cannot be seen.
absl::StatusOr<ProcessFacts> ReadProcessFacts(ProcessReader& reader, int pidfd);

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_PROCESS_INFO_H_
