// What a capture would do to a process that cannot bear it, judged from /proc before ARM is sent:
// the target itself could not tell any more.
//
// * A seccomp filter that the process set for all its threads since it registered. The library asks
//   before it starts whether a filter kills a process for its system calls; this one came later,
//   and the next one that the agent makes may be its last, and the process's.
// * A limit of the address space (RLIMIT_AS, as batch systems set it) that has too little left: the
//   capture memory would take what the program is about to ask for.
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
