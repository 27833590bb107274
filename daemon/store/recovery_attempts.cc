#include "daemon/store/recovery_attempts.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/unique_fd.h"
#include "daemon/store/file/files.h"

namespace profd::store {
namespace {

constexpr int kMostCounted = 9;  // One digit.

// 0: none, or not readable.
int CountOf(const std::filesystem::path& path) {
  const absl::StatusOr<UniqueFd> file = OpenForReading(path);
  if (!file.ok()) return 0;
  char digit = '0';
  if (pread(file->get(), &digit, 1, 0) != 1 || digit < '0' || digit > '9') return 0;
  return digit - '0';
}

absl::Status WriteFile(const std::filesystem::path& path, std::string_view text) {
  ASSIGN_OR_RETURN(const UniqueFd file, OpenForWriting(path));
  if (ftruncate(file.get(), 0) != 0) return FileStatus(path, errno);
  const ssize_t written = write(file.get(), text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return absl::OkStatus();
  // A short write to a regular file sets no errno; a full disk is its usual cause.
  return FileStatus(path, written < 0 ? errno : ENOSPC);
}

}  // namespace

absl::StatusOr<int> BeginAttempt(const CapturePaths& paths) {
  const int number = std::min(CountOf(paths.attempts) + 1, kMostCounted);
  std::filesystem::path written = paths.attempts;
  written += "-new";
  // Written aside and renamed: a crash in between must leave the old count or the new one. An empty
  // file would read as 0 and start the count again.
  absl::Status status = WriteFile(written, StrCat(number));
  if (status.ok()) status = Publish(written, paths.attempts);
  if (!status.ok()) {
    RemoveFile(written).IgnoreError();
    return status;
  }
  return number;
}

void EndAttempt(const CapturePaths& paths) {
  if (absl::Status status = RemoveFile(paths.attempts); !status.ok()) {
    LogWarning(status.ToString());
  }
}

}  // namespace profd::store
