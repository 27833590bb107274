#include "daemon/store/data_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "daemon/base/log.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/ulid.h"
#include "daemon/store/file/files.h"

namespace profd::store {
namespace {

struct NetworkFileSystem {
  int64_t type;
  const char* name;
};
// From linux/magic.h and the file systems' own sources. FUSE does not say what is behind it:
// sshfs, s3fs and gluster are the usual ones.
constexpr NetworkFileSystem kNetworkFileSystems[] = {
    {0x6969, "NFS"},      {0x517b, "SMB"},        {0xff534d42, "CIFS"},   {0xfe534d42, "SMB"},
    {0x65735546, "FUSE"}, {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},   {0x00c36400, "CephFS"},
    {0x5346414f, "AFS"},  {0x73757245, "Coda"},   {0x19830326, "BeeGFS"}, {0xaad7aaea, "PanFS"},
    {0x564c, "NCP"},      {0x01161970, "GFS2"},   {0x7461636f, "OCFS2"},
};

constexpr char kLockName[] = "profd.lock";

absl::Status NotOurs(const std::filesystem::path& path, std::string_view problem,
                     std::string_view remedy) {
  return absl::FailedPreconditionError(
      StrCat("data directory '", path.string(), "' ", problem, ": ", remedy));
}

absl::Status NoLock(const std::filesystem::path& path) {
  return NotOurs(path, "has files but no profd.lock, so it was not made by profd",
                 "choose an empty or new --data-dir (nothing in it was changed)");
}

// Fails for a symbolic link in the last component and for anything but a directory.
absl::StatusOr<UniqueFd> OpenFolder(const std::filesystem::path& path) {
  UniqueFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.valid()) return folder;
  const int error = errno;
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
    return NotOurs(path, "is a symbolic link", "set --data-dir to the folder it points to");
  }
  if (error == ENOTDIR) return NotOurs(path, "is not a directory", "choose another --data-dir");
  return FileStatus(path, error);
}

// A fresh file system has a lost+found, which says nothing about the folder.
absl::StatusOr<bool> IsEmpty(int folder, const std::filesystem::path& path) {
  // fdopendir() takes ownership of its descriptor, and a dup() would share the read position.
  // Opening "." gives one that is independent of the caller's.
  const int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const entries = copy >= 0 ? fdopendir(copy) : nullptr;
  if (entries == nullptr) return FileStatus(path, errno);
  bool empty = true;
  for (const dirent* entry = readdir(entries); entry != nullptr && empty;
       entry = readdir(entries)) {
    const std::string_view name = entry->d_name;
    empty = name == "." || name == ".." || name == "lost+found";
  }
  closedir(entries);
  return empty;
}

// Whether a daemon or a tool of the folder's owner made it: it has a lock file.
bool HasLockFile(int folder, uid_t owner) {
  struct stat info {};
  return fstatat(folder, kLockName, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) &&
         info.st_uid == owner;
}

// Ok if `folder` may be used, before anything is changed in it.
absl::Status CheckOwner(int folder, const std::filesystem::path& path, struct stat& info) {
  if (fstat(folder, &info) != 0) return FileStatus(path, errno);
  if (info.st_uid == geteuid()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      StrCat("data directory '", path.string(), "' belongs to uid ", info.st_uid,
             " and this process runs as uid ", geteuid(),
             ": run it as the owner, or choose another --data-dir"));
}

absl::Status MakePrivate(int folder, const std::filesystem::path& path, const struct stat& info) {
  if ((info.st_mode & 0077) == 0) return absl::OkStatus();
  // By descriptor: the path could have been replaced since it was checked.
  if (fchmod(folder, 0700) != 0) return FileStatus(path, errno);
  LogInfo(StrCat(path.string(), " was accessible to other users: its mode is now 0700"));
  return absl::OkStatus();
}

// Makes the folder if it is not there. One that is there must be a data directory of this user,
// or be empty: the folder of anything else keeps its mode and gets no file.
absl::StatusOr<UniqueFd> OpenDataDir(const std::filesystem::path& path) {
  std::error_code error;
  // Only the last folder is made private: those above it may belong to the system.
  std::filesystem::create_directories(path.parent_path(), error);
  // create_directories() would follow a symbolic link in the last component and use the umask.
  // mkdir() does neither, and OpenFolder() refuses a link that was there.
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return FileStatus(path, errno);
  ASSIGN_OR_RETURN(UniqueFd folder, OpenFolder(path));
  struct stat info {};
  RETURN_IF_ERROR(CheckOwner(folder.get(), path, info));
  if (!HasLockFile(folder.get(), info.st_uid)) {
    ASSIGN_OR_RETURN(const bool empty, IsEmpty(folder.get(), path));
    if (!empty) return NoLock(path);
  }
  RETURN_IF_ERROR(MakePrivate(folder.get(), path, info));
  return folder;
}

// The folder for capture files, inside a data directory that is ours.
absl::Status MakeCaptureFolder(int data_dir, const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  if (mkdirat(data_dir, name.c_str(), 0700) != 0 && errno != EEXIST) {
    return FileStatus(path, errno);
  }
  const UniqueFd folder(
      openat(data_dir, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.valid()) return FileStatus(path, errno);
  struct stat info {};
  RETURN_IF_ERROR(CheckOwner(folder.get(), path, info));
  return MakePrivate(folder.get(), path, info);
}

// profd.lock holds the PID of the daemon that has it.
absl::Status InUse(int file, const std::filesystem::path& data_dir) {
  char text[32] = {};
  const ssize_t got = pread(file, text, sizeof(text) - 1, 0);
  // A daemon that has just taken the lock has not written its PID yet.
  const std::string who = got <= 0 ? "another process" : StrCat("pid ", std::string_view(text));
  return WithReason(
      absl::FailedPreconditionError(StrCat(data_dir.string(), " is in use by ", who,
                                           ": stop that profd, or use another --data-dir")),
      "STORE_IN_USE");
}

absl::Status TakeLock(int file, const std::filesystem::path& data_dir) {
  while (flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return InUse(file, data_dir);
    if (errno != EINTR) return FileStatus(data_dir / kLockName, errno);
  }
  return absl::OkStatus();
}

// What a daemon that ran as root left in one of its folders, given to `uid`. The folder is open, so
// nothing can be put in place of it; files that root does not own, and files that have another
// name somewhere, were not made by that daemon.
class Giver {
 public:
  Giver(uid_t uid, gid_t gid) : uid_(uid), gid_(gid) {}

  absl::Status GiveContent(const UniqueFd& folder, const std::filesystem::path& path, int depth) {
    const int copy = openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* const entries = copy >= 0 ? fdopendir(copy) : nullptr;
    if (entries == nullptr) return FileStatus(path, errno);
    absl::Status status;
    for (const dirent* entry = readdir(entries); entry != nullptr && status.ok();
         entry = readdir(entries)) {
      const std::string name = entry->d_name;
      // The lock goes last, with the folder: it says that this is still root's.
      if (name != "." && name != ".." && name != "lost+found" && name != kLockName) {
        status = GiveEntry(folder, name, path / name, depth);
      }
    }
    closedir(entries);
    return status;
  }

  absl::Status GiveFile(int file, const std::filesystem::path& path) {
    struct stat info {};
    if (fstat(file, &info) != 0) return FileStatus(path, errno);
    if (info.st_uid == uid_) return absl::OkStatus();
    // A hard link may lead to a file of another user's choice, such as /etc/shadow, that root would
    // then give away. A file that profd made has one name.
    if (info.st_uid != 0 || (S_ISREG(info.st_mode) && info.st_nlink != 1)) {
      LogWarning(StrCat(path.string(), " was not made by profd: it keeps its owner"));
      return absl::OkStatus();
    }
    // fchown() fails with EBADF for a descriptor that was opened with O_PATH.
    if (fchownat(file, "", uid_, gid_, AT_EMPTY_PATH) != 0) return FileStatus(path, errno);
    ++given_;
    return absl::OkStatus();
  }

  int given() const { return given_; }

 private:
  absl::Status GiveEntry(const UniqueFd& folder, const std::string& name,
                         const std::filesystem::path& path, int depth) {
    // O_PATH opens nothing: no FIFO blocks, no device is touched, and a symbolic link yields
    // itself. The descriptor then names exactly the inode that fstat() describes.
    const UniqueFd entry(openat(folder.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {};
    if (!entry.valid() || fstat(entry.get(), &info) != 0) {
      return errno == ENOENT ? absl::OkStatus() : FileStatus(path, errno);
    }
    if (S_ISREG(info.st_mode)) return GiveFile(entry.get(), path);
    if (!S_ISDIR(info.st_mode) || depth == 0 || info.st_uid != 0) {
      if (info.st_uid != uid_) {
        LogWarning(StrCat(path.string(), " was not made by profd: it keeps its owner"));
      }
      return absl::OkStatus();
    }
    // The O_PATH descriptor cannot be read. Opening "." from it reaches the same folder, even if
    // its name has been replaced meanwhile.
    const UniqueFd child(openat(entry.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!child.valid()) return FileStatus(path, errno);
    RETURN_IF_ERROR(GiveContent(child, path, depth - 1));
    return GiveFile(child.get(), path);
  }

  const uid_t uid_;
  const gid_t gid_;
  int given_ = 0;
};

}  // namespace

absl::Status GiveDataDir(const std::filesystem::path& data_dir, uid_t uid, gid_t gid) {
  std::error_code error;
  std::filesystem::create_directories(data_dir.parent_path(), error);
  if (mkdir(data_dir.c_str(), 0700) != 0 && errno != EEXIST) return FileStatus(data_dir, errno);
  struct stat info {};
  // The folder of another user may be closed to a root without CAP_DAC_READ_SEARCH.
  if (lstat(data_dir.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid != geteuid()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const UniqueFd folder, OpenFolder(data_dir));
  if (fstat(folder.get(), &info) != 0) return FileStatus(data_dir, errno);
  ASSIGN_OR_RETURN(const bool empty, IsEmpty(folder.get(), data_dir));
  if (!empty && !HasLockFile(folder.get(), info.st_uid) && !HasLockFile(folder.get(), uid)) {
    return NoLock(data_dir);
  }
  Giver giver(uid, gid);
  const UniqueFd lock(openat(folder.get(), kLockName, O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!lock.valid() && errno != ENOENT) return FileStatus(data_dir / kLockName, errno);
  if (lock.valid()) {
    RETURN_IF_ERROR(TakeLock(lock.get(), data_dir));
    // The files first, then the lock, then the folder: if this ends halfway, the folder is still
    // root's and the next start goes on. The depth is that of captures/.
    RETURN_IF_ERROR(giver.GiveContent(folder, data_dir, /*depth=*/1));
    RETURN_IF_ERROR(giver.GiveFile(lock.get(), data_dir / kLockName));
  }
  RETURN_IF_ERROR(MakePrivate(folder.get(), data_dir, info));
  RETURN_IF_ERROR(giver.GiveFile(folder.get(), data_dir));
  LogInfo(StrCat(data_dir.string(), " belongs to uid ", uid, " now (", giver.given(), " files)"));
  return absl::OkStatus();
}

absl::Status CheckFileSystemType(int64_t type, const std::filesystem::path& path) {
  for (const NetworkFileSystem& known : kNetworkFileSystems) {
    // f_type is signed and of another width on some architectures; a magic number such as
    // 0xff534d42 would be sign-extended.
    if (static_cast<uint32_t>(known.type) != static_cast<uint32_t>(type)) continue;
    return absl::FailedPreconditionError(
        StrCat(path.string(), " lies on ", known.name,
               ", whose locks and syncs profd cannot rely on: choose a --data-dir on a disk of "
               "this machine (to keep captures elsewhere, fetch them with profctl fetch)"));
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> ClaimDataDir(const std::filesystem::path& data_dir) {
  ASSIGN_OR_RETURN(const UniqueFd folder, OpenDataDir(data_dir));
  struct statfs info;
  if (fstatfs(folder.get(), &info) != 0) return FileStatus(data_dir, errno);
  RETURN_IF_ERROR(CheckFileSystemType(static_cast<int64_t>(info.f_type), data_dir));

  const std::filesystem::path path = data_dir / kLockName;
  UniqueFd lock(openat(folder.get(), kLockName, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid()) return FileStatus(path, errno);
  RETURN_IF_ERROR(TakeLock(lock.get(), data_dir));
  // The PID is for messages only. The lock is what counts, and the kernel drops it when the process
  // dies, so a stale PID does no harm.
  const std::string text = StrCat(getpid());
  if (ftruncate(lock.get(), 0) != 0 ||
      pwrite(lock.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    LogWarning(FileStatus(path, errno).ToString());
  }
  RETURN_IF_ERROR(MakeCaptureFolder(folder.get(), CaptureFolder(data_dir)));
  return lock;
}

absl::StatusOr<DiskSpace> MeasureDisk(const std::filesystem::path& path) {
  struct statvfs info;
  if (statvfs(path.c_str(), &info) != 0) return FileStatus(path, errno);
  const auto block = static_cast<int64_t>(info.f_frsize);
  return DiskSpace{.total_bytes = static_cast<int64_t>(info.f_blocks) * block,
                   .free_bytes = static_cast<int64_t>(info.f_bavail) * block};
}

std::filesystem::path CaptureFolder(const std::filesystem::path& data_dir) {
  return data_dir / "captures";
}

absl::StatusOr<std::vector<std::string>> ListIds(const std::filesystem::path& folder,
                                                 std::string_view suffix) {
  std::vector<std::string> ids;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.size() != kUlidLength + suffix.size() || !name.ends_with(suffix)) continue;
    std::string id = name.substr(0, kUlidLength);
    if (IsUlid(id)) ids.push_back(std::move(id));
  }
  if (error) return FileStatus(folder, error.value());
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace profd::store
