// What profd-report gives up before it reads its first request: everything but memory, time, and
// the descriptors that it has or is given.
//
// * It dies with profd (PR_SET_PDEATHSIG), and the kernel ends it before profd if memory is short
//   (oom_score_adj).
// * No capabilities, no new privileges, no core dumps, not traceable (dumpable off).
// * A user and a network namespace of its own, where the kernel and the service manager permit.
// * No new descriptors or processes (RLIMIT_NOFILE, RLIMIT_NPROC), no files (RLIMIT_FSIZE).
// * A seccomp filter: system calls that are not on its list fail with EPERM. The list has no call
//   that opens a file or a socket, or starts a program. On x86-64 and AArch64; elsewhere the
//   program runs without it, and says so.
// * An address space of `max_memory_bytes` more than the program has now (RLIMIT_AS).
//
// In sanitizer builds there is no seccomp filter, no resource limit but that of core dumps, and the
// program stays traceable: sanitizers map terabytes of shadow memory, and start a tracer to look
// for leaks.
#ifndef PROFD_DAEMON_REPORT_WORKER_SANDBOX_H_
#define PROFD_DAEMON_REPORT_WORKER_SANDBOX_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/status/status.h"

namespace profd::report_worker {

// `yields_to_training`: nice 19 and the idle I/O class; else the priority of profd stays.
// UNAVAILABLE: `parent` is gone. INTERNAL: something that is never refused was refused.
absl::Status EnterSandbox(pid_t parent, int64_t max_memory_bytes, bool yields_to_training);

}  // namespace profd::report_worker

#endif  // PROFD_DAEMON_REPORT_WORKER_SANDBOX_H_
