// Whether the system calls that the library makes would end the program. A seccomp filter may
// answer a call with an error, which the library handles, or kill the process, which it cannot.
//
// Filters cannot be read. So where one is set, a short-lived child makes the calls with arguments
// that do nothing. It shares the program's memory, as after vfork(), and no signal is sent when it
// ends. Without a filter there is no child.
//
// A filter that the program sets later for all its threads (SECCOMP_FILTER_FLAG_TSYNC) is not
// foreseen.
#ifndef PROFD_CLIENT_LIB_CORE_SECCOMP_PROBE_H_
#define PROFD_CLIENT_LIB_CORE_SECCOMP_PROBE_H_

namespace profd::client {

// Whether a filter of the calling thread kills a process that makes the library's calls. Takes
// some 30 us without a filter. One thread at a time.
bool SeccompWouldKill();

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_SECCOMP_PROBE_H_
