#include "daemon/import/nsys/export_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/import/trace_file.h"

namespace profd::importer {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

absl::Status CannotInflate(int error) {
  const std::string message = StrCat("cannot inflate it: ", std::strerror(error));
  const bool is_full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return is_full ? absl::ResourceExhaustedError(message) : absl::InternalError(message);
}

absl::Status WriteAll(int fd, const char* at, size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = write(fd, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return CannotInflate(written < 0 ? errno : ENOSPC);
    at += written;
    bytes -= static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> Inflate(TraceFile& file, const ImportOptions& options,
                                 int64_t max_inflated_bytes) {
  // SQLite needs a file that it can seek in. Without a name, it is gone however this process ends.
  std::string name = (options.directory / ".database-XXXXXX").string();
  UniqueFd fd(mkostemp(name.data(), O_CLOEXEC));
  if (!fd.valid() || unlink(name.c_str()) != 0) return CannotInflate(errno);
  std::vector<char> piece(kPieceBytes);
  for (int64_t total = 0;;) {
    if (options.is_cancelled && options.is_cancelled()) return absl::CancelledError();
    if (options.on_progress) options.on_progress(file.done_bytes(), file.total_bytes());
    ASSIGN_OR_RETURN(const size_t got, file.Read(piece.data(), piece.size()));
    if (got == 0 && file.is_cut_off()) return absl::DataLossError("the gzip file is cut off");
    if (got == 0) return fd;
    total += static_cast<int64_t>(got);
    if (total > max_inflated_bytes) {
      return absl::ResourceExhaustedError(StrCat("it inflates to more than ",
                                                 max_inflated_bytes >> 30,
                                                 " GiB; inflate it with gunzip, and import that"));
    }
    RETURN_IF_ERROR(WriteAll(fd.get(), piece.data(), got));
  }
}

}  // namespace

absl::StatusOr<UniqueFd> OpenNsysExport(const std::filesystem::path& path,
                                        const ImportOptions& options, int64_t max_inflated_bytes) {
  // Also says what is no ordinary file.
  ASSIGN_OR_RETURN(const std::unique_ptr<TraceFile> file, TraceFile::Open(path));
  if (file->is_gzip()) return Inflate(*file, options, max_inflated_bytes);
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) return absl::InternalError(StrCat("cannot open it: ", std::strerror(errno)));
  return fd;
}

}  // namespace profd::importer
