// The data directory: private, on a local disk, and of one daemon at a time.
//
// Threads: any.
#ifndef PROFD_DAEMON_STORE_DATA_DIR_H_
#define PROFD_DAEMON_STORE_DATA_DIR_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/unique_fd.h"
#include "daemon/store/capture_store.h"

namespace profd::store {

// Makes the directory (0700) and its captures/ folder, and locks it until the result is
// closed. Waits some seconds for a tool that has it. FAILED_PRECONDITION, saying what to do:
// another daemon has it (STORE_IN_USE), somebody else owns it, or it lies on a network file system.
absl::StatusOr<UniqueFd> ClaimDataDir(const std::filesystem::path& data_dir, StoreOwner owner);

// FAILED_PRECONDITION for the f_type (statfs(2)) of a file system of the network, whose locks
// and syncs cannot be relied on.
absl::Status CheckFileSystemType(int64_t type, const std::filesystem::path& path);

absl::StatusOr<DiskSpace> MeasureDisk(const std::filesystem::path& path);

// Of an import that is on its way: ID.upload, removed when a store is opened.
inline constexpr std::string_view kUploadSuffix = ".upload";

std::filesystem::path CaptureFolder(const std::filesystem::path& data_dir);
// The ids for which there is a file ID`suffix` in the folder, sorted.
absl::StatusOr<std::vector<std::string>> ListIds(const std::filesystem::path& folder,
                                                 std::string_view suffix);

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_DATA_DIR_H_
