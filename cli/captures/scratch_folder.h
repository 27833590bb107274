// ScratchFolder: a private folder (0700) that goes with all that is in it.
//
// Errors: LOCAL FAILED_PRECONDITION where none can be made.
#ifndef PROFD_CLI_CAPTURES_SCRATCH_FOLDER_H_
#define PROFD_CLI_CAPTURES_SCRATCH_FOLDER_H_

#include <filesystem>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"

namespace profd::cli {

class ScratchFolder {
 public:
  // In the same folder as `path`, where what will become `path` is best made.
  static absl::StatusOr<std::unique_ptr<ScratchFolder>> MakeBeside(std::string_view path);
  // In the user's folder for temporary files ($TMPDIR).
  static absl::StatusOr<std::unique_ptr<ScratchFolder>> MakeTemporary();

  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit ScratchFolder(std::filesystem::path path) : path_(std::move(path)) {}
  static absl::StatusOr<std::unique_ptr<ScratchFolder>> MakeIn(const std::filesystem::path& parent);

  const std::filesystem::path path_;
};

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_SCRATCH_FOLDER_H_
