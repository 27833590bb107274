// The helper: the library's second thread, "profd-helper". It keeps the program's descriptor
// table, which the agent has left (own_files.h), and has no descriptor of its own there. It sleeps
// on a futex and does what the agent or a thread of the program cannot do:
//
//   AskForAgent()    any thread: a futex wake, no descriptor. The helper then wakes the agent.
//   RunOnHelper()    the agent: code that is not ours (PyTorch's functions), and new threads for
//                    such code (CUPTI's), which must see the program's descriptors.
//
// It sleeps on the main thread's ID, too, which tells it at once that the main thread has ended in
// pthread_exit() or SYS_exit; before Linux 5.16 it looks once a second. The library's threads then
// end, too, because the process ends with its last thread: profiling is off from then on. They end
// with the main thread's status (EndLibraryThread()). If the main thread has ended before the
// library starts, the agent sees that, and the threads end at once. Not known, and so not done: the
// kernel lacks PR_GET_TID_ADDRESS; or another thread than the main one started the library, and a
// seccomp filter is set, or the main thread's structure is not as in glibc.
//
// AwaitEndOfThread() waits until the kernel no longer counts a thread of the library, for calls
// that a process with several threads may not make.
//
// Threads: as above. Start(), Stop() one at a time, while the library starts. All signals are
//          blocked in it.
// Fork:    HelperResetInChild() forgets the thread.
#ifndef PROFD_CLIENT_LIB_CORE_HELPER_H_
#define PROFD_CLIENT_LIB_CORE_HELPER_H_

#include <cstddef>
#include <cstdint>

namespace profd::client {

// The system call futex_waitv: the same number on all architectures.
inline constexpr long kFutexWaitvCall = 449;

// Makes the thread, which has the calling thread's descriptor table. False: there is none to be
// had.
bool StartHelper();

// Ends it. `main_thread_status`: what the main thread has given to SYS_exit; 0: it has not, or that
// is not known.
void StopHelper(int main_thread_status = 0);

// The library's threads.
enum class LibraryThread : uint32_t { kAgent, kHelper, kGpu };
inline constexpr uint32_t kLibraryThreads = 3;

// The first call of each thread of the library.
void EnterLibraryThread(LibraryThread which);

// The last one. Linux takes the status of a process from its last thread, so this one ends here
// with the main thread's, if StopHelper() got one.
void EndLibraryThread(LibraryThread which);

// Waits until the kernel no longer counts this thread of the library, at most until `deadline_ns`
// (CLOCK_MONOTONIC). False: it still does.
bool AwaitEndOfThread(LibraryThread which, uint64_t deadline_ns);

// Whether the helper sees the main thread end; set by StartHelper().
bool MainThreadIsKnown();
// The main thread had ended when the library started. The agent's, if MainThreadIsKnown() is false.
void SetMainThreadGone();
// Whether the main thread is known to have ended.
bool MainThreadHasEnded();

// Has the agent look at what there is to do. Any thread; returns at once.
void AskForAgent();

// Runs `function` on the helper and waits for its end.
void RunOnHelper(void (*function)(void* argument), void* argument);

void HelperResetInChild();

// A detached thread of the library, in which all signals are blocked. A larger stack where the
// static TLS of the program's libraries alone does not fit into `stack_bytes`.
bool StartLibraryThread(LibraryThread which, void* (*run)(void*), void* argument,
                        size_t stack_bytes);

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_HELPER_H_
