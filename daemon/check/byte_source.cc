#include "daemon/check/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/unique_fd.h"

namespace profd::check {
namespace {

constexpr size_t kPieceBytes = size_t{256} << 10;
constexpr std::string_view kGzipMagic = "\x1f\x8b";

absl::Status ErrnoStatus(const std::string& path, int error) {
  const absl::StatusCode code = error == ENOENT || error == ENOTDIR ? absl::StatusCode::kNotFound
                                : error == EACCES || error == EPERM
                                    ? absl::StatusCode::kPermissionDenied
                                : error == EISDIR ? absl::StatusCode::kInvalidArgument
                                                  : absl::StatusCode::kInternal;
  return absl::Status(code,
                      StrCat("cannot read ", ForDisplay(path, 400), ": ", std::strerror(error)));
}

// The bytes as they lie there.
class RawBytes {
 public:
  virtual ~RawBytes() = default;
  // Empty at the end.
  virtual absl::StatusOr<std::string_view> Next() = 0;
};

class FileBytes final : public RawBytes {
 public:
  FileBytes(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  absl::StatusOr<std::string_view> Next() override {
    while (true) {
      const ssize_t size = read(fd_.get(), buffer_.get(), kPieceBytes);
      if (size >= 0) return std::string_view(buffer_.get(), static_cast<size_t>(size));
      if (errno != EINTR) return ErrnoStatus(path_, errno);
    }
  }

 private:
  const UniqueFd fd_;
  const std::string path_;
  const std::unique_ptr<char[]> buffer_{new char[kPieceBytes]};
};

class MemoryBytes final : public RawBytes {
 public:
  explicit MemoryBytes(std::string_view bytes) : bytes_(bytes) {}
  absl::StatusOr<std::string_view> Next() override {
    const std::string_view piece = bytes_.substr(0, kPieceBytes);
    bytes_.remove_prefix(piece.size());
    return piece;
  }

 private:
  std::string_view bytes_;
};

// Inflates one gzip member after the other.
class Inflater {
 public:
  Inflater() { ready_ = inflateInit2(&stream_, kGzipWindowBits) == Z_OK; }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  enum class Outcome { kMore, kMemberEnd, kDamaged };

  // Takes from `in` and fills `out`, as far as either lasts.
  Outcome Run(std::string_view& in, char* out, size_t size, size_t& written) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(size);
    const int result = ready_ ? inflate(&stream_, Z_NO_FLUSH) : Z_MEM_ERROR;
    written = size - stream_.avail_out;
    in.remove_prefix(in.size() - stream_.avail_in);
    if (result == Z_STREAM_END) return Outcome::kMemberEnd;
    // Z_BUF_ERROR means that nothing moved because one of the two buffers is used up. It is no
    // damage.
    return result == Z_OK || result == Z_BUF_ERROR ? Outcome::kMore : Outcome::kDamaged;
  }
  void NextMember() { inflateReset(&stream_); }
  std::string_view message() const {
    return stream_.msg == nullptr ? "not a gzip stream" : stream_.msg;
  }

 private:
  // The largest window, and 16 for a gzip header in place of zlib's.
  static constexpr int kGzipWindowBits = 15 + 16;
  z_stream stream_ = {};
  bool ready_ = false;
};

class Source final : public ByteSource {
 public:
  Source(std::unique_ptr<RawBytes> raw, std::function<bool(uint64_t)> on_progress)
      : raw_(std::move(raw)), on_progress_(std::move(on_progress)) {}

  absl::Status Begin() {
    RETURN_IF_ERROR(Refill());
    is_gzip_ = in_.starts_with(kGzipMagic);
    if (is_gzip_) out_.reset(new char[kPieceBytes]);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string_view> Peek() override {
    ASSIGN_OR_RETURN(peeked_, Next());
    return peeked_;
  }

  absl::StatusOr<std::string_view> Next() override {
    if (!peeked_.empty()) return std::exchange(peeked_, {});
    if (is_gzip_) return NextInflated();
    if (in_.empty()) RETURN_IF_ERROR(Refill());
    const std::string_view piece = std::exchange(in_, {});
    trace_bytes_ += piece.size();
    return piece;
  }

 private:
  absl::Status Refill() {
    ASSIGN_OR_RETURN(in_, raw_->Next());
    file_bytes_ += in_.size();
    at_end_ = in_.empty();
    if (on_progress_ && !on_progress_(file_bytes_)) return absl::CancelledError("interrupted");
    return absl::OkStatus();
  }

  absl::StatusOr<std::string_view> NextInflated() {
    size_t written = 0;
    while (written == 0 && !ended_) {
      if (in_.empty() && !at_end_) RETURN_IF_ERROR(Refill());
      if (at_end_) {
        End(in_member_ ? "the gzip stream breaks off" : "");
      } else if (in_member_ || BeginMember()) {
        Inflate(written);
      }
    }
    trace_bytes_ += written;
    return std::string_view(out_.get(), written);
  }

  // Between members: what follows is one more, padding (as `gzip` forgives it), or neither.
  bool BeginMember() {
    if (gzip_members_ > 0) {
      const size_t zeros = std::min(in_.find_first_not_of('\0'), in_.size());
      in_.remove_prefix(zeros);
      if (in_.empty()) return false;
      // One byte may be all that is left of the piece: the magic's first tells enough.
      if (in_.front() != kGzipMagic.front()) {
        has_trailing_bytes_ = true;
        ended_ = true;
        return false;
      }
      inflater_.NextMember();
    }
    ++gzip_members_;
    in_member_ = true;
    return true;
  }

  void Inflate(size_t& written) {
    switch (inflater_.Run(in_, out_.get(), kPieceBytes, written)) {
      case Inflater::Outcome::kMore:
        return;
      case Inflater::Outcome::kMemberEnd:
        in_member_ = false;
        return;
      case Inflater::Outcome::kDamaged:
        End(StrCat("the gzip stream is damaged (", inflater_.message(), ")"));
    }
  }

  void End(std::string_view damage) {
    ended_ = true;
    if (damage.empty()) return;
    damage_ = StrCat(damage, " at byte ", file_bytes_ - in_.size(), " of the file");
  }

  const std::unique_ptr<RawBytes> raw_;
  const std::function<bool(uint64_t)> on_progress_;
  std::string_view peeked_;
  std::string_view in_;  // Of the file, not yet used.
  std::unique_ptr<char[]> out_;
  Inflater inflater_;
  bool in_member_ = false;
  bool at_end_ = false;
  bool ended_ = false;
};

absl::StatusOr<std::unique_ptr<ByteSource>> Begun(std::unique_ptr<Source> source) {
  RETURN_IF_ERROR(source->Begin());
  return source;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> ByteSource::OpenFile(
    const std::string& path, std::function<bool(uint64_t)> on_progress) {
  // A FIFO without a writer would block.
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus(path, errno);
  struct stat info = {};
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(path, errno);
  if (S_ISDIR(info.st_mode)) return ErrnoStatus(path, EISDIR);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(StrCat(
        ForDisplay(path, 400), " is a pipe or a device; write the trace to a file and check that"));
  }
  posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  return Begun(std::make_unique<Source>(std::make_unique<FileBytes>(std::move(fd), path),
                                        std::move(on_progress)));
}

absl::StatusOr<std::unique_ptr<ByteSource>> ByteSource::OfBytes(std::string_view bytes) {
  return Begun(std::make_unique<Source>(std::make_unique<MemoryBytes>(bytes), nullptr));
}

}  // namespace profd::check
