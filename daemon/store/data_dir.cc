#include "daemon/store/data_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "daemon/base/log.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/ulid.h"
#include "daemon/store/files.h"

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

absl::Status MakePrivateFolder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return FileStatus(path, errno);
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return FileStatus(path, errno);
  if (!S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(StrCat(path.string(), " is not a directory"));
  }
  if (info.st_uid != geteuid()) {
    return absl::FailedPreconditionError(
        StrCat(path.string(), " belongs to uid ", info.st_uid, " and profd runs as uid ", geteuid(),
               ": run it as its owner, or give it another --data-dir"));
  }
  if ((info.st_mode & 0077) == 0) return absl::OkStatus();
  LogInfo(StrCat(path.string(), " was open to others: it is 0700 now"));
  if (chmod(path.c_str(), 0700) != 0) return FileStatus(path, errno);
  return absl::OkStatus();
}

// profd.lock holds the pid of who has it, and this word if that is a tool.
constexpr std::string_view kToolWord = " tool";
constexpr absl::Duration kMaxToolTime = absl::Seconds(10);
constexpr absl::Duration kRetryTime = absl::Milliseconds(10);

std::string ReadOwner(int file) {
  char text[32] = {};
  const ssize_t got = pread(file, text, sizeof(text) - 1, 0);
  return got <= 0 ? std::string() : std::string(text, static_cast<size_t>(got));
}

absl::Status InUse(const std::filesystem::path& data_dir, const std::string& owner,
                   StoreOwner asking) {
  const std::string who = owner.empty() ? "another process" : StrCat("pid ", owner);
  return WithReason(
      absl::FailedPreconditionError(asking == StoreOwner::kTool
                                        ? StrCat(data_dir.string(), " is in use by ", who,
                                                 ": if that is a profd, ask it, without --data-dir")
                                        : StrCat(data_dir.string(), " is in use by ", who,
                                                 ": stop that profd, or use another --data-dir")),
      "STORE_IN_USE");
}

absl::Status TakeLock(int file, const std::filesystem::path& data_dir, StoreOwner asking) {
  const absl::Time give_up = absl::Now() + kMaxToolTime;
  std::string owner_before;
  for (;;) {
    if (flock(file, LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return FileStatus(data_dir / "profd.lock", errno);
    const std::string owner = ReadOwner(file);
    // Who has just taken it has not written its pid yet: only who is there twice is there.
    const bool is_daemon = !owner.empty() && !owner.ends_with(kToolWord) && owner == owner_before;
    if (is_daemon || absl::Now() > give_up) return InUse(data_dir, owner, asking);
    owner_before = owner;
    absl::SleepFor(kRetryTime);
  }
}

}  // namespace

absl::Status CheckFileSystemType(int64_t type, const std::filesystem::path& path) {
  for (const NetworkFileSystem& known : kNetworkFileSystems) {
    if (static_cast<uint32_t>(known.type) != static_cast<uint32_t>(type)) continue;
    return absl::FailedPreconditionError(
        StrCat(path.string(), " lies on ", known.name,
               ", whose locks and syncs profd cannot rely on: choose a --data-dir on a disk of "
               "this machine (to keep captures elsewhere, fetch them with profctl fetch)"));
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> ClaimDataDir(const std::filesystem::path& data_dir, StoreOwner owner) {
  RETURN_IF_ERROR(MakePrivateFolder(data_dir));
  struct statfs info;
  if (statfs(data_dir.c_str(), &info) != 0) return FileStatus(data_dir, errno);
  RETURN_IF_ERROR(CheckFileSystemType(static_cast<int64_t>(info.f_type), data_dir));

  const std::filesystem::path path = data_dir / "profd.lock";
  UniqueFd lock(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  if (!lock.valid()) return FileStatus(path, errno);
  RETURN_IF_ERROR(TakeLock(lock.get(), data_dir, owner));
  const std::string text = StrCat(getpid(), owner == StoreOwner::kTool ? kToolWord : "");
  if (ftruncate(lock.get(), 0) != 0 ||
      pwrite(lock.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    LogWarning(FileStatus(path, errno).ToString());
  }
  RETURN_IF_ERROR(MakePrivateFolder(CaptureFolder(data_dir)));
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
