// Bytes as the text of /proc/PID/cgroup: a job or a pod comes only from a line that names it
// outside of cgroups that may be delegated to a user.
#include <algorithm>
#include <string>
#include <string_view>

#include "daemon/ingest/workload.h"
#include "tests/fuzz/fuzz_target.h"

namespace profd {
namespace {

bool IsHexOrDash(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == '-'; }

void CheckWorkload(const Workload& workload) {
  Require(workload.slurm_job.size() <= 20);
  Require(std::ranges::all_of(workload.slurm_job, [](char c) { return c >= '0' && c <= '9'; }));
  Require(workload.pod_uid.empty() || workload.pod_uid.size() == 32 ||
          workload.pod_uid.size() == 36);
  Require(std::ranges::all_of(workload.pod_uid, IsHexOrDash));
  Require(workload.container_id.empty() || workload.container_id.size() == 64);
}

// Puts a prefix in front of the path of every line.
std::string Below(std::string_view prefix, std::string_view cgroup) {
  std::string text;
  while (!cgroup.empty()) {
    const size_t end = std::min(cgroup.find('\n'), cgroup.size());
    const std::string_view line = cgroup.substr(0, end);
    cgroup.remove_prefix(std::min(end + 1, cgroup.size()));
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    text.append(line.substr(0, second + 1)).append(prefix).append(line.substr(second + 1));
    text.push_back('\n');
  }
  return text;
}

}  // namespace
}  // namespace profd

PROFD_FUZZ_TARGET(FuzzCgroup)(std::span<const uint8_t> data) {
  using namespace profd;
  const std::string_view cgroup(reinterpret_cast<const char*>(data.data()), data.size());
  CheckWorkload(WorkloadOf(cgroup));
  // The same text as the path inside a user's delegated cgroup names no job and no pod.
  const Workload delegated =
      WorkloadOf(Below("/user.slice/user-1000.slice/user@1000.service/", cgroup));
  Require(delegated.slurm_job.empty() && delegated.pod_uid.empty());
  // Inside a job or a pod it cannot name another one.
  const Workload in_job = WorkloadOf(Below("/system.slice/slurmstepd.scope/job_5/step_0/", cgroup));
  Require(in_job.slurm_job.empty() || in_job.slurm_job == "5");
  Require(in_job.pod_uid.empty());
}
