// What profd-helper gives up before its first request.
//
// Threads: the one that runs main(); call once.
#ifndef PROFD_DAEMON_PRIVILEGE_HELPER_SANDBOX_H_
#define PROFD_DAEMON_PRIVILEGE_HELPER_SANDBOX_H_

namespace profd {

// Closes all descriptors but the standard ones and `connection`, which must be 3.
bool CloseOtherDescriptors(int connection);

// Keeps CAP_SYS_PTRACE (namespaces and memory of other users' processes) and CAP_DAC_READ_SEARCH
// (their files in /proc), of those the process has, and sets no_new_privs.
bool KeepNeededCapabilities();

// Installs a seccomp filter: reading files, this connection, and nothing else. open() for writing,
// exec, sockets, ptrace() and signals fail with EPERM. Sanitizers need more: their builds have
// none.
bool AllowOnlyNeededSystemCalls();

}  // namespace profd

#endif  // PROFD_DAEMON_PRIVILEGE_HELPER_SANDBOX_H_
