// OutputBuffer gathers what a trace writer makes and gives it to a ByteSink in pieces of
// at most kPieceBytes.
//
// Hot path: Reserve() and Commit() once per event; no check but for room. The sink's first
//           error is kept: what follows goes nowhere, and status() tells, once per batch.
// Ownership: borrows the sink.
#ifndef PROFD_DAEMON_EXPORT_SINK_OUTPUT_BUFFER_H_
#define PROFD_DAEMON_EXPORT_SINK_OUTPUT_BUFFER_H_

#include <cstddef>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "daemon/export/sink/byte_sink.h"

namespace profd::exporter {

class OutputBuffer {
 public:
  static constexpr size_t kPieceBytes = size_t{1} << 20;
  static constexpr size_t kMostReservedBytes = size_t{112} << 10;

  explicit OutputBuffer(ByteSink& sink);

  // Room for `bytes` <= kMostReservedBytes, until the next call. Write there, then
  // Commit() one past the last byte written. Aborts if more was written than there was room for,
  // or if `bytes` is more than a piece.
  char* Reserve(size_t bytes) {
    // Signed: `next_` may be past the end then.
    if (end_ - next_ < static_cast<ptrdiff_t>(bytes)) MakeRoom(bytes);
    return next_;
  }
  void Commit(char* end) { next_ = end; }

  // Any length.
  void Append(std::string_view bytes);

  const absl::Status& status() const { return status_; }
  // Gives the sink what is left and finishes it, unless it failed before.
  absl::Status Finish();

 private:
  void Flush();
  void MakeRoom(size_t bytes);

  ByteSink& sink_;
  const std::unique_ptr<char[]> piece_;
  char* const end_;
  char* next_;
  absl::Status status_;
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_SINK_OUTPUT_BUFFER_H_
