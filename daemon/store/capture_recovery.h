// What to do with a capture file that its daemon did not finish.
//
// Threads: one at a time per file; nobody else has the file open.
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

// Finishes ID.part from its whole chunks. `known` is what the catalog says of it, if
// anything. A capture that was still running becomes PARTIAL(daemon_stop), with windows told
// by its step marks (or its events' times) and `now` as its end; its start on the wall clock
// is then only known to within the time it took to arm. Chunks that do not read back are
// left out and counted as drops.
// NOT_FOUND: it holds no event. DATA_LOSS: it cannot be read. RESOURCE_EXHAUSTED: no room;
// it stays as it is. `still_wanted` is asked between chunks; its error is returned.
absl::StatusOr<SealedCapture> RecoverCaptureFile(const CapturePaths& paths,
                                                 const std::optional<CaptureRecord>& known,
                                                 absl::Time now,
                                                 absl::FunctionRef<absl::Status()> still_wanted);

// Whether ID.part holds anything at all. Reads a page or two, so it may be wrong of a file that was
// being written: true where it cannot tell.
bool MayHoldEvents(const std::filesystem::path& part);

// What the record of a capture says of which an earlier daemon kept nothing.
void MarkStoppedByDaemon(CaptureRecord& record, absl::Time now);

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_CAPTURE_RECOVERY_H_
