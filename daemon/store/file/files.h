// Files and folders for the store: errno as a status, hashing, syncing, and reserved space.
//
// Threads: any. Errors: NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED (full disk, quota),
// DATA_LOSS (not an ordinary file), INTERNAL otherwise; each names the path.
#ifndef PROFD_DAEMON_STORE_FILE_FILES_H_
#define PROFD_DAEMON_STORE_FILE_FILES_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/unique_fd.h"

namespace profd::store {

absl::Status FileStatus(const std::filesystem::path& path, int error);

// Returns DATA_LOSS for a folder, FIFO, device, or socket: opening one of these may block or act.
// The store makes none of them. OK for anything else, also if nothing can be found out.
absl::Status CheckIsOrdinary(const std::filesystem::path& path);
// Returns DATA_LOSS if it is not an ordinary file.
absl::StatusOr<UniqueFd> OpenForReading(const std::filesystem::path& path);
// Opens an ordinary file for writing, or makes one that only its owner may read. What else has its
// name is removed first; a folder is DATA_LOSS.
absl::StatusOr<UniqueFd> OpenForWriting(const std::filesystem::path& path);
// Makes an empty file that only its owner may read, with disk space for `bytes` if the file system
// can reserve it. The file must not exist. After an error there is none.
absl::Status ReserveNewFile(const std::filesystem::path& path, int64_t bytes);
// Writes `bytes` to a file that exists, in place of its contents. After an error it is empty.
absl::Status FillFile(const std::filesystem::path& path, std::string_view bytes);
absl::StatusOr<int64_t> FileBytes(const std::filesystem::path& path);
// The same, but of an empty file the disk space that is reserved for it. What a file system adds to
// a file that grows (XFS) is given back, and does not count.
absl::StatusOr<int64_t> FileOrDiskBytes(const std::filesystem::path& path);
// Returns lower-case hex.
absl::StatusOr<std::string> Sha256OfFile(const std::filesystem::path& path);

// Waits until the contents of a file, or the names in a folder, are on the disk.
absl::Status SyncPath(const std::filesystem::path& path);
// Syncs `from`, renames it, syncs the folder of `to`. OK means that a power cut leaves `to`.
absl::Status Publish(const std::filesystem::path& from, const std::filesystem::path& to);
// Returns OK also if the file does not exist.
absl::Status RemoveFile(const std::filesystem::path& path);

// Reserved disk space, which Release() gives to something more important.
class SpaceReserve {
 public:
  SpaceReserve() = default;
  static absl::StatusOr<SpaceReserve> Take(const std::filesystem::path& path, int64_t bytes);
  SpaceReserve(SpaceReserve&& other) noexcept;
  SpaceReserve& operator=(SpaceReserve&& other) noexcept;
  ~SpaceReserve() { Release(); }
  void Release();

 private:
  std::filesystem::path path_;  // Empty: nothing is reserved.
};

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_FILES_H_
