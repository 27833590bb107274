#include "daemon/export/sink/output_path.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <string>
#include <system_error>

#include "daemon/base/folder_of.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/unique_fd.h"

namespace profd::exporter {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxLinks = 40;  // As the kernel.
constexpr size_t kMaxShownBytes = 400;

bool OnlyRootAndWeMayWriteTo(const fs::path& folder) {
  struct stat info = {};
  if (stat(folder.c_str(), &info) != 0) return false;
  const bool is_ours = info.st_uid == 0 || info.st_uid == geteuid();
  return is_ours && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// The kernel's links there are not paths: "pipe:[4711]".
bool IsInProc(int fd) {
  struct statfs info = {};
  return fstatfs(fd, &info) == 0 && info.f_type == PROC_SUPER_MAGIC;
}

absl::Status NotFollowed(const fs::path& link, uid_t owner) {
  return absl::FailedPreconditionError(
      StrCat("'", ForDisplay(link.string(), kMaxShownBytes), "' is a link of uid ", owner,
             " in a folder that others may write to; remove it, or name another file"));
}

}  // namespace

bool IsTrustedFile(const fs::path& path, uid_t owner) {
  return owner == geteuid() || OnlyRootAndWeMayWriteTo(FolderOf(path));
}

absl::StatusOr<OutputPath> ResolveOutputPath(const fs::path& path) {
  if (path.empty()) return absl::InvalidArgumentError("no file name was given");
  std::error_code ignored;
  fs::path at = fs::absolute(path, ignored);
  for (int links = 0; links <= kMaxLinks; ++links) {
    // The link that is checked is the one that is read, whatever its name stands for by then.
    const UniqueFd link(open(at.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat info = {};
    // What else is wrong, opening the file says.
    if (!link.valid() || fstat(link.get(), &info) != 0) return OutputPath{.path = at};
    if (IsInProc(link.get())) return OutputPath{.path = at, .is_open_file = true};
    if (!S_ISLNK(info.st_mode)) return OutputPath{.path = at};
    if (!IsTrustedFile(at, info.st_uid)) return NotFollowed(at, info.st_uid);
    char target[PATH_MAX];
    const ssize_t size = readlinkat(link.get(), "", target, sizeof target);
    if (size <= 0 || size == sizeof target) break;
    at = FolderOf(at) / std::string(target, static_cast<size_t>(size));
  }
  return absl::FailedPreconditionError(
      StrCat("'", ForDisplay(path.string(), kMaxShownBytes), "' leads to no file: too many links"));
}

}  // namespace profd::exporter
