// Debian's Abseil is built for debugging: at every lock it adds to a graph of all locks, and
// searches that for deadlocks. It was 6 % of the CPU time of a process with 600 connections. Tests
// keep the search; programs skip it.
#ifndef PROFD_DAEMON_BASE_LOCK_CHECKS_H_
#define PROFD_DAEMON_BASE_LOCK_CHECKS_H_

#include "absl/synchronization/mutex.h"

namespace profd {

// Call it before other threads start.
inline void SkipLockChecks() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_LOCK_CHECKS_H_
