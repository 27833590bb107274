// Lets one daemon at a time make a socket in a folder. Between the look at an old socket and the
// end of listen(), another daemon that starts would find no daemon there and replace the socket.
//
// The lock is a file of mode 0600, FOLDER/.starting, which exists while the lock is held. The
// kernel releases the lock of a process that dies.
//
// Threads: any.
#ifndef PROFD_DAEMON_BASE_FOLDER_LOCK_H_
#define PROFD_DAEMON_BASE_FOLDER_LOCK_H_

#include <filesystem>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/unique_fd.h"

namespace profd {

class FolderLock {
 public:
  // Waits until another process releases the lock, but not longer than `most`: then
  // FAILED_PRECONDITION. Otherwise the code of the system's error.
  static absl::StatusOr<FolderLock> Take(const std::filesystem::path& folder,
                                         absl::Duration most = absl::Seconds(5));

  FolderLock(FolderLock&&) = default;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  FolderLock(UniqueFd file, std::filesystem::path path)
      : file_(std::move(file)), path_(std::move(path)) {}

  UniqueFd file_;  // Not valid: moved from.
  std::filesystem::path path_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_FOLDER_LOCK_H_
