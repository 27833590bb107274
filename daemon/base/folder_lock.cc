#include "daemon/base/folder_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/time/clock.h"
#include "daemon/base/clock.h"
#include "daemon/base/str_cat.h"

namespace profd {
namespace {

constexpr absl::Duration kRetryTime = absl::Milliseconds(5);

// Whether `file` is still the one at `path`: its holder removes it before it releases the lock.
bool IsAt(const std::filesystem::path& path, int file) {
  struct stat there {};
  struct stat open {};
  return fstat(file, &open) == 0 && lstat(path.c_str(), &there) == 0 &&
         open.st_dev == there.st_dev && open.st_ino == there.st_ino;
}

}  // namespace

absl::StatusOr<FolderLock> FolderLock::Take(const std::filesystem::path& folder,
                                            absl::Duration most) {
  const std::filesystem::path path = folder / ".starting";
  const absl::Duration give_up = Clock::Real().Monotonic() + most;
  for (;;) {
    UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
    if (!file.valid()) {
      return absl::ErrnoToStatus(errno, ToAbsl(StrCat("cannot lock ", path.string())));
    }
    if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      if (IsAt(path, file.get())) return FolderLock(std::move(file), path);
      continue;
    }
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return absl::ErrnoToStatus(errno, ToAbsl(StrCat("cannot lock ", path.string())));
    }
    if (Clock::Real().Monotonic() > give_up) {
      return absl::FailedPreconditionError(
          StrCat("another profd is starting in ", folder.string(),
                 "; stop it, or give this one another --socket-dir"));
    }
    absl::SleepFor(kRetryTime);
  }
}

FolderLock::~FolderLock() {
  if (file_.valid()) unlink(path_.c_str());
}

}  // namespace profd
