#include "cli/captures/part_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "cli/base/errors.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/store/file/files.h"
#include "daemon/store/file/sha256.h"

namespace profd::cli {
namespace {

// Why a file that was there already is not one that a PartFile left. Another user could have made
// it, to read and change the capture in it.
std::string_view WhyNotOurs(const struct stat& info) {
  if (!S_ISREG(info.st_mode)) return "is not an ordinary file";
  if (info.st_uid != geteuid()) return "belongs to another user";
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) return "is open to other users";
  if (info.st_nlink != 1) return "has a second name";
  return {};
}

}  // namespace

absl::StatusOr<std::unique_ptr<PartFile>> PartFile::Open(std::string path) {
  constexpr int kMostTries = 100;
  for (int i = 0; i < kMostTries; ++i) {
    // First as a new file, which is ours in any case. One that is there is opened without following
    // a link or waiting for a FIFO's writer, and then looked at.
    constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    UniqueFd fd(open(path.c_str(), kFlags | O_CREAT | O_EXCL, 0600));
    const bool is_new = fd.valid();
    if (!is_new && errno == EEXIST) {
      fd.Reset(open(path.c_str(), kFlags));
      if (!fd.valid() && errno == ENOENT) continue;  // Published or removed meanwhile.
    }
    if (!fd.valid() && errno == ELOOP) {
      return absl::FailedPreconditionError(
          StrCat("'", ForDisplay(path, 400), "' is a symbolic link; remove it"));
    }
    struct stat info {};
    if (!fd.valid() || fstat(fd.get(), &info) != 0) {
      return LocalFailure(store::FileStatus(path, errno));
    }
    if (const std::string_view why = is_new ? std::string_view() : WhyNotOurs(info); !why.empty()) {
      return absl::FailedPreconditionError(
          StrCat("'", ForDisplay(path, 400), "' ", why, "; remove it"));
    }
    if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) break;
    // Before the lock was taken, another profctl may have written more, or published the file under
    // its final name, where it must not be changed.
    struct stat named {};
    if (fstat(fd.get(), &info) != 0) return LocalFailure(store::FileStatus(path, errno));
    const bool is_still_there = lstat(path.c_str(), &named) == 0 && named.st_dev == info.st_dev &&
                                named.st_ino == info.st_ino;
    if (!is_still_there) continue;
    return std::unique_ptr<PartFile>(new PartFile(std::move(path), std::move(fd), info.st_size));
  }
  return absl::FailedPreconditionError(
      StrCat("another profctl is writing ", ForDisplay(path, 400), "; wait for it, or stop it"));
}

PartFile::PartFile(std::string path, UniqueFd fd, int64_t size)
    : path_(std::move(path)), fd_(std::move(fd)), size_(size) {}

PartFile::~PartFile() {
  if (writer_.joinable()) (void)Finish();
  if (size_ == 0) Remove();  // There is nothing to go on from.
}

absl::Status PartFile::Failure() const { return LocalFailure(store::FileStatus(path_, errno)); }

absl::Status PartFile::Restart() {
  if (writer_.joinable()) (void)Finish();
  if (ftruncate(fd_.get(), 0) != 0) return Failure();
  size_ = 0;
  return absl::OkStatus();
}

absl::Status PartFile::Append(std::string_view bytes) {
  if (!writer_.joinable()) RETURN_IF_ERROR(StartWriter());
  {
    const absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(this, &PartFile::HasRoom));
    if (!failed_) {
      waiting_.emplace_back(bytes);
      size_ += static_cast<int64_t>(bytes.size());
      return absl::OkStatus();
    }
  }
  return Finish().status();
}

absl::StatusOr<std::string> PartFile::Finish() {
  if (!writer_.joinable()) RETURN_IF_ERROR(StartWriter());  // Hashes what was there already.
  {
    const absl::MutexLock lock(&mu_);
    ending_ = true;
  }
  writer_.join();
  // What is on its way no more does not count.
  struct stat info {};
  if (!result_.ok() && fstat(fd_.get(), &info) == 0) size_ = info.st_size;
  return result_;
}

absl::Status PartFile::StartWriter() {
  {
    const absl::MutexLock lock(&mu_);
    ending_ = false;
    failed_ = false;
    waiting_.clear();
  }
  written_from_ = size_;
  try {
    writer_ = std::jthread([this] { WriterLoop(); });
  } catch (const std::system_error&) {
    return NoThreadError();
  }
  return absl::OkStatus();
}

void PartFile::WriterLoop() {
  result_ = WriteAll();
  const absl::MutexLock lock(&mu_);
  failed_ = !result_.ok();
}

absl::StatusOr<std::string> PartFile::WriteAll() {
  store::Sha256 hash;
  std::string piece(size_t{1} << 20, '\0');
  for (int64_t at = 0; at < written_from_;) {
    const ssize_t got = pread(fd_.get(), piece.data(), piece.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Failure();
    hash.Append({piece.data(), static_cast<size_t>(got)});
    at += got;
  }
  for (int64_t at = written_from_;; at += static_cast<int64_t>(piece.size())) {
    {
      const absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &PartFile::HasWork));
      if (waiting_.empty()) return hash.Finish();
      piece = std::move(waiting_.front());
      waiting_.pop_front();
    }
    RETURN_IF_ERROR(WritePiece(piece, at));
    hash.Append(piece);
  }
}

absl::Status PartFile::WritePiece(std::string_view bytes, int64_t offset) const {
  const int64_t size = static_cast<int64_t>(bytes.size());
  for (int64_t at = offset; !bytes.empty();) {
    const ssize_t written = pwrite(fd_.get(), bytes.data(), bytes.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failure();
    at += written;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  // The disk begins now, and Publish() waits less.
  sync_file_range(fd_.get(), offset, size, SYNC_FILE_RANGE_WRITE);
  return absl::OkStatus();
}

bool PartFile::HasRoom() const { return failed_ || waiting_.size() < kMaxWaiting; }
bool PartFile::HasWork() const { return ending_ || !waiting_.empty(); }

absl::Status PartFile::Publish(const std::string& path) {
  return LocalFailure(store::Publish(path_, path));
}

void PartFile::Remove() { unlink(path_.c_str()); }

}  // namespace profd::cli
