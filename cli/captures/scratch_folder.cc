#include "cli/captures/scratch_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "cli/base/errors.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {

absl::StatusOr<std::unique_ptr<ScratchFolder>> ScratchFolder::MakeBeside(std::string_view path) {
  return MakeIn(std::filesystem::path(path).parent_path());
}

absl::StatusOr<std::unique_ptr<ScratchFolder>> ScratchFolder::MakeTemporary() {
  std::error_code error;
  return MakeIn(std::filesystem::temp_directory_path(error));
}

absl::StatusOr<std::unique_ptr<ScratchFolder>> ScratchFolder::MakeIn(
    const std::filesystem::path& parent) {
  std::string name = (parent / ".profctl-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    const int error = errno;
    return LocalFailure(absl::FailedPreconditionError(
        StrCat("cannot make a folder in '", ForDisplay(parent.empty() ? "." : parent.string(), 400),
               "': ", std::strerror(error))));
  }
  return std::unique_ptr<ScratchFolder>(new ScratchFolder(std::move(name)));
}

ScratchFolder::~ScratchFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

}  // namespace profd::cli
