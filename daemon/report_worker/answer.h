// The answer to one request: bytes go to profd in frames as they are made, and the end with a
// status. Blocks while profd takes nothing.
#ifndef PROFD_DAEMON_REPORT_WORKER_ANSWER_H_
#define PROFD_DAEMON_REPORT_WORKER_ANSWER_H_

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "daemon/export/sink/byte_sink.h"

namespace profd::report_worker {

class Answer final : public exporter::ByteSink {
 public:
  explicit Answer(int socket) : socket_(socket) {}

  // CANCELLED: profd does not want the answer anymore, or is gone.
  absl::Status StillWanted() const;

  // CANCELLED as above.
  absl::Status Append(std::string_view bytes) override;
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  const int socket_;
};

}  // namespace profd::report_worker

#endif  // PROFD_DAEMON_REPORT_WORKER_ANSWER_H_
