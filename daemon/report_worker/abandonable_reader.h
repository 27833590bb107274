// A CaptureReader that asks before every batch whether the answer is still wanted.
#ifndef PROFD_DAEMON_REPORT_WORKER_ABANDONABLE_READER_H_
#define PROFD_DAEMON_REPORT_WORKER_ABANDONABLE_READER_H_

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "daemon/report_worker/answer.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report_worker {

class AbandonableReader final : public store::CaptureReader {
 public:
  // `answer` must outlive it.
  AbandonableReader(std::unique_ptr<store::CaptureReader> reader, const Answer& answer)
      : reader_(std::move(reader)), answer_(answer) {}

  const CaptureRecord& record() const override { return reader_->record(); }
  std::span<const std::string> names() const override { return reader_->names(); }
  std::span<const store::ReaderThread> threads() const override { return reader_->threads(); }
  std::span<const StepRecord> steps() const override { return reader_->steps(); }

  int64_t step_thread() override { return reader_->step_thread(); }
  std::span<const OperatorInputs> inputs() const override { return reader_->inputs(); }
  std::span<const std::string> scalars() const override { return reader_->scalars(); }
  int64_t RowsOf(RowKind kind) const override { return reader_->RowsOf(kind); }

  absl::Status Scan(RowKind kind, uint32_t columns, const store::TimeFilter& filter,
                    absl::FunctionRef<absl::Status(const EventBatch&)> fn) override {
    return reader_->Scan(kind, columns, filter, [this, fn](const EventBatch& batch) {
      const absl::Status wanted = answer_.StillWanted();
      return wanted.ok() ? fn(batch) : wanted;
    });
  }

 private:
  const std::unique_ptr<store::CaptureReader> reader_;
  const Answer& answer_;
};

}  // namespace profd::report_worker

#endif  // PROFD_DAEMON_REPORT_WORKER_ABANDONABLE_READER_H_
