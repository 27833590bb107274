// Which Slurm job or Kubernetes pod a process belongs to, from its cgroup. This may decide who may
// do what, so only folders that root created count: those that a path names before the first
// cgroup that may be delegated to a user. What a process says about itself does not count.
//
// Threads: any.
#ifndef PROFD_DAEMON_INGEST_WORKLOAD_H_
#define PROFD_DAEMON_INGEST_WORKLOAD_H_

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/capture/capture_types.h"

namespace profd {

// Where the kubelet has a folder NAMESPACE_NAME_UID for every pod of the node.
inline constexpr char kPodLogs[] = "/var/log/pods";

// The mounted cgroup file systems, for a second check of who created a folder.
class CgroupFolders {
 public:
  explicit CgroupFolders(std::filesystem::path mount = "/sys/fs/cgroup")
      : mount_(std::move(mount)) {}

  // False if the folder belongs to another user than root, or is there and cannot be looked at.
  // `controllers` and `path` are
  // those of a line of /proc/PID/cgroup.
  bool MadeByRoot(std::string_view controllers, std::string_view path) const;

 private:
  const std::filesystem::path mount_;
};

// Reads the text of /proc/PID/cgroup (versions 1 and 2): the Slurm job, the pod's uid, and the ID
// of the innermost container. A job or pod counts only if the path names it from the hierarchy's
// root, in folders whose children only root creates, and `folders` (unless null) does not object.
// The container ID is a hint for display: a user may create such a name.
Workload WorkloadOf(std::string_view cgroup, const CgroupFolders* folders = nullptr);

// Returns the ID of the outermost container if root made its folder, as the job's and pod's above;
// otherwise an empty string. Quotas count this one: a user may create any number of names below.
std::string RootContainerOf(std::string_view cgroup, const CgroupFolders* folders = nullptr);

// Adds the namespace and name of the pod whose uid is known, where `pod_logs`, which only root may
// write, has its folder.
void FindPodNames(const std::filesystem::path& pod_logs, Workload& workload);

// Whether a target's words about itself say that it is not to be captured: `optout` is there, and
// not empty, "0" or "false".
bool AsksNotToBeCaptured(const std::map<std::string, std::string>& metadata);

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_WORKLOAD_H_
