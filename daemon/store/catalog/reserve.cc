#include "daemon/store/catalog/reserve.h"

#include <sys/stat.h>
#include <unistd.h>

#include "absl/status/statusor.h"
#include "daemon/base/unique_fd.h"
#include "daemon/store/file/files.h"

namespace profd::store {

bool CatalogReserve::Fill() {
  if (full_) return true;
  const absl::StatusOr<UniqueFd> file = OpenForWriting(path_);
  if (!file.ok()) return false;
  // Blocks must be allocated. A file that ftruncate() makes is sparse and would reserve nothing.
  full_ = posix_fallocate(file->get(), 0, bytes_) == 0;
  // A part of the reserve is no reserve. Its space is free for the next writer.
  if (!full_) unlink(path_.c_str());
  return full_;
}

bool CatalogReserve::Release() {
  full_ = false;
  struct stat info;
  // An earlier daemon may have left the file without blocks. Then the caller's second attempt would
  // fail like the first.
  const bool held = stat(path_.c_str(), &info) == 0 && info.st_blocks > 0;
  unlink(path_.c_str());
  return held;
}

}  // namespace profd::store
