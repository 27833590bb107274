// Counts attempts to finish a capture's file that never ended: ID.attempts, a number in a file. The
// number is on the disk before each attempt. So a file that makes the daemon crash does that a
// bounded number of times (kMaxRecoveryAttempts), whatever the reason.
//
// Threads: any; one at a time per capture.
#ifndef PROFD_DAEMON_STORE_RECOVERY_ATTEMPTS_H_
#define PROFD_DAEMON_STORE_RECOVERY_ATTEMPTS_H_

#include "absl/status/statusor.h"
#include "daemon/store/file/seal.h"

namespace profd::store {

inline constexpr std::string_view kAttemptsSuffix = ".attempts";

// Durably counts the start of an attempt, and returns its number, from 1. RESOURCE_EXHAUSTED: the
// disk is full, nothing was counted, and no attempt may be made.
absl::StatusOr<int> BeginAttempt(const CapturePaths& paths);
// Records that the attempt ended, with success or an error, and the daemon survived it.
void EndAttempt(const CapturePaths& paths);

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_RECOVERY_ATTEMPTS_H_
