// The trusted part of the record in a capture file that a caller sent: the trace's own figures,
// checked and cleaned. Requester, times of the request, and owner are replaced.
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

// The caller who imports a capture, as the daemon knows it. The caller owns the capture.
struct Importer {
  int64_t uid = -1;  // -1: not a user of this node.
  int64_t gid = -1;
  std::string principal;  // PrincipalName() (capture/access.h).
  std::string node;       // This node, for captures without a node name.
  std::string request_id;
};

// A capture that was imported has no more of each; an importer leaves out or joins the others.
inline constexpr size_t kMaxImportedWindows = 256;
inline constexpr size_t kMaxImportedStreams = 4096;

// Returns the record to keep, without the number of covered steps. Its ID and group are still those
// of the file; the store replaces them if they belong to another capture. INVALID_ARGUMENT: the
// file was not imported (`imported.source` is empty), did not end well, or has values that no
// importer writes.
absl::StatusOr<CaptureRecord> TakeImportedRecord(const CaptureRecord& untrusted,
                                                 const Importer& importer, absl::Time now);

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_IMPORTED_RECORD_H_
