// ByteSource gives the bytes of a file that is not trusted, inflated if it is gzip, piece by piece.
// It forgives what readers of traces forgive and remembers it, so that it can be told.
//
// Threads: one.
// Errors:  of the file: NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT (a folder), INTERNAL.
//          CANCELLED as `on_progress` says. A damaged gzip stream is none: damage() tells, and it
//          ends there.
// Memory:  512 KiB, however much a stream blows up.
#ifndef PROFD_DAEMON_CHECK_BYTE_SOURCE_H_
#define PROFD_DAEMON_CHECK_BYTE_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace profd::check {

class ByteSource {
 public:
  static absl::StatusOr<std::unique_ptr<ByteSource>> OpenFile(
      const std::string& path, std::function<bool(uint64_t)> on_progress);
  // `bytes` must outlive it.
  static absl::StatusOr<std::unique_ptr<ByteSource>> OfBytes(std::string_view bytes);

  virtual ~ByteSource() = default;

  // The next piece, valid until the next call; empty at the end.
  virtual absl::StatusOr<std::string_view> Next() = 0;
  // The first piece, which the first Next() gives again. Call before that.
  virtual absl::StatusOr<std::string_view> Peek() = 0;

  bool is_gzip() const { return is_gzip_; }
  int gzip_members() const { return gzip_members_; }
  // What is wrong with the gzip stream, and at which byte of the file; empty: nothing so far.
  const std::string& damage() const { return damage_; }
  // Bytes after the last gzip member that are none of gzip's.
  bool has_trailing_bytes() const { return has_trailing_bytes_; }
  uint64_t file_bytes() const { return file_bytes_; }    // Read so far, of the file,
  uint64_t trace_bytes() const { return trace_bytes_; }  // and given.

 protected:
  bool is_gzip_ = false;
  bool has_trailing_bytes_ = false;
  int gzip_members_ = 0;
  std::string damage_;
  uint64_t file_bytes_ = 0;
  uint64_t trace_bytes_ = 0;
};

}  // namespace profd::check

#endif  // PROFD_DAEMON_CHECK_BYTE_SOURCE_H_
