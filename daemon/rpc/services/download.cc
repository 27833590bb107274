#include "daemon/rpc/services/download.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/rpc/services/capture_lookup.h"

namespace profd::rpc {
namespace {

// Less than asked for only at the end of the file.
absl::StatusOr<size_t> ReadFully(int fd, char* to, size_t size, int64_t offset) {
  size_t filled = 0;
  while (filled < size) {
    const ssize_t got = pread(fd, to + filled, size - filled,
                              static_cast<off_t>(offset) + static_cast<off_t>(filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, "reading the capture file");
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  return filled;
}

}  // namespace

Download::Download(const ServiceParts& parts, const CallInfo& info,
                   v1::DownloadCaptureRequest request,
                   ServerStream<v1::DownloadCaptureResponse>& stream)
    : parts_(parts), info_(info), request_(std::move(request)), stream_(stream) {}

absl::Status Download::Begin() {
  ASSIGN_OR_RETURN(const CaptureRecord record,
                   FindStoredCapture(parts_.manager, parts_.store, info_.caller, request_.name()));
  ASSIGN_OR_RETURN(piece_memory_, parts_.admission.ReserveMemory(
                                      info_, quota::Resource::kAnswerMemory, kDownloadPieceBytes));
  ASSIGN_OR_RETURN(download_, parts_.store.OpenForDownload(record.id));
  struct stat info {};
  if (fstat(download_.file.get(), &info) != 0) return absl::ErrnoToStatus(errno, "fstat");
  // The record and the file were looked up one after the other. A caller that continues a download
  // must not get bytes of another version.
  if (info.st_size != download_.size_bytes || record.file_bytes != download_.size_bytes ||
      record.file_sha256 != download_.sha256) {
    return absl::DataLossError(StrCat("capture ", record.id, ": its file has ", info.st_size,
                                      " bytes, ", record.file_bytes, " were stored"));
  }
  offset_ = request_.offset();
  if (offset_ < 0 || offset_ > download_.size_bytes) {
    return absl::OutOfRangeError(
        StrCat("offset ", offset_, " is not in 0..", download_.size_bytes, ", the file's size"));
  }
  return absl::OkStatus();
}

absl::Status Download::ReadPiece() {
  const int64_t size = std::min(kDownloadPieceBytes, download_.size_bytes - offset_);
  std::string& data = *piece_.mutable_data();
  data.resize(static_cast<size_t>(size));
  ASSIGN_OR_RETURN(const size_t got,
                   ReadFully(download_.file.get(), data.data(), data.size(), offset_));
  if (got != data.size()) {
    return absl::DataLossError(StrCat("the capture file ends at byte ",
                                      offset_ + static_cast<int64_t>(got), " of ",
                                      download_.size_bytes));
  }
  piece_.set_offset(offset_);
  piece_.set_total_bytes(download_.size_bytes);
  piece_.set_sha256(download_.sha256);
  offset_ += size;
  return absl::OkStatus();
}

void Download::Pump() {
  if (stream_.cancelled()) return stream_.Finish(absl::CancelledError("the caller went away"));
  if (!begun_) {
    begun_ = true;
    if (absl::Status status = Begin(); !status.ok()) return stream_.Finish(status);
  }
  if (!ahead_.has_value()) ahead_ = ReadPiece();
  if (!ahead_->ok()) return stream_.Finish(*ahead_);
  // A download from the very end still says how long the file is.
  if (offset_ == download_.size_bytes) return stream_.WriteLast(piece_);
  stream_.Write(piece_);
  ahead_ = ReadPiece();  // While that is on its way.
}

}  // namespace profd::rpc
