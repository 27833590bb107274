// What the store believes of the record in a capture file that a caller sent: the trace's own
// figures, checked and cleaned, and nothing of who asked, when, and whose it is.
//
// Threads: any; a pure function.
#ifndef PROFD_DAEMON_STORE_FILE_IMPORTED_RECORD_H_
#define PROFD_DAEMON_STORE_FILE_IMPORTED_RECORD_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/capture/capture_types.h"

namespace profd::store {

// Who imports a capture, as the daemon knows it: they own it.
struct Importer {
  int64_t uid = -1;  // -1: not a user of this node.
  int64_t gid = -1;
  std::string principal;  // PrincipalName() (capture/access.h).
  std::string node;       // This node, for captures that do not say which they are of.
  std::string request_id;
};

// The record of the capture as it is kept, without how many steps it covers. Its id and group are
// still those of the file, which the store replaces where they are another's. INVALID_ARGUMENT: the
// file was not imported (`imported.source` is empty), has not ended well, or says what no importer
// writes.
absl::StatusOr<CaptureRecord> TakeImportedRecord(const CaptureRecord& untrusted,
                                                 const Importer& importer, absl::Time now);

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_IMPORTED_RECORD_H_
