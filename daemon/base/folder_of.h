// The folder that a file is in, as system calls take it: "." where its name has none.
#ifndef PROFD_DAEMON_BASE_FOLDER_OF_H_
#define PROFD_DAEMON_BASE_FOLDER_OF_H_

#include <filesystem>

namespace profd {

inline std::filesystem::path FolderOf(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_FOLDER_OF_H_
