// Which nodes people mean: lists of hosts, files of them, DNS names, a Slurm job.
//
//   gpu[001-128]            a hostlist (hostlist.h), at the default port
//   gpu[001-128]:7000       at another one
//   [fd00::7]:7000          an IPv6 address
//   /run/a/control.sock     a unix socket, also as unix:PATH
//   gpu001=/tmp/gpu001.sock a name for an address of any kind, as for sockets made by `ssh -L`
//   @FILE                   every line of it a list as above; # starts a comment
//   dns:profd.monitoring    every address that the name has, as of a headless Service
//
// Errors: INVALID_ARGUMENT (USAGE) for what is malformed; NOT_FOUND or UNAVAILABLE (LOCAL) with
//         what the file system, the resolver or Slurm said.
#ifndef PROFD_CLI_CAPTURES_NODE_SOURCE_H_
#define PROFD_CLI_CAPTURES_NODE_SOURCE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace profd::cli {

inline constexpr size_t kMaxNodes = 16'384;

struct NamedNode {
  std::string name;         // Unique in its list: the host, with the port where hosts repeat.
  std::string address;      // "gpu001:7411", "[fd00::7]:7411", "unix:/run/a/control.sock"
  std::string server_name;  // In its certificate, where that is not the host; else empty.

  friend bool operator==(const NamedNode&, const NamedNode&) = default;
};

// The nodes that `text` names, each address once. Reads files and asks the resolver.
absl::StatusOr<std::vector<NamedNode>> ResolveNodes(std::string_view text);

// As ResolveNodes(), for what needs neither a file nor the resolver; @FILE and dns: are refused.
absl::StatusOr<std::vector<NamedNode>> ParseNodes(std::string_view text);

// The nodes that Slurm runs `job` on, by squeue. Says so where there is no Slurm, no such job,
// or a job that does not run yet.
absl::StatusOr<std::vector<NamedNode>> NodesOfSlurmJob(std::string_view job);

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_NODE_SOURCE_H_
