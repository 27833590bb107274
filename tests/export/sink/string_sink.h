// StringSink keeps what a writer gives it, and what it may be asked about the pieces.
#ifndef PROFD_TESTS_EXPORT_SINK_STRING_SINK_H_
#define PROFD_TESTS_EXPORT_SINK_STRING_SINK_H_

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "daemon/export/sink/byte_sink.h"

namespace profd {

class StringSink : public exporter::ByteSink {
 public:
  absl::Status Append(std::string_view bytes) override {
    longest_piece_ = std::max(longest_piece_, bytes.size());
    total_bytes_ += bytes.size();
    if (total_bytes_ > fail_after_bytes) return failure;
    if (keep) text_.append(bytes);
    return absl::OkStatus();
  }
  absl::Status Finish() override {
    ++finished_;
    return absl::OkStatus();
  }

  const std::string& text() const { return text_; }
  size_t longest_piece() const { return longest_piece_; }
  size_t total_bytes() const { return total_bytes_; }
  int finished() const { return finished_; }

  bool keep = true;
  size_t fail_after_bytes = std::numeric_limits<size_t>::max();
  absl::Status failure = absl::CancelledError("the caller went away");

 private:
  std::string text_;
  size_t longest_piece_ = 0;
  size_t total_bytes_ = 0;
  int finished_ = 0;
};

}  // namespace profd

#endif  // PROFD_TESTS_EXPORT_SINK_STRING_SINK_H_
