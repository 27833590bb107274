// LocalStore: the captures of a data directory, opened by profctl itself while no daemon has it.
//
//   --data-dir DIR                      the store in DIR
//   no daemon answers, none was named   the store that a profd of this user would have, if there is
//                                       one; a note on stderr says so
//
// It has the directory's lock, as a daemon would, and ends what a daemon that died left unfinished.
// Keep it for as long as it takes to find a file: that can be read when the lock is given back.
//
// Threads: one caller.
// Errors:  LOCAL: FAILED_PRECONDITION where another process has the directory, it is somebody
//          else's, or it lies on a network file system; NOT_FOUND where it is no store. Else as
//          store::CaptureStore.
#ifndef PROFD_CLI_CAPTURES_LOCAL_STORE_H_
#define PROFD_CLI_CAPTURES_LOCAL_STORE_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/captures/capture_source.h"
#include "cli/client/daemon_client.h"
#include "cli/client/invocation.h"
#include "daemon/base/config.h"
#include "daemon/store/capture_store.h"

namespace profd::cli {

class LocalStore {
 public:
  // The store that `invocation` means, as above; nullptr: it means a daemon, or many.
  // INVALID_ARGUMENT (USAGE): --data-dir together with what names a daemon.
  static absl::StatusOr<std::unique_ptr<LocalStore>> Find(Invocation& invocation);
  // The same for who adds to it: it is made where there is none.
  static absl::StatusOr<std::unique_ptr<LocalStore>> FindOrMake(Invocation& invocation);

  const std::filesystem::path& data_dir() const { return config_.data_dir; }

  // These are as DaemonClient's of the same name.
  absl::StatusOr<std::vector<CaptureView>> ListCaptures(const CaptureFilter& filter, int64_t limit);
  absl::StatusOr<CaptureView> GetCapture(const std::string& id);
  absl::StatusOr<GroupView> GetCaptureGroup(const std::string& id);
  absl::StatusOr<CaptureView> DeleteCapture(const std::string& id);
  absl::StatusOr<CaptureView> PinCapture(const std::string& id) { return SetPinned(id, true); }
  absl::StatusOr<CaptureView> UnpinCapture(const std::string& id) { return SetPinned(id, false); }

  // The reports of one of its captures; it may outlive the store.
  std::unique_ptr<CaptureSource> OpenSource(CaptureView view);

  // As StoreImported().
  absl::StatusOr<CaptureView> Import(const std::string& path,
                                     absl::FunctionRef<void(int64_t, int64_t)> on_bytes);

 private:
  LocalStore(Config config, std::unique_ptr<store::CaptureStore> store);
  static absl::StatusOr<std::unique_ptr<LocalStore>> Open(Config config, bool make);
  static absl::StatusOr<std::unique_ptr<LocalStore>> FindAny(Invocation& invocation, bool make);

  absl::StatusOr<CaptureView> SetPinned(const std::string& id, bool pinned);

  const Config config_;
  const std::unique_ptr<store::CaptureStore> store_;
};

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_LOCAL_STORE_H_
