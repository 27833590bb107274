// How ingest's threads present themselves to the system.
#ifndef PROFD_DAEMON_INGEST_INGEST_THREAD_H_
#define PROFD_DAEMON_INGEST_INGEST_THREAD_H_

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <thread>
#include <utility>

namespace profd {

// A thread of that name (at most 15 bytes) that handles no signals. Not joinable if the system has
// no room for one: TasksMax= of profd's unit, pids.max of its cgroup, RLIMIT_NPROC.
template <typename Run>
std::jthread StartIngestThread(const char* name, Run run) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // Inherited: the thread never has a moment in which it could be interrupted.
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::jthread thread;
  try {
    thread = std::jthread([name, run = std::move(run)]() mutable {
      pthread_setname_np(pthread_self(), name);
      run();
    });
  } catch (const std::system_error&) {
    // It stays as it is: the caller has a better way to say so than to end all captures.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_INGEST_THREAD_H_
