// Where a file that a user names is to be written.
//
// Whoever may write to a folder can put a symbolic link there, to make another user's program
// overwrite a file elsewhere. The kernel's fs.protected_symlinks does not help: it guards the links
// that the kernel follows, and not all systems set it.
//
// Threads: any.
#ifndef PROFD_DAEMON_EXPORT_SINK_OUTPUT_PATH_H_
#define PROFD_DAEMON_EXPORT_SINK_OUTPUT_PATH_H_

#include <sys/types.h>

#include <filesystem>

#include "absl/status/statusor.h"

namespace profd::exporter {

struct OutputPath {
  std::filesystem::path path;  // Absolute. Its last part is no link, unless `is_open_file`.
  bool is_open_file = false;   // It is in /proc, and stands for an open file (/dev/stdout).
};

// Returns where `path` leads to, which need not exist. Follows a link only if it belongs to this
// user, or is in a folder that only root and this user may write to; otherwise FAILED_PRECONDITION.
absl::StatusOr<OutputPath> ResolveOutputPath(const std::filesystem::path& path);

// True if only root or this user can have put the file at `path` there: it belongs to this user, as
// `owner` says, or its folder is one that no other user may write to.
bool IsTrustedFile(const std::filesystem::path& path, uid_t owner);

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_SINK_OUTPUT_PATH_H_
