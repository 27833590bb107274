#include "daemon/metrics/socket_place.h"

#include <cerrno>
#include <utility>

#include "daemon/base/str_cat.h"

namespace profd::metrics {

SocketPlace::SocketPlace(std::filesystem::path path) : path_(std::move(path)), file_(At(path_)) {}

std::optional<SocketPlace::File> SocketPlace::At(const std::filesystem::path& path) {
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) return std::nullopt;
  return File{.device = info.st_dev, .inode = info.st_ino};
}

std::string SocketPlace::WhyGone() const {
  if (!file_.has_value()) return "";
  errno = 0;
  const std::optional<File> now = At(path_);
  const bool is_unknown = !now.has_value() && errno != 0 && errno != ENOENT && errno != ENOTDIR;
  if (now == file_ || is_unknown) return "";
  return StrCat("socket ", path_.string(), now.has_value() ? " was replaced" : " was removed",
                ": new callers cannot reach this profd\n");
}

}  // namespace profd::metrics
