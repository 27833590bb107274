#include "daemon/import/trace_file.h"

#include <fcntl.h>
#include <isa-l/igzip_lib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/unique_fd.h"

namespace profd::importer {
namespace {

constexpr size_t kInputBytes = size_t{256} << 10;
constexpr uint8_t kGzipMagic[] = {0x1F, 0x8B};
constexpr size_t kMostOutputBytes = size_t{1} << 30;  // ISA-L counts in 32 bits.

absl::Status ErrnoStatus(int error, std::string_view what) {
  const std::string message = StrCat("cannot ", what, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(message);
  return absl::InternalError(message);
}

class PlainFile : public TraceFile {
 public:
  PlainFile(UniqueFd fd, int64_t total_bytes) : fd_(std::move(fd)), total_bytes_(total_bytes) {}

  absl::StatusOr<size_t> Read(char* out, size_t size) override {
    size_t filled = 0;
    while (filled < size) {
      const ssize_t got = read(fd_.get(), out + filled, size - filled);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return ErrnoStatus(errno, "read it");
      if (got == 0) break;
      filled += static_cast<size_t>(got);
    }
    done_bytes_ += static_cast<int64_t>(filled);
    return filled;
  }
  int64_t done_bytes() const override { return done_bytes_; }
  int64_t total_bytes() const override { return total_bytes_; }
  bool is_gzip() const override { return false; }
  bool is_cut_off() const override { return false; }

 private:
  const UniqueFd fd_;
  const int64_t total_bytes_;
  int64_t done_bytes_ = 0;
};

// One or more gzip members, one after the other. Bytes after the last that begin no member are
// ignored, as gzip(1) does.
class GzipFile : public TraceFile {
 public:
  GzipFile(UniqueFd fd, int64_t total_bytes)
      : file_(std::move(fd), total_bytes), input_(new char[kInputBytes]) {
    StartMember();
  }

  absl::StatusOr<size_t> Read(char* out, size_t size) override {
    size_t filled = 0;
    while (filled < size) {
      if (state_.avail_in == 0) RETURN_IF_ERROR(Refill());
      if (state_.block_state == ISAL_BLOCK_FINISH) {
        if (state_.avail_in == 0 || !MayStartMember()) break;
        StartMember();
      } else if (state_.avail_in == 0 && at_end_) {
        is_cut_off_ = !IsAtStartOfMember();
        break;
      }
      const size_t room = std::min(size - filled, kMostOutputBytes);
      state_.next_out = reinterpret_cast<uint8_t*>(out + filled);
      state_.avail_out = static_cast<uint32_t>(room);
      if (const int result = isal_inflate(&state_); result != ISAL_DECOMP_OK) {
        return absl::DataLossError(
            StrCat("the gzip stream is damaged about byte ", done_bytes(), " of the file"));
      }
      member_has_begun_ = true;
      filled += room - state_.avail_out;
    }
    return filled;
  }
  int64_t done_bytes() const override { return file_.done_bytes() - state_.avail_in; }
  int64_t total_bytes() const override { return file_.total_bytes(); }
  bool is_gzip() const override { return true; }
  bool is_cut_off() const override { return is_cut_off_; }

 private:
  bool IsAtStartOfMember() const { return !member_has_begun_; }

  // Of a header that straddles the buffer only the first byte is there.
  bool MayStartMember() const {
    if (state_.next_in[0] != kGzipMagic[0]) return false;
    return state_.avail_in == 1 || state_.next_in[1] == kGzipMagic[1];
  }

  void StartMember() {
    uint8_t* const next_in = state_.next_in;
    const uint32_t avail_in = state_.avail_in;
    isal_inflate_init(&state_);
    state_.crc_flag = ISAL_GZIP;
    state_.next_in = next_in;
    state_.avail_in = avail_in;
    member_has_begun_ = false;
  }

  absl::Status Refill() {
    if (at_end_) return absl::OkStatus();
    ASSIGN_OR_RETURN(const size_t got, file_.Read(input_.get(), kInputBytes));
    // PlainFile::Read() returns less than it was asked for only at the end of the file.
    at_end_ = got < kInputBytes;
    state_.next_in = reinterpret_cast<uint8_t*>(input_.get());
    state_.avail_in = static_cast<uint32_t>(got);
    return absl::OkStatus();
  }

  PlainFile file_;
  const std::unique_ptr<char[]> input_;
  inflate_state state_ = {};
  bool member_has_begun_ = false;
  bool at_end_ = false;
  bool is_cut_off_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TraceFile>> TraceFile::Open(const std::filesystem::path& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) return ErrnoStatus(errno, "open it");
  struct stat about = {};
  if (fstat(fd.get(), &about) != 0) return ErrnoStatus(errno, "open it");
  if (!S_ISREG(about.st_mode)) {
    return absl::FailedPreconditionError(
        S_ISDIR(about.st_mode) ? "it is a folder; name the traces in it"
                               : "it is not an ordinary file; copy what it gives to one first");
  }
  uint8_t magic[2] = {};
  const ssize_t got = pread(fd.get(), magic, sizeof magic, 0);
  if (got < 0) return ErrnoStatus(errno, "read it");
  const bool is_gzip = got == 2 && magic[0] == kGzipMagic[0] && magic[1] == kGzipMagic[1];
  if (is_gzip) return std::make_unique<GzipFile>(std::move(fd), about.st_size);
  return std::make_unique<PlainFile>(std::move(fd), about.st_size);
}

}  // namespace profd::importer
