#include "daemon/privilege/process_reader.h"

#include <errno.h>
#include <fcntl.h>

#include "daemon/base/str_cat.h"
#include "daemon/base/unique_fd.h"

namespace profd {
namespace {

absl::StatusOr<std::unique_ptr<ProcFacts>> ReadOpen(const UniqueFd& folder) {
  auto facts = std::make_unique<ProcFacts>();
  const int error = ReadProcFacts(folder.get(), *facts);
  if (error != 0) return absl::NotFoundError("the process has ended");
  return facts;
}

class DirectReader final : public ProcessReader {
 public:
  absl::StatusOr<std::unique_ptr<ProcFacts>> Read(int pidfd) override {
    int64_t pid = 0;
    const int folder = OpenProcessOf(pidfd, pid);
    if (folder < 0) return absl::NotFoundError("the process has ended, or /proc does not show it");
    return ReadOpen(UniqueFd(folder));
  }
};

}  // namespace

ProcessReader& ProcessReader::Direct() {
  static DirectReader reader;
  return reader;
}

absl::StatusOr<std::unique_ptr<ProcFacts>> ReadProcFolder(const std::filesystem::path& folder) {
  const UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return absl::NotFoundError(StrCat("no process ", folder.filename().string()));
  return ReadOpen(fd);
}

}  // namespace profd
