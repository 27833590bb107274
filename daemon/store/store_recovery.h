// Makes catalog and capture files consistent when a store is opened, at whatever moment the last
// daemon ended.
//
//   row, file                          becomes
//   running, ID.part with events       PARTIAL(daemon_stop), ID.profd
//   running, nothing or an empty part  FAILED(daemon_stop)
//   running, ID.profd                  the state in the file
//   ended, ID.part                     finished late
//   deleted, any file                  no file
//   file expected, none                FILE_MISSING, until a start finds the file
//   no row, any file                   a row from the file's own record
//   ID.upload                          removed
//   any row, a damaged file            ID.damaged is kept aside; the row says so
//   any row, ID.attempts               the file ended an earlier daemon that often (see below)
//
// EndRows() gives every interrupted capture its final state, without reading the contents of files,
// so the daemon can answer at once. RecoverFiles() then reads the files, which may take minutes.
// Until a file is done, IsRecovering() is true for it.
//
// Each file is tried a bounded number of times (recovery_attempts.h): the first two attempts do
// everything, the third makes no summary, and then the file is set aside as damaged.
//
// Threads: EndRows() first; RecoverFiles() then, on one thread; IsRecovering() on any.
// Locks:   takes `catalog_mu` briefly; never while it reads a file.
#ifndef PROFD_DAEMON_STORE_STORE_RECOVERY_H_
#define PROFD_DAEMON_STORE_STORE_RECOVERY_H_

#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/store/catalog/catalog.h"
#include "daemon/store/file/seal.h"

namespace profd::store {

class StoreRecovery {
 public:
  // Puts the summaries of a finished file into the catalog, and names in the record what cannot be
  // made. The row is written afterwards. Returns false if the daemon ends first: the next start
  // tries it again.
  using Summarize = std::function<bool(SealedCapture&)>;

  // All but `now` must outlive it.
  StoreRecovery(Catalog& catalog, absl::Mutex& catalog_mu, std::filesystem::path folder,
                absl::Time now, Summarize summarize);

  // Returns only errors of the catalog.
  absl::Status EndRows();
  // A file that cannot be recovered is logged and is not an error. `still_wanted` is called now and
  // then; its error ends the work, and the next start continues it.
  absl::Status RecoverFiles(absl::FunctionRef<absl::Status()> still_wanted);

  bool IsRecovering(std::string_view id) const;
  size_t waiting_count() const;

 private:
  absl::StatusOr<std::optional<CaptureRecord>> Find(const std::string& id);
  absl::Status RemoveLeftovers();
  absl::Status EndRowOfPart(const std::string& id);
  absl::Status EndRowOfSealed(const std::string& id);
  absl::Status NoteMissingFiles(const std::set<std::string>& files);
  absl::Status EndUnfinished();
  void Await(const std::string& id);

  absl::Status RecoverFile(const std::string& id, absl::FunctionRef<absl::Status()> still_wanted);
  absl::Status RecoverPart(const CapturePaths& paths, const std::optional<CaptureRecord>& known,
                           int attempt, absl::FunctionRef<absl::Status()> still_wanted);
  absl::Status RecoverSealed(const CapturePaths& paths, const std::string& id,
                             const std::optional<CaptureRecord>& known, int attempt);
  absl::StatusOr<SealedCapture> Adopt(const CapturePaths& paths, const std::string& id);
  absl::Status Keep(SealedCapture sealed, const CapturePaths& paths, int attempt);
  absl::Status SetAside(const std::filesystem::path& file,
                        const std::optional<CaptureRecord>& known, const absl::Status& why);
  absl::Status Fail(CaptureRecord record, std::string message);

  Catalog& catalog_;  // Under catalog_mu_.
  absl::Mutex& catalog_mu_;
  const std::filesystem::path folder_;
  const absl::Time now_;
  const Summarize summarize_;
  // Of the file that is being recovered.
  bool summary_cut_short_ = false;
  bool stays_in_place_ = false;  // It was to be set aside, and could not be.

  mutable absl::Mutex mu_;                                // Never held while calling out.
  std::deque<std::string> waiting_ ABSL_GUARDED_BY(mu_);  // The one that is recovered is the first.
};

// Records a finished file in the catalog: its size, hash, and step times.
absl::Status KeepSealed(Catalog& catalog, const SealedCapture& sealed);

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_STORE_RECOVERY_H_
