#include "daemon/metrics/socket_place.h"

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
  const std::optional<File> now = At(path_);
  if (!file_.has_value() || now == file_) return "";
  return StrCat("socket ", path_.string(), now.has_value() ? " is another one now" : " was removed",
                ": nobody can connect to this profd there\n");
}

}  // namespace profd::metrics
