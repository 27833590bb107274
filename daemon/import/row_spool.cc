#include "daemon/import/row_spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "daemon/base/str_cat.h"

namespace profd::importer {
namespace {

absl::Status Failed(std::string_view what, int error) {
  const std::string message = StrCat("cannot ", what, " for rows: ", std::strerror(error));
  const bool is_full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return is_full ? absl::ResourceExhaustedError(message) : absl::InternalError(message);
}

}  // namespace

absl::Status SpoolFile::Open() {
  std::string name = (directory_ / ".rows-XXXXXX").string();
  fd_.Reset(mkostemp(name.data(), O_CLOEXEC));
  if (!fd_.valid()) return Failed("make a file", errno);
  // Without a name the file goes with its descriptor, also if the process is killed.
  if (unlink(name.c_str()) != 0) return Failed("make a file", errno);
  return absl::OkStatus();
}

absl::Status SpoolFile::Append(const void* block, size_t bytes) {
  if (!fd_.valid()) RETURN_IF_ERROR(Open());
  const char* at = static_cast<const char*>(block);
  while (bytes > 0) {
    const ssize_t written = pwrite(fd_.get(), at, bytes, size_);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return Failed("write a file", written < 0 ? errno : ENOSPC);
    at += written;
    bytes -= static_cast<size_t>(written);
    size_ += written;
  }
  return absl::OkStatus();
}

absl::Status SpoolFile::Read(int64_t offset, void* block, size_t bytes) const {
  char* at = static_cast<char*>(block);
  while (bytes > 0) {
    const ssize_t got = pread(fd_.get(), at, bytes, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Failed("read a file", got < 0 ? errno : EIO);
    at += got;
    bytes -= static_cast<size_t>(got);
    offset += got;
  }
  return absl::OkStatus();
}

}  // namespace profd::importer
