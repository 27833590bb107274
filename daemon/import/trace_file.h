// TraceFile reads a trace from its beginning to its end, inflating it where it is gzip.
//
// Threads: one.
// Memory:  256 KiB.
// Errors:  NOT_FOUND, PERMISSION_DENIED; FAILED_PRECONDITION: not a regular file;
//          DATA_LOSS where the gzip stream is damaged; INTERNAL where it cannot be read. A gzip
//          stream that ends too early is no error: is_cut_off().
#ifndef PROFD_DAEMON_IMPORT_TRACE_FILE_H_
#define PROFD_DAEMON_IMPORT_TRACE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"

namespace profd::importer {

class TraceFile {
 public:
  static absl::StatusOr<std::unique_ptr<TraceFile>> Open(const std::filesystem::path& path);
  virtual ~TraceFile() = default;

  // Fills `out` as far as there is text; less than `size` only at the end.
  virtual absl::StatusOr<size_t> Read(char* out, size_t size) = 0;

  // Of the file as it lies on the disk.
  virtual int64_t done_bytes() const = 0;
  virtual int64_t total_bytes() const = 0;
  virtual bool is_gzip() const = 0;
  // At the end: the file ends inside of a gzip member. All text before that was read.
  virtual bool is_cut_off() const = 0;
};

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_TRACE_FILE_H_
