// Whether a capture could end or starve a process, judged from /proc before ARM is sent.
//
// * A seccomp filter that the process set for all its threads after it registered. The library
// tests
//   the filters that exist when it starts; a later one may end the process at the agent's next
//   system call.
// * An address-space limit (RLIMIT_AS, which some batch systems set) with too little left: the
//   capture memory would take what the program needs.
//
// Threads: any. Calls read some small files of /proc.
// Errors:  what cannot be read is no reason against a capture.
#ifndef PROFD_DAEMON_INGEST_ARM_GUARD_H_
#define PROFD_DAEMON_INGEST_ARM_GUARD_H_

#include <cstdint>
#include <filesystem>

#include "absl/status/status.h"
#include "daemon/capture/capture_types.h"

namespace profd {

// Looks for the agent among the first thousand or so threads of the process.
AgentThread FindAgentThread(int64_t pid, const std::filesystem::path& proc = "/proc");

// `map_bytes`: what the target would map. FAILED_PRECONDITION: SECCOMP_FILTER or ADDRESS_SPACE.
absl::Status MayBeArmed(int64_t pid, const AgentThread& agent, int64_t map_bytes,
                        const std::filesystem::path& proc = "/proc");

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_ARM_GUARD_H_
