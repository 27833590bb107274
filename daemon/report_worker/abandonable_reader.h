// A CaptureReader that asks before every batch whether the answer is still wanted.
#ifndef PROFD_DAEMON_REPORT_WORKER_ABANDONABLE_READER_H_
#define PROFD_DAEMON_REPORT_WORKER_ABANDONABLE_READER_H_

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/report_worker/answer.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report_worker {

class AbandonableReader final : public store::CaptureReader {
 private:
  // `fn`, unless nobody waits anymore.
  template <typename Batch>
  auto Asking(absl::FunctionRef<absl::Status(const Batch&)> fn) const {
    return [this, fn](const Batch& batch) -> absl::Status {
      RETURN_IF_ERROR(answer_.StillWanted());
      return fn(batch);
    };
  }

 public:
  // `answer` must outlive it.
  AbandonableReader(std::unique_ptr<store::CaptureReader> reader, const Answer& answer)
      : reader_(std::move(reader)), answer_(answer) {}

  const CaptureRecord& record() const override { return reader_->record(); }
  std::span<const std::string> names() const override { return reader_->names(); }
  std::span<const store::ReaderThread> threads() const override { return reader_->threads(); }
  std::span<const StepRecord> steps() const override { return reader_->steps(); }

  int64_t step_thread() override { return reader_->step_thread(); }
  int64_t gpu_row_count() const override { return reader_->gpu_row_count(); }
  std::span<const OperatorInputs> inputs() const override { return reader_->inputs(); }
  std::span<const std::string> scalars() const override { return reader_->scalars(); }
  int64_t framework_row_count() const override { return reader_->framework_row_count(); }

  absl::Status ForEachRange(uint32_t columns, const store::TimeFilter& filter,
                            absl::FunctionRef<absl::Status(const store::RangeBatch&)> fn) override {
    return reader_->ForEachRange(columns, filter, Asking(fn));
  }
  absl::Status ForEachInstant(
      const store::TimeFilter& filter,
      absl::FunctionRef<absl::Status(const store::InstantBatch&)> fn) override {
    return reader_->ForEachInstant(filter, Asking(fn));
  }
  absl::Status ForEachCounter(
      const store::TimeFilter& filter,
      absl::FunctionRef<absl::Status(const store::CounterBatch&)> fn) override {
    return reader_->ForEachCounter(filter, Asking(fn));
  }
  absl::Status ForEachMemory(
      const store::TimeFilter& filter,
      absl::FunctionRef<absl::Status(const store::MemoryBatch&)> fn) override {
    return reader_->ForEachMemory(filter, Asking(fn));
  }
  absl::Status ForEachApiCall(const store::TimeFilter& filter,
                              absl::FunctionRef<absl::Status(const store::ApiBatch&)> fn) override {
    return reader_->ForEachApiCall(filter, Asking(fn));
  }
  absl::Status ForEachGpu(uint32_t columns, const store::TimeFilter& filter,
                          absl::FunctionRef<absl::Status(const store::GpuBatch&)> fn) override {
    return reader_->ForEachGpu(columns, filter, Asking(fn));
  }
  absl::Status ForEachSync(const store::TimeFilter& filter,
                           absl::FunctionRef<absl::Status(const store::SyncBatch&)> fn) override {
    return reader_->ForEachSync(filter, Asking(fn));
  }
  absl::Status ForEachOverhead(
      const store::TimeFilter& filter,
      absl::FunctionRef<absl::Status(const store::OverheadBatch&)> fn) override {
    return reader_->ForEachOverhead(filter, Asking(fn));
  }
  absl::Status ForEachCudaEvent(
      absl::FunctionRef<absl::Status(const store::CudaEventBatch&)> fn) override {
    return reader_->ForEachCudaEvent(Asking(fn));
  }
  absl::Status ForEachOperator(
      const store::TimeFilter& filter,
      absl::FunctionRef<absl::Status(const store::OperatorBatch&)> fn) override {
    return reader_->ForEachOperator(filter, Asking(fn));
  }
  absl::Status ForEachTensorUse(
      const store::TimeFilter& filter,
      absl::FunctionRef<absl::Status(const store::TensorUseBatch&)> fn) override {
    return reader_->ForEachTensorUse(filter, Asking(fn));
  }
  absl::Status ForEachNote(absl::FunctionRef<absl::Status(const store::NoteBatch&)> fn) override {
    return reader_->ForEachNote(Asking(fn));
  }
  absl::Status ForEachBlock(absl::FunctionRef<absl::Status(const store::BlockBatch&)> fn) override {
    return reader_->ForEachBlock(Asking(fn));
  }
  absl::Status ForEachArgument(
      absl::FunctionRef<absl::Status(const store::ArgumentBatch&)> fn) override {
    return reader_->ForEachArgument(Asking(fn));
  }
  absl::Status ForEachGpuAnnotation(
      absl::FunctionRef<absl::Status(const store::GpuAnnotationBatch&)> fn) override {
    return reader_->ForEachGpuAnnotation(Asking(fn));
  }

 private:
  const std::unique_ptr<store::CaptureReader> reader_;
  const Answer& answer_;
};

}  // namespace profd::report_worker

#endif  // PROFD_DAEMON_REPORT_WORKER_ABANDONABLE_READER_H_
