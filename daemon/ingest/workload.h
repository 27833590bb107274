// Which piece of work a process is part of, from its cgroup: only root puts a process into one, so
// this may decide who may do what. What a process says of itself may not.
//
// Threads: any.
#ifndef PROFD_DAEMON_INGEST_WORKLOAD_H_
#define PROFD_DAEMON_INGEST_WORKLOAD_H_

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "daemon/capture/capture_types.h"

namespace profd {

// Where the kubelet has a folder NAMESPACE_NAME_UID for every pod of the node.
inline constexpr char kPodLogs[] = "/var/log/pods";

// From the text of /proc/PID/cgroup (both versions): Slurm's job, Kubernetes' pod, and the id of
// the innermost container. Without the names of the pod.
Workload WorkloadOf(std::string_view cgroup);

// Adds the namespace and name of the pod whose uid is known, where `pod_logs`, which only root may
// write, has its folder.
void FindPodNames(const std::filesystem::path& pod_logs, Workload& workload);

// Whether a target's words about itself say that it is not to be captured: `optout` is there, and
// not empty, "0" or "false".
bool AsksNotToBeCaptured(const std::map<std::string, std::string>& metadata);

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_WORKLOAD_H_
