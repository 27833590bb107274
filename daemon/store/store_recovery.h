// Makes catalog and capture files agree again when a store is opened, whatever moment the
// last daemon ended at.
//
//   row, file                          becomes
//   running, ID.part with events       PARTIAL(daemon_stop), ID.profd
//   running, nothing or an empty part  FAILED(daemon_stop)
//   running, ID.profd                  what the file says
//   ended, ID.part                     finished late
//   deleted, any file                  no file
//   file expected, none                deleted
//   no row, any file                   a row from the file's own record
//   ID.upload                          removed
//   any row, a damaged file            ID.damaged is kept aside; the row says so
//
// Threads: one, before the store is used.
#ifndef PROFD_DAEMON_STORE_STORE_RECOVERY_H_
#define PROFD_DAEMON_STORE_STORE_RECOVERY_H_

#include <filesystem>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/store/capture_file_seal.h"
#include "daemon/store/catalog.h"

namespace profd::store {

// A file that cannot be saved is logged and is no error; only the catalog's errors are.
absl::Status RecoverStore(Catalog& catalog, const std::filesystem::path& folder, absl::Time now,
                          const OpSummarizer& summarize_ops);

// Notes in the catalog what finishing a file gave.
absl::Status KeepSealed(Catalog& catalog, const SealedCapture& sealed);

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_STORE_RECOVERY_H_
