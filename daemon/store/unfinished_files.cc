#include "daemon/store/unfinished_files.h"

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/store/data_dir.h"
#include "daemon/store/file/files.h"

namespace profd::store {

absl::Status UnfinishedFiles::AddLeftovers(const std::filesystem::path& folder) {
  for (const std::string_view suffix : {std::string_view(".part"), kUploadSuffix}) {
    ASSIGN_OR_RETURN(const std::vector<std::string> ids, ListIds(folder, suffix));
    for (const std::string& id : ids) Add(folder / StrCat(id, suffix));
  }
  return absl::OkStatus();
}

void UnfinishedFiles::Add(std::filesystem::path path) {
  absl::MutexLock lock(&mu_);
  paths_.push_back(std::move(path));
}

int64_t UnfinishedFiles::Bytes() {
  absl::MutexLock lock(&mu_);
  int64_t bytes = 0;
  std::erase_if(paths_, [&bytes](const std::filesystem::path& path) {
    const absl::StatusOr<int64_t> found = FileOrDiskBytes(path);
    bytes += found.value_or(0);
    return absl::IsNotFound(found.status());
  });
  return bytes;
}

}  // namespace profd::store
