// Which targets a person means by pids. Of each pid, the first of these that holds:
//
//  1. a target has it (a pid in profd's own pid namespace). One that never marked a step, while
//     targets below it have, is their launcher and stands for those;
//  2. targets run below that process: it is their shell or launcher;
//  3. exactly one target in a container has it as its own pid there.
//
// Only targets the caller may touch are ever returned; what belongs to others is said to
// (who owns a pid is no secret on Linux), but not what it is.
//
// Threads: any.
#ifndef PROFD_DAEMON_RPC_SERVICES_TARGET_RESOLVER_H_
#define PROFD_DAEMON_RPC_SERVICES_TARGET_RESOLVER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/capture/capture_manager.h"
#include "daemon/capture/capture_types.h"
#include "daemon/rpc/admission/process_table.h"

namespace profd::rpc {

inline constexpr int64_t kMaxResolvePids = 1024;

// Each target once, by pid. `targets` is everything registered. With `all`: all of the
// caller's; with no pid: the only one. The errors are those of TargetService.ResolveTargets:
//   INVALID_ARGUMENT     too many pids, a pid below 1, or pids and `all`
//   NOT_FOUND            NO_SUCH_PROCESS
//   PERMISSION_DENIED    OTHER_OWNER
//   FAILED_PRECONDITION  NOT_INSTRUMENTED, AMBIGUOUS_PID, NO_TARGETS, SEVERAL_TARGETS
absl::StatusOr<std::vector<TargetInfo>> ResolveTargets(const Caller& caller,
                                                       const std::vector<int64_t>& pids, bool all,
                                                       const std::vector<TargetInfo>& targets,
                                                       const ProcessTable& processes);

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVICES_TARGET_RESOLVER_H_
