// Checks that a capture file from another source is complete: every table and every row is read
// once. Limits are lower than for files that this machine's own profd or profctl opens, because the
// daemon checks files for every caller that may import.
//
// Threads: one, for seconds if the file is large.
// Memory:  that of CaptureReader, with at most kMaxCheckedTextBytes of text, and a chunk.
#ifndef PROFD_DAEMON_STORE_FILE_CHECK_H_
#define PROFD_DAEMON_STORE_FILE_CHECK_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace profd::store {

// Names, thread names, and inputs of operators together.
inline constexpr int64_t kMaxCheckedTextBytes = 128 << 20;
inline constexpr int64_t kMaxCheckedNames = 1 << 20;
inline constexpr int64_t kMaxCheckedThreads = 1 << 16;
inline constexpr int64_t kMaxCheckedSteps = 1 << 20;
// Compressed, this many rows fit a small file, so reading needs a limit.
inline constexpr int64_t kMaxCheckedRows = int64_t{1} << 28;

// Checks a file that is open read-only, and returns its number of events. INVALID_ARGUMENT
// (NOT_A_CAPTURE): not a capture, unfinished, damaged, or beyond the limits. `still_wanted` is
// called before every chunk; its error is returned.
absl::StatusOr<int64_t> CheckWholeCapture(int descriptor,
                                          absl::FunctionRef<absl::Status()> still_wanted);

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_CHECK_H_
