// A CaptureReader that asks before every batch whether the answer is still wanted.
#ifndef PROFD_DAEMON_REPORT_WORKER_ABANDONABLE_READER_H_
#define PROFD_DAEMON_REPORT_WORKER_ABANDONABLE_READER_H_

#include <memory>
#include <utility>

#include "daemon/report_worker/answer.h"
#include "daemon/store/file/capture_reader.h"
#include "daemon/store/file/forwarding_reader.h"

namespace profd::report_worker {

class AbandonableReader final : public store::ForwardingReader {
 public:
  // `answer` must outlive it.
  AbandonableReader(std::unique_ptr<store::CaptureReader> reader, const Answer& answer)
      : ForwardingReader(*reader), owned_(std::move(reader)), answer_(answer) {}

  absl::Status Scan(RowKind kind, uint32_t columns, const store::TimeFilter& filter,
                    absl::FunctionRef<absl::Status(const EventBatch&)> fn) override {
    return reader_.Scan(kind, columns, filter, [this, fn](const EventBatch& batch) {
      const absl::Status wanted = answer_.StillWanted();
      return wanted.ok() ? fn(batch) : wanted;
    });
  }

 private:
  const std::unique_ptr<store::CaptureReader> owned_;
  const Answer& answer_;
};

}  // namespace profd::report_worker

#endif  // PROFD_DAEMON_REPORT_WORKER_ABANDONABLE_READER_H_
