// The library's life in a process: loaded, started (at most one agent thread), off for
// good, forked.
//
//   kNew ── profd_init(), first step mark, ───► kStarting ──► kRunning
//    │ ▲    injection, PROFD_START                │            │
//    │ └──────────────── fork, in the child ──────┼────────────┘
//    └── PROFD_DISABLE, no thread to be had, ─────┴──► kDisabled
//        or a system call is refused
//
// StopThreads() leads from kRunning to kStopped; from there RestartThreads() leads to kStarting,
// and StayStopped() to kStayStopped, which is like kDisabled, but not in a child that is forked.
//
// Threads: any. Start() returns without waiting, whoever else is starting, and neither it nor
//          the agent asks the loader for anything: it may be called from inside a dlopen().
// Fork:    handlers are registered by the first Start(). A child of a started process
//          starts again by itself at its first step mark or range.
#ifndef PROFD_CLIENT_LIB_CORE_LIFECYCLE_H_
#define PROFD_CLIENT_LIB_CORE_LIFECYCLE_H_

#include <cstddef>
#include <cstdint>

#include "client_lib/core/hot_state.h"

namespace profd::client {

// Sets the library up as far as it goes without a thread. By the loader, before main();
// calling it again does nothing.
void Load();

bool IsDisabled();
// Whether the library's threads must end: it is disabled, or they are to be stopped.
bool MustThreadsEnd();

// Turns profiling off in this process, for the agent that cannot work: `call` failed with `error`.
void StayOff(const char* call, int error);

// Turns profiling off, because the main thread has ended: threads of the library must not keep the
// process alive. The helper's, or the agent's as it starts.
void EndWithMainThread();

// Whether the agent runs, in this very process.
inline bool IsStarted() { return PROFD_LIKELY(g_hot.alive.load(std::memory_order_acquire) != 0); }

// Starts the agent if it is not running. False: disabled.
bool Start();

// As Start(), and has an agent that waits for a daemon look at once.
bool StartAndLookForDaemon();

// Ends the library's threads and with them the connection and a capture. Returns once the kernel
// counts them no more, so that the process may make calls that need a single thread. False: the
// library is not running, its threads did not end within 3 s, the calling thread has stopped them
// already, or another one has for longer than 4 s.
bool StopThreads();

// After StopThreads() returned true: starts them again.
void RestartThreads();

// Or turns profiling off in this process, without a system call: a filter may kill for any.
void StayStopped();

// The first annotation in a forked child.
void RegisterForkedChild();

// The pid of the nearest ancestor that was registered with a daemon when it forked; 0.
uint32_t RegisteredParentPid();

// Where to look for the daemon's socket, in this order; constant once started.
inline constexpr uint32_t kMaxSocketPaths = 2;
uint32_t SocketPathCount();
const char* SocketPath(uint32_t index);

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_LIFECYCLE_H_
