// How often finishing a capture's file was begun and never ended: ID.attempts, a number in a file.
// It is on the disk before each attempt, so a file that ends the daemon does so a bounded number of
// times (kMaxRecoveryAttempts), whatever the reason.
//
// Threads: any; one at a time per capture.
#ifndef PROFD_DAEMON_STORE_RECOVERY_ATTEMPTS_H_
#define PROFD_DAEMON_STORE_RECOVERY_ATTEMPTS_H_

#include "absl/status/statusor.h"
#include "daemon/store/file/seal.h"

namespace profd::store {

inline constexpr std::string_view kAttemptsSuffix = ".attempts";

// Counts an attempt that begins, durably, and returns its number, from 1. RESOURCE_EXHAUSTED: the
// disk is full, nothing is counted, and nothing may be attempted.
absl::StatusOr<int> BeginAttempt(const CapturePaths& paths);
// The attempt ended, with success or an error: the daemon lives.
void EndAttempt(const CapturePaths& paths);

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_RECOVERY_ATTEMPTS_H_
