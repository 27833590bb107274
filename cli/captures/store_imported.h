// Where a capture file that `profctl import` made goes: to the daemon, or, where none runs, into
// the store itself.
//
//   --data-dir DIR     the store in DIR, under its lock; a daemon that has it is named and refused
//   a daemon answers   it is uploaded, checked, and owned by the caller
//   none answers, and  the store that a profd of this user would have, as with --data-dir;
//   none was named     made if it is not there
//
// Threads: one caller.
// Errors:  those of DaemonClient; FAILED_PRECONDITION (LOCAL): another process has the store;
//          DATA_LOSS: the file is damaged; RESOURCE_EXHAUSTED: no room, or larger than is taken.
#ifndef PROFD_CLI_CAPTURES_STORE_IMPORTED_H_
#define PROFD_CLI_CAPTURES_STORE_IMPORTED_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "cli/base/interrupts.h"
#include "cli/client/invocation.h"

namespace profd::cli {

struct StoredImport {
  std::string id;        // Under which it is found: the file's own, or a new one where it is taken.
  std::string group_id;  // The file's own; empty: it has none, or one that is others'.
};
// Stores a copy of the finished capture file at `path`, whose record says where it comes from
// (CaptureRecord::imported.source is not empty). `on_bytes` hears of bytes done, and in all. An
// interrupt ends it as CANCELLED.
absl::StatusOr<StoredImport> StoreImported(Invocation& invocation, Interrupts& interrupts,
                                           const std::string& path,
                                           absl::FunctionRef<void(int64_t, int64_t)> on_bytes);

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_STORE_IMPORTED_H_
