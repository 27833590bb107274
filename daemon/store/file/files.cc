#include "daemon/store/file/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>
#include <vector>

#include "daemon/base/folder_of.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/watchdog.h"
#include "daemon/store/file/sha256.h"

namespace profd::store {
namespace {

constexpr size_t kHashPieceBytes = 1 << 20;

absl::Status NotOrdinary(const std::filesystem::path& path) {
  return absl::DataLossError(StrCat(path.string(), " is not an ordinary file; remove it"));
}

}  // namespace

absl::Status FileStatus(const std::filesystem::path& path, int error) {
  std::string text = StrCat(path.string(), ": ", std::generic_category().message(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(text);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(text);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(text);
    default:
      return absl::InternalError(text);
  }
}

absl::Status CheckIsOrdinary(const std::filesystem::path& path) {
  struct stat info;
  const bool is_known = stat(path.c_str(), &info) == 0;
  return is_known && !S_ISREG(info.st_mode) ? NotOrdinary(path) : absl::OkStatus();
}

absl::StatusOr<UniqueFd> OpenForReading(const std::filesystem::path& path) {
  // O_NONBLOCK has no effect on a regular file. A FIFO of that name would otherwise block the open
  // until there is a writer.
  UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid()) return errno == ENXIO ? NotOrdinary(path) : FileStatus(path, errno);
  struct stat info;
  if (fstat(file.get(), &info) != 0) return FileStatus(path, errno);
  if (!S_ISREG(info.st_mode)) return NotOrdinary(path);
  return file;
}

absl::StatusOr<UniqueFd> OpenForWriting(const std::filesystem::path& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    if (S_ISDIR(info.st_mode)) return NotOrdinary(path);
    RETURN_IF_ERROR(RemoveFile(path));
  }
  UniqueFd file(open(path.c_str(),
                     O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600));
  if (!file.valid()) return FileStatus(path, errno);
  return file;
}

absl::Status ReserveNewFile(const std::filesystem::path& path, int64_t bytes) {
  const UniqueFd file(open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
  if (!file.valid()) return FileStatus(path, errno);
  // Not posix_fallocate(), which writes zeros if the file system cannot reserve.
  int result;
  do {
    // The size stays 0, so that a crash leaves an empty file, which recovery knows to hold nothing.
    result = fallocate(file.get(), FALLOC_FL_KEEP_SIZE, 0, bytes);
  } while (result != 0 && errno == EINTR);
  // Where the file system cannot reserve, the capture works without: writes then report the full
  // disk.
  if (result == 0 || errno == EOPNOTSUPP || errno == ENOSYS) return absl::OkStatus();
  absl::Status status = FileStatus(path, errno);
  RemoveFile(path).IgnoreError();
  return status;
}

absl::Status FillFile(const std::filesystem::path& path, std::string_view bytes) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return FileStatus(path, errno);
  const auto size = static_cast<off_t>(bytes.size());
  while (!bytes.empty()) {
    const ssize_t written = write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      absl::Status status = FileStatus(path, errno);
      // A part of a database cannot be opened. An empty file is known to hold nothing.
      if (ftruncate(file.get(), 0) != 0) LogWarning(FileStatus(path, errno).ToString());
      return status;
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  struct stat info;
  if (fstat(file.get(), &info) != 0) return FileStatus(path, errno);
  if (info.st_size > size && ftruncate(file.get(), size) != 0) return FileStatus(path, errno);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> FileBytes(const std::filesystem::path& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return FileStatus(path, errno);
  return info.st_size;
}

absl::StatusOr<int64_t> FileOrDiskBytes(const std::filesystem::path& path) {
  constexpr int64_t kBlockBytes = 512;  // Of st_blocks, on any file system.
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return FileStatus(path, errno);
  return info.st_size > 0 ? info.st_size : info.st_blocks * kBlockBytes;
}

absl::StatusOr<std::string> Sha256OfFile(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const UniqueFd file, OpenForReading(path));
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  Sha256 hash;
  std::vector<char> piece(kHashPieceBytes);
  for (;;) {
    const ssize_t got = read(file.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileStatus(path, errno);
    if (got == 0) return hash.Finish();
    ReportProgress();
    hash.Append({piece.data(), static_cast<size_t>(got)});
  }
}

absl::Status SyncPath(const std::filesystem::path& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid() || fsync(file.get()) != 0) return FileStatus(path, errno);
  return absl::OkStatus();
}

absl::Status Publish(const std::filesystem::path& from, const std::filesystem::path& to) {
  // Content, name, folder, in this order: after a power failure the name leads to the whole file or
  // is not there.
  RETURN_IF_ERROR(SyncPath(from));
  if (rename(from.c_str(), to.c_str()) != 0) return FileStatus(to, errno);
  return SyncPath(FolderOf(to));
}

absl::Status RemoveFile(const std::filesystem::path& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return FileStatus(path, errno);
  return absl::OkStatus();
}

absl::StatusOr<SpaceReserve> SpaceReserve::Take(const std::filesystem::path& path, int64_t bytes) {
  ASSIGN_OR_RETURN(const UniqueFd file, OpenForWriting(path));
  if (ftruncate(file.get(), 0) != 0) return FileStatus(path, errno);
  SpaceReserve reserve;
  // Set before the space is taken: if that fails, the destructor removes the file.
  reserve.path_ = path;
  // Unlike fallocate(), this writes zeros where the file system cannot reserve.
  if (const int error = posix_fallocate(file.get(), 0, bytes); error != 0) {
    return FileStatus(path, error);
  }
  return reserve;
}
SpaceReserve::SpaceReserve(SpaceReserve&& other) noexcept
    : path_(std::exchange(other.path_, std::filesystem::path())) {}
SpaceReserve& SpaceReserve::operator=(SpaceReserve&& other) noexcept {
  if (this != &other) {
    Release();
    path_ = std::exchange(other.path_, std::filesystem::path());
  }
  return *this;
}
void SpaceReserve::Release() {
  if (!path_.empty()) RemoveFile(path_).IgnoreError();
  path_.clear();
}

}  // namespace profd::store
