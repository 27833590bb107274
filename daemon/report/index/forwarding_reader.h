// A CaptureReader that passes every call on to another one: the base of readers that change a few
// answers.
//
// Threads and errors: those of the other reader, which must outlive it.
#ifndef PROFD_DAEMON_REPORT_INDEX_FORWARDING_READER_H_
#define PROFD_DAEMON_REPORT_INDEX_FORWARDING_READER_H_

#include <span>
#include <string>

#include "daemon/store/file/capture_reader.h"

namespace profd::report {

class ForwardingReader : public store::CaptureReader {
 public:
  explicit ForwardingReader(store::CaptureReader& reader) : reader_(reader) {}

  const CaptureRecord& record() const override { return reader_.record(); }
  std::span<const std::string> names() const override { return reader_.names(); }
  std::span<const store::ReaderThread> threads() const override { return reader_.threads(); }
  std::span<const StepRecord> steps() const override { return reader_.steps(); }
  int64_t step_thread() override { return reader_.step_thread(); }
  int64_t gpu_row_count() const override { return reader_.gpu_row_count(); }
  std::span<const OperatorInputs> inputs() const override { return reader_.inputs(); }
  std::span<const std::string> scalars() const override { return reader_.scalars(); }
  int64_t framework_row_count() const override { return reader_.framework_row_count(); }

  absl::Status ForEachRange(uint32_t columns, const store::TimeFilter& filter,
                            absl::FunctionRef<absl::Status(const store::RangeBatch&)> fn) override {
    return reader_.ForEachRange(columns, filter, fn);
  }
  absl::Status ForEachInstant(
      const store::TimeFilter& filter,
      absl::FunctionRef<absl::Status(const store::InstantBatch&)> fn) override {
    return reader_.ForEachInstant(filter, fn);
  }
  absl::Status ForEachCounter(
      const store::TimeFilter& filter,
      absl::FunctionRef<absl::Status(const store::CounterBatch&)> fn) override {
    return reader_.ForEachCounter(filter, fn);
  }
  absl::Status ForEachMemory(
      const store::TimeFilter& filter,
      absl::FunctionRef<absl::Status(const store::MemoryBatch&)> fn) override {
    return reader_.ForEachMemory(filter, fn);
  }
  absl::Status ForEachApiCall(const store::TimeFilter& filter,
                              absl::FunctionRef<absl::Status(const store::ApiBatch&)> fn) override {
    return reader_.ForEachApiCall(filter, fn);
  }
  absl::Status ForEachGpu(uint32_t columns, const store::TimeFilter& filter,
                          absl::FunctionRef<absl::Status(const store::GpuBatch&)> fn) override {
    return reader_.ForEachGpu(columns, filter, fn);
  }
  absl::Status ForEachSync(const store::TimeFilter& filter,
                           absl::FunctionRef<absl::Status(const store::SyncBatch&)> fn) override {
    return reader_.ForEachSync(filter, fn);
  }
  absl::Status ForEachOverhead(
      const store::TimeFilter& filter,
      absl::FunctionRef<absl::Status(const store::OverheadBatch&)> fn) override {
    return reader_.ForEachOverhead(filter, fn);
  }
  absl::Status ForEachCudaEvent(
      absl::FunctionRef<absl::Status(const store::CudaEventBatch&)> fn) override {
    return reader_.ForEachCudaEvent(fn);
  }
  absl::Status ForEachOperator(
      const store::TimeFilter& filter,
      absl::FunctionRef<absl::Status(const store::OperatorBatch&)> fn) override {
    return reader_.ForEachOperator(filter, fn);
  }
  absl::Status ForEachTensorUse(
      const store::TimeFilter& filter,
      absl::FunctionRef<absl::Status(const store::TensorUseBatch&)> fn) override {
    return reader_.ForEachTensorUse(filter, fn);
  }
  absl::Status ForEachNote(absl::FunctionRef<absl::Status(const store::NoteBatch&)> fn) override {
    return reader_.ForEachNote(fn);
  }
  absl::Status ForEachBlock(absl::FunctionRef<absl::Status(const store::BlockBatch&)> fn) override {
    return reader_.ForEachBlock(fn);
  }
  absl::Status ForEachArgument(
      absl::FunctionRef<absl::Status(const store::ArgumentBatch&)> fn) override {
    return reader_.ForEachArgument(fn);
  }
  absl::Status ForEachGpuAnnotation(
      absl::FunctionRef<absl::Status(const store::GpuAnnotationBatch&)> fn) override {
    return reader_.ForEachGpuAnnotation(fn);
  }

 protected:
  store::CaptureReader& reader_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_FORWARDING_READER_H_
