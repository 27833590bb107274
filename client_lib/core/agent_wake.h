// How the helper wakes the agent out of poll(), without a descriptor that the program could close.
//
//   in a table of its own:     the helper sends the agent's thread a signal of glibc's, which is
//                              blocked there for good. It stays pending, no handler runs, and a
//                              signalfd in the agent's table becomes readable. Where that one may
//                              not be sent, SIGURG: the signalfd then also takes a SIGURG of the
//                              whole process, if all of its threads block it.
//   in the program's table:    a pair of sockets, checked before each use (own_files.h). A program
//                              may close them, so the agent also looks every kSharedCheckMs.
//
// Threads: Open(), Fd(), Drain(), Close() the agent's; Ring() the helper's; ResetInChild() a forked
//          child's only thread.
#ifndef PROFD_CLIENT_LIB_CORE_AGENT_WAKE_H_
#define PROFD_CLIENT_LIB_CORE_AGENT_WAKE_H_

namespace profd::client::agent_wake {

inline constexpr int kSharedCheckMs = 1000;

// After LeaveProgramFiles(). False: a system call that it needs is refused; errno says why.
bool Open();

// What to poll. -1: there is none at the moment.
int Fd();

void Drain();

// False: at the moment nothing may be sent (the user has too many pending signals); try again.
bool Ring();

void Close();

void ResetInChild();

}  // namespace profd::client::agent_wake

#endif  // PROFD_CLIENT_LIB_CORE_AGENT_WAKE_H_
