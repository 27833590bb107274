// The data directory: private, on a local disk, and used by one daemon at a time.
//
// Threads: any.
#ifndef PROFD_DAEMON_STORE_DATA_DIR_H_
#define PROFD_DAEMON_STORE_DATA_DIR_H_

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/unique_fd.h"

namespace profd::store {

struct DiskSpace {
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;  // For us.
};

// Creates the directory (0700) and its captures/ folder, and locks it until the result is closed.
// An existing folder must belong to this user, must not be a symbolic link, and must have a
// profd.lock or be empty; any other folder is not changed.
// FAILED_PRECONDITION, with the remedy: the folder breaks that rule, another daemon uses it
// (STORE_IN_USE), or it is on a network file system.
absl::StatusOr<UniqueFd> ClaimDataDir(const std::filesystem::path& data_dir);

// Creates the directory (0700) for the user `uid`, or changes the owner of one that a daemon of
// root used: the folder, its folders, and the files directly in them. Needs root; call before the
// store is opened. Follows no symbolic links; skips files that root does not own or that have
// several names. A directory of another user is not changed; ClaimDataDir() decides about it. Can
// be repeated after a crash, because the folder itself comes last. FAILED_PRECONDITION, with the
// remedy: a daemon uses it, it is a symbolic link, or it has files and no profd.lock.
absl::Status GiveDataDir(const std::filesystem::path& data_dir, uid_t uid, gid_t gid);

// Returns FAILED_PRECONDITION for the f_type (statfs(2)) of a network file system, whose locks and
// syncs are unreliable.
absl::Status CheckFileSystemType(int64_t type, const std::filesystem::path& path);

absl::StatusOr<DiskSpace> MeasureDisk(const std::filesystem::path& path);

// The suffix of an import that is arriving: ID.upload, removed when a store is opened.
inline constexpr std::string_view kUploadSuffix = ".upload";

std::filesystem::path CaptureFolder(const std::filesystem::path& data_dir);
// Returns the sorted IDs for which the folder has a file ID`suffix`.
absl::StatusOr<std::vector<std::string>> ListIds(const std::filesystem::path& folder,
                                                 std::string_view suffix);

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_DATA_DIR_H_
