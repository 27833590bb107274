// Recovers a capture file that its daemon did not finish.
//
// Threads: one at a time per file; nothing else may have the file open.
#ifndef PROFD_DAEMON_STORE_CAPTURE_RECOVERY_H_
#define PROFD_DAEMON_STORE_CAPTURE_RECOVERY_H_

#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/capture/capture_types.h"
#include "daemon/store/file/seal.h"

namespace profd::store {

// Finishes ID.part from its complete chunks. `known` is the catalog's record, if any. A capture
// that was still running becomes PARTIAL(daemon_stop), with windows from its step marks (or its
// events' times) and `now` as its end. Its start on the wall clock is then only known to within the
// time that arming took. Unreadable chunks are left out and counted as drops. NOT_FOUND: no events.
// DATA_LOSS: unreadable. RESOURCE_EXHAUSTED: no room; the file is not changed. `still_wanted` is
// called between chunks; its error is returned.
absl::StatusOr<SealedCapture> RecoverCaptureFile(const CapturePaths& paths,
                                                 const std::optional<CaptureRecord>& known,
                                                 absl::Time now,
                                                 absl::FunctionRef<absl::Status()> still_wanted);

// Returns whether ID.part has any data. Reads a page or two, so it can be wrong for a file that was
// being written; if unsure, returns true.
bool MayHoldEvents(const std::filesystem::path& part);

// Sets the final state of a capture of which an earlier daemon kept nothing.
void MarkStoppedByDaemon(CaptureRecord& record, absl::Time now);

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_CAPTURE_RECOVERY_H_
