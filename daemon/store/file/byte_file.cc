#include "daemon/store/file/byte_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "daemon/base/str_cat.h"

namespace profd::store {

absl::StatusOr<int64_t> DescriptorFile::Size() {
  struct stat info {};
  if (fstat(descriptor_, &info) == 0) return info.st_size;
  return absl::InternalError(StrCat("cannot measure the file (errno ", errno, ")"));
}

absl::StatusOr<size_t> DescriptorFile::Read(int64_t offset, std::span<char> to) {
  size_t filled = 0;
  while (filled < to.size()) {
    const ssize_t got = pread(descriptor_, to.data() + filled, to.size() - filled,
                              offset + static_cast<off_t>(filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::InternalError(StrCat("cannot read the file (errno ", errno, ")"));
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  return filled;
}

}  // namespace profd::store
