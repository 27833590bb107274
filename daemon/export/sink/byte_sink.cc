#include "daemon/export/sink/byte_sink.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <utility>

#include "daemon/base/folder_of.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/unique_fd.h"
#include "daemon/export/sink/output_path.h"

namespace profd::exporter {
namespace {

namespace fs = std::filesystem;

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::StatusCode::kResourceExhausted;
    case ENOENT:
    case ENOTDIR:
      return absl::StatusCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case EPIPE:  // CANCELLED would mean that the caller interrupted it.
      return absl::StatusCode::kAborted;
    case EISDIR:
    case ENAMETOOLONG:
      return absl::StatusCode::kInvalidArgument;
    default:
      return absl::StatusCode::kInternal;
  }
}

std::string_view RemedyFor(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; make room there, or name a file elsewhere";
    case EFBIG:
      return "; raise the limit on the size of files (ulimit -f)";
    case EPIPE:
      return " (its reader has closed it)";
    default:
      return "";
  }
}

absl::Status ErrnoStatus(std::string_view what, const fs::path& path, int error) {
  return absl::Status(CodeOf(error), StrCat(what, " ", path.string(), ": ", std::strerror(error),
                                            RemedyFor(error)));
}

absl::Status WriteAll(int fd, std::string_view bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus("cannot write", path, errno);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

// Writes to what is there: a pipe, a terminal, a device.
class StreamSink : public ByteSink {
 public:
  StreamSink(UniqueFd fd, fs::path path, IsCancelled is_cancelled)
      : fd_(std::move(fd)), path_(std::move(path)), is_cancelled_(std::move(is_cancelled)) {}

  absl::Status Append(std::string_view bytes) override {
    if (!status_.ok()) return status_;
    const int error = WriteToStream(fd_.get(), bytes, is_cancelled_);
    if (error == ECANCELED) status_ = absl::CancelledError("interrupted");
    if (error != 0 && status_.ok()) status_ = ErrnoStatus("cannot write", path_, error);
    return status_;
  }
  absl::Status Finish() override {
    if (!status_.ok()) return status_;
    if (close(fd_.Release()) != 0) status_ = ErrnoStatus("cannot close", path_, errno);
    return status_;
  }

 private:
  UniqueFd fd_;
  const fs::path path_;
  const IsCancelled is_cancelled_;
  absl::Status status_;
};

class FileSink : public ByteSink {
 public:
  FileSink(UniqueFd fd, fs::path temporary, fs::path path)
      : fd_(std::move(fd)), temporary_(std::move(temporary)), path_(std::move(path)) {}
  ~FileSink() override {
    if (!renamed_) unlink(temporary_.c_str());
  }

  absl::Status Append(std::string_view bytes) override {
    if (status_.ok()) status_ = WriteAll(fd_.get(), bytes, path_);
    return status_;
  }
  absl::Status Finish() override {
    if (status_.ok()) status_ = Publish();
    return status_;
  }

 private:
  absl::Status Publish() {
    if (fsync(fd_.get()) != 0) return ErrnoStatus("cannot sync", path_, errno);
    if (close(fd_.Release()) != 0) return ErrnoStatus("cannot close", path_, errno);
    if (rename(temporary_.c_str(), path_.c_str()) != 0) {
      return ErrnoStatus("cannot rename into", path_, errno);
    }
    renamed_ = true;
    // The file is whole either way; this keeps its name through a power cut.
    const UniqueFd folder(open(FolderOf(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.valid()) fsync(folder.get());
    return absl::OkStatus();
  }

  UniqueFd fd_;
  const fs::path temporary_;
  const fs::path path_;
  bool renamed_ = false;
  absl::Status status_;
};

// `is_open`: `path` stands for a file that is open already. Otherwise it is a device or a FIFO,
// which must not be another user's.
absl::StatusOr<std::unique_ptr<ByteSink>> OpenStream(const fs::path& path, bool is_open,
                                                     IsCancelled is_cancelled) {
  // A FIFO without a reader is an error, not a wait.
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  UniqueFd fd(open(path.c_str(), is_open ? kFlags : kFlags | O_NOFOLLOW));
  if (!fd.valid() && errno == ENXIO) {
    return absl::FailedPreconditionError(
        StrCat("no process reads the FIFO ", path.string(), "; start its reader first"));
  }
  struct stat info = {};
  if (!fd.valid() || fstat(fd.get(), &info) != 0) return ErrnoStatus("cannot open", path, errno);
  if (!is_open && !IsTrustedFile(path, info.st_uid)) {
    return absl::FailedPreconditionError(
        StrCat(path.string(), " belongs to uid ", info.st_uid,
               ", in a folder that others may write to; name another file"));
  }
  // O_NONBLOCK was for the open alone. Writes wait in poll(), where they can be cancelled.
  const int flags = fcntl(fd.get(), F_GETFL);
  if (flags < 0 || fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) {
    return ErrnoStatus("cannot open", path, errno);
  }
  return std::make_unique<StreamSink>(std::move(fd), path, std::move(is_cancelled));
}

std::string RandomSuffix() {
  constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuv";
  std::random_device random;
  std::string suffix;
  for (int i = 0; i < 8; ++i) suffix.push_back(kLetters[random() % kLetters.size()]);
  return suffix;
}

absl::StatusOr<std::unique_ptr<ByteSink>> OpenTemporary(const fs::path& path, mode_t mode,
                                                        bool keeps_mode) {
  for (int attempt = 0; attempt < 16; ++attempt) {
    fs::path temporary = path;
    temporary += StrCat(".tmp.", RandomSuffix());
    // In the folder of the target, because rename() works within a file system only. O_EXCL: a link
    // that another user put there is not followed.
    UniqueFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd.valid()) {
      if (errno == EEXIST) continue;
      return ErrnoStatus("cannot create", path, errno);
    }
    if (keeps_mode && fchmod(fd.get(), mode & 07777) != 0) {
      const int error = errno;
      unlink(temporary.c_str());
      return ErrnoStatus("cannot set the mode of", path, error);
    }
    return std::make_unique<FileSink>(std::move(fd), std::move(temporary), path);
  }
  return absl::InternalError(StrCat("cannot find a free temporary name next to ", path.string()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSink>> OpenFileSink(const fs::path& path,
                                                       IsCancelled is_cancelled) {
  ASSIGN_OR_RETURN(const OutputPath resolved, ResolveOutputPath(path));
  const fs::path& target = resolved.path;
  const bool is_open = resolved.is_open_file;  // Written to, never replaced.
  struct stat info = {};
  const bool exists =
      fstatat(AT_FDCWD, target.c_str(), &info, is_open ? 0 : AT_SYMLINK_NOFOLLOW) == 0;
  if (!exists && errno != ENOENT) return ErrnoStatus("cannot create", path, errno);
  if (exists && S_ISDIR(info.st_mode)) return ErrnoStatus("cannot write", path, EISDIR);
  if (exists && (is_open || !S_ISREG(info.st_mode))) {
    return OpenStream(target, is_open, std::move(is_cancelled));
  }
  // Another user's file is replaced; its mode may be open to all.
  const bool is_ours = exists && info.st_uid == geteuid();
  return OpenTemporary(target, info.st_mode, is_ours);
}

}  // namespace profd::exporter
