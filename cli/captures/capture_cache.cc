#include "cli/captures/capture_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/base/ulid.h"
#include "daemon/store/file/files.h"
#include "daemon/store/file/sha256.h"

namespace profd::cli {
namespace {

constexpr size_t kHashDigits = 16;
constexpr std::string_view kSuffix = ".profd";
constexpr std::string_view kPartSuffix = ".part";

std::filesystem::path DefaultCacheFolder(const GetEnv& getenv) {
  const auto value = [&](const char* name) {
    const char* const text = getenv(name);
    return std::filesystem::path(text == nullptr ? "" : text);
  };
  // As the XDG base directory specification has it, a relative path counts as none.
  if (const auto cache = value("XDG_CACHE_HOME"); cache.is_absolute()) {
    return cache / "profd/captures";
  }
  const auto home = value("HOME");
  return home.is_absolute() ? home / ".cache/profd/captures" : "";
}

// The folder itself, made 0700; those above as the umask has it.
bool MakeFolder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder.parent_path(), error);
  if (mkdir(folder.c_str(), S_IRWXU) == 0) return true;
  // A user who can write to the folder could replace a file between HashIs() and its use.
  struct stat info {};
  return lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
         (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool IsHash(std::string_view text) {
  return text.size() >= kHashDigits && std::ranges::all_of(text, [](unsigned char c) {
           return std::isdigit(c) != 0 || (c >= 'a' && c <= 'f');
         });
}

bool HashIs(const std::filesystem::path& path, std::string_view sha256) {
  constexpr std::streamsize kPieceBytes = 1 << 20;
  std::ifstream file(path, std::ios::binary);
  store::Sha256 hash;
  std::string piece(kPieceBytes, '\0');
  while (file.read(piece.data(), kPieceBytes) || file.gcount() > 0) {
    hash.Append(std::string_view(piece).substr(0, static_cast<size_t>(file.gcount())));
  }
  const absl::StatusOr<std::string> found = hash.Finish();
  return found.ok() && *found == sha256;
}

struct Kept {
  std::filesystem::path path;
  int64_t bytes = 0;
  absl::Time used;
};

// What is ours in the folder; whatever else is there stays.
std::vector<Kept> CachedFiles(const std::filesystem::path& folder) {
  std::vector<Kept> files;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename();
    struct stat info {};
    if (!name.ends_with(kSuffix) && !name.ends_with(kPartSuffix)) continue;
    if (lstat(it->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    files.push_back({it->path(), info.st_size, absl::TimeFromTimespec(info.st_mtim)});
  }
  return files;
}

}  // namespace

std::optional<CaptureCache> CaptureCache::Find(const GetEnv& getenv, bool remote) {
  const char* const named = getenv("PROFD_CACHE_DIR");
  if (named == nullptr && !remote) return std::nullopt;
  std::filesystem::path folder =
      named != nullptr ? std::filesystem::path(named) : DefaultCacheFolder(getenv);
  if (folder.empty() || !MakeFolder(folder)) return std::nullopt;
  return std::optional<CaptureCache>(std::in_place, std::move(folder));
}

bool CaptureCache::Takes(const CaptureRecord& record) const {
  return IsUlid(record.id) && IsHash(record.file_sha256) && record.file_bytes > 0 &&
         record.file_bytes <= max_bytes_ / 2;
}

std::filesystem::path CaptureCache::PathOf(const CaptureRecord& record) const {
  return folder_ / StrCat(record.id, ".", record.file_sha256.substr(0, kHashDigits), kSuffix);
}

bool CaptureCache::Has(const CaptureRecord& record) const {
  if (!Takes(record)) return false;
  const std::filesystem::path path = PathOf(record);
  const absl::StatusOr<int64_t> bytes = store::FileBytes(path);
  if (!bytes.ok()) return false;
  if (*bytes != record.file_bytes || !HashIs(path, record.file_sha256)) {
    unlink(path.c_str());
    return false;
  }
  // Trim() removes what was not used for longest.
  utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  return true;
}

void CaptureCache::Trim(const std::filesystem::path& kept, absl::Time now) const {
  std::vector<Kept> files = CachedFiles(folder_);
  std::ranges::sort(files, {}, &Kept::used);
  int64_t total = 0;
  for (const Kept& file : files) total += file.bytes;
  for (const Kept& file : files) {
    const bool is_part = file.path.extension() == kPartSuffix;
    // One that grows is being written by another profctl.
    const bool goes = is_part ? now - file.used > kMaxPartAge : total > max_bytes_;
    if (!goes || file.path == kept) continue;
    if (unlink(file.path.c_str()) == 0) total -= file.bytes;
  }
}

}  // namespace profd::cli
