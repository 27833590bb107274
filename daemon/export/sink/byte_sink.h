// ByteSink: where a file being made goes: a file, a gRPC stream, a gzip stream in front
// of either.
//
// Threads: one at a time. Errors: after the first, every later call fails the same way.
#ifndef PROFD_DAEMON_EXPORT_SINK_BYTE_SINK_H_
#define PROFD_DAEMON_EXPORT_SINK_BYTE_SINK_H_

#include <filesystem>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/export/sink/stream_write.h"

namespace profd::exporter {

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual absl::Status Append(std::string_view bytes) = 0;
  // Nothing follows. Call once, if every Append was OK.
  virtual absl::Status Finish() = 0;
};

// Writes PATH.tmp.<random>, syncs it and renames it over `path` in Finish(); destroyed
// before that, it removes the temporary and leaves `path` as it was. Mode 0600 & ~umask
// unless `path` is a file of this user. Also writes to non-regular files (/dev/stdout, pipes)
// directly. Links are followed as ResolveOutputPath() says.
// RESOURCE_EXHAUSTED (full disk), NOT_FOUND, PERMISSION_DENIED, FAILED_PRECONDITION (a link of
// another user), naming the path.
// A write to a non-regular file that takes nothing ends with CANCELLED once `is_cancelled` says so.
absl::StatusOr<std::unique_ptr<ByteSink>> OpenFileSink(const std::filesystem::path& path,
                                                       IsCancelled is_cancelled = nullptr);

// Compresses into `out` as ONE gzip member (viewers read only the first of several).
// `out` must outlive it. Finish() also finishes `out`.
std::unique_ptr<ByteSink> NewGzipSink(ByteSink& out);

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_SINK_BYTE_SINK_H_
