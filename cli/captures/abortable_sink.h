// AbortableSink ends a long export when asked to, and passes all else on.
//
// Threads: one that writes; `aborted` may be set by any. Ownership: of neither.
#ifndef PROFD_CLI_CAPTURES_ABORTABLE_SINK_H_
#define PROFD_CLI_CAPTURES_ABORTABLE_SINK_H_

#include <atomic>
#include <string_view>

#include "absl/status/status.h"
#include "daemon/export/sink/byte_sink.h"

namespace profd::cli {

class AbortableSink final : public exporter::ByteSink {
 public:
  AbortableSink(exporter::ByteSink& out, const std::atomic<bool>& aborted)
      : out_(out), aborted_(aborted) {}
  absl::Status Append(std::string_view bytes) override {
    if (aborted_.load(std::memory_order_relaxed)) return absl::CancelledError("interrupted");
    return out_.Append(bytes);
  }
  absl::Status Finish() override { return out_.Finish(); }

 private:
  exporter::ByteSink& out_;
  const std::atomic<bool>& aborted_;
};

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_ABORTABLE_SINK_H_
