// What to do with a capture file that its daemon did not finish.
//
// Threads: one at a time per file; nobody else has the file open.
#ifndef PROFD_DAEMON_STORE_CAPTURE_RECOVERY_H_
#define PROFD_DAEMON_STORE_CAPTURE_RECOVERY_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/capture/capture_types.h"
#include "daemon/store/capture_file_seal.h"

namespace profd::store {

// Finishes ID.part from its whole chunks. `known` is what the catalog says of it, if
// anything. A capture that was still running becomes PARTIAL(daemon_stop), with windows told
// by its step marks (or its events' times) and `now` as its end; its start on the wall clock
// is then only known to within the time it took to arm. Chunks that do not read back are
// left out and counted as drops.
// NOT_FOUND: it holds no event. DATA_LOSS: it cannot be read. RESOURCE_EXHAUSTED: no room;
// it stays as it is.
absl::StatusOr<SealedCapture> RecoverCaptureFile(const CapturePaths& paths,
                                                 const std::optional<CaptureRecord>& known,
                                                 absl::Time now, const OpSummarizer& summarize_ops);

// What the record of a capture says of which an earlier daemon kept nothing.
void MarkStoppedByDaemon(CaptureRecord& record, absl::Time now);

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_CAPTURE_RECOVERY_H_
