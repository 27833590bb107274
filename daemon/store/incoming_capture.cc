#include "daemon/store/incoming_capture.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"
#include "daemon/store/file/files.h"

namespace profd::store {

absl::StatusOr<std::unique_ptr<IncomingCapture>> IncomingCapture::Create(
    const std::filesystem::path& path, int64_t total_bytes, std::atomic<int64_t>& promised_bytes) {
  UniqueFd file(open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
  if (!file.valid()) return FileStatus(path, errno);
  return std::unique_ptr<IncomingCapture>(
      new IncomingCapture(path, std::move(file), total_bytes, promised_bytes));
}

IncomingCapture::IncomingCapture(std::filesystem::path path, UniqueFd file, int64_t total_bytes,
                                 std::atomic<int64_t>& promised_bytes)
    : path_(std::move(path)),
      file_(std::move(file)),
      total_bytes_(total_bytes),
      promised_bytes_(promised_bytes) {
  promised_bytes_ += total_bytes_;
}

IncomingCapture::~IncomingCapture() {
  promised_bytes_ -= total_bytes_ - received_bytes_;
  // With the journal of a rewrite that did not come to its end.
  for (const std::string& path : {path_.string(), path_.string() + "-journal"}) {
    if (absl::Status status = RemoveFile(path); !status.ok()) LogWarning(status.ToString());
  }
}

absl::Status IncomingCapture::Append(std::string_view bytes) {
  if (static_cast<int64_t>(bytes.size()) > total_bytes_ - received_bytes_) {
    return absl::OutOfRangeError(
        StrCat("more than the ", total_bytes_, " bytes that were announced"));
  }
  hash_.Append(bytes);
  while (!bytes.empty()) {
    const ssize_t written =
        pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(received_bytes_));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      absl::Status status = FileStatus(path_, errno);
      return absl::IsResourceExhausted(status)
                 ? WithReason(
                       absl::ResourceExhaustedError(
                           "the disk of profd's captures is full: make room and import again"),
                       "DISK_FULL")
                 : status;
    }
    bytes.remove_prefix(static_cast<size_t>(written));
    received_bytes_ += written;
    // Written bytes are no longer free on the disk, so they stop being promised. Each byte is
    // counted once, in one place or the other.
    promised_bytes_ -= written;
  }
  return absl::OkStatus();
}

absl::Status IncomingCapture::CheckComplete() const {
  if (received_bytes_ == total_bytes_) return absl::OkStatus();
  return absl::DataLossError(
      StrCat("got ", received_bytes_, " bytes of ", total_bytes_, "; import again"));
}

absl::StatusOr<UniqueFd> IncomingCapture::OpenReadOnly() const { return OpenForReading(path_); }

}  // namespace profd::store
