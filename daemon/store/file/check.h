// Whether a capture file that a stranger made is whole: every table and every row of it is read
// once, within limits that are lower than those of files that this machine's own profd or profctl
// opens, since the daemon does it for anybody who may import.
//
// Threads: one, for seconds where the file is large.
// Memory:  what CaptureReader says, of at most kMaxCheckedTextBytes of text, and a chunk.
#ifndef PROFD_DAEMON_STORE_FILE_CHECK_H_
#define PROFD_DAEMON_STORE_FILE_CHECK_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace profd::store {

// Names, names of threads, and inputs of operators, all together.
inline constexpr int64_t kMaxCheckedTextBytes = 128 << 20;
inline constexpr int64_t kMaxCheckedNames = 1 << 20;
inline constexpr int64_t kMaxCheckedThreads = 1 << 16;
inline constexpr int64_t kMaxCheckedSteps = 1 << 20;
// Compressed, that many rows fit a small file: reading them must end all the same.
inline constexpr int64_t kMaxCheckedRows = int64_t{1} << 28;

// Checks a file that is open read-only, and returns how many events it has. INVALID_ARGUMENT
// (NOT_A_CAPTURE): it is no capture, is not finished, is damaged, or is larger than the limits.
// `still_wanted` is asked before every chunk: its error is returned.
absl::StatusOr<int64_t> CheckWholeCapture(int descriptor,
                                          absl::FunctionRef<absl::Status()> still_wanted);

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_CHECK_H_
