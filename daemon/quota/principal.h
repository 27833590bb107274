// Whom quotas count: a uid plus the job or pod that the kernel says it runs in. Clusters that
// run everything as uid 0 still have one principal per job. Remote callers are what their
// certificate says.
//
// Quotas are shared in two levels: first between accounts (a uid, a certificate), then between
// the jobs of one account. A user who invents jobs shares only with itself.
#ifndef PROFD_DAEMON_QUOTA_PRINCIPAL_H_
#define PROFD_DAEMON_QUOTA_PRINCIPAL_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace profd::quota {

struct Principal {
  std::string account;  // "uid:1000", "cn:alice"
  std::string name;     // "uid:1000", "uid:0/job:88123", "uid:0/pod:8c2a...", "cn:alice"
  // May use root's reserve: uid 0, or the uid of profd itself, outside of any job, pod, and
  // container.
  bool is_operator = false;

  friend bool operator==(const Principal&, const Principal&) = default;
};

// Where a local process runs, from its cgroup; each may be empty. The first that is not counts.
struct Place {
  std::string_view job;        // Slurm's.
  std::string_view pod;        // The UID of Kubernetes' pod.
  std::string_view container;  // 64 hex digits; empty if root did not make it.
  bool in_container = false;   // Also of a name that a user may have made: never an operator.
};

// `own_uid` is geteuid() of profd.
Principal LocalPrincipal(int64_t uid, int64_t own_uid, const Place& place = {});
// `name` as the audit log has it: "cn:alice", "spiffe://...", "unknown".
Principal RemotePrincipal(std::string_view name);
// The inverse of Principal::name, for names that were stored.
Principal PrincipalFromName(std::string_view name, int64_t own_uid);

// What `reader` may be told of `who`: the name to operators and to its own account, otherwise
// the uid without its job ("uid 1002"), or "a remote caller".
std::string NameFor(const Principal& reader, const Principal& who);

}  // namespace profd::quota

#endif  // PROFD_DAEMON_QUOTA_PRINCIPAL_H_
