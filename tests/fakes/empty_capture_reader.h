// EmptyCaptureReader is a capture without events: what tests' own readers override is all they
// have.
//
// Threads: one.
#ifndef PROFD_TESTS_FAKES_EMPTY_CAPTURE_READER_H_
#define PROFD_TESTS_FAKES_EMPTY_CAPTURE_READER_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "daemon/store/file/capture_reader.h"

namespace profd {

class EmptyCaptureReader : public store::CaptureReader {
 public:
  const CaptureRecord& record() const override { return record_; }
  std::span<const std::string> names() const override { return {}; }
  std::span<const store::ReaderThread> threads() const override { return {}; }
  std::span<const StepRecord> steps() const override { return {}; }
  absl::Status ForEachRange(uint32_t, const store::TimeFilter&,
                            absl::FunctionRef<absl::Status(const store::RangeBatch&)>) override {
    return absl::OkStatus();
  }
  absl::Status ForEachInstant(
      const store::TimeFilter&,
      absl::FunctionRef<absl::Status(const store::InstantBatch&)>) override {
    return absl::OkStatus();
  }
  absl::Status ForEachCounter(
      const store::TimeFilter&,
      absl::FunctionRef<absl::Status(const store::CounterBatch&)>) override {
    return absl::OkStatus();
  }
  int64_t gpu_row_count() const override { return 0; }
  absl::Status ForEachApiCall(const store::TimeFilter&,
                              absl::FunctionRef<absl::Status(const store::ApiBatch&)>) override {
    return absl::OkStatus();
  }
  absl::Status ForEachGpu(uint32_t, const store::TimeFilter&,
                          absl::FunctionRef<absl::Status(const store::GpuBatch&)>) override {
    return absl::OkStatus();
  }
  absl::Status ForEachSync(const store::TimeFilter&,
                           absl::FunctionRef<absl::Status(const store::SyncBatch&)>) override {
    return absl::OkStatus();
  }
  absl::Status ForEachOverhead(
      const store::TimeFilter&,
      absl::FunctionRef<absl::Status(const store::OverheadBatch&)>) override {
    return absl::OkStatus();
  }
  absl::Status ForEachCudaEvent(
      absl::FunctionRef<absl::Status(const store::CudaEventBatch&)>) override {
    return absl::OkStatus();
  }
  std::span<const OperatorInputs> inputs() const override { return {}; }
  std::span<const std::string> scalars() const override { return {}; }
  int64_t framework_row_count() const override { return 0; }
  absl::Status ForEachOperator(
      const store::TimeFilter&,
      absl::FunctionRef<absl::Status(const store::OperatorBatch&)>) override {
    return absl::OkStatus();
  }
  absl::Status ForEachTensorUse(
      const store::TimeFilter&,
      absl::FunctionRef<absl::Status(const store::TensorUseBatch&)>) override {
    return absl::OkStatus();
  }
  absl::Status ForEachNote(absl::FunctionRef<absl::Status(const store::NoteBatch&)>) override {
    return absl::OkStatus();
  }
  absl::Status ForEachBlock(absl::FunctionRef<absl::Status(const store::BlockBatch&)>) override {
    return absl::OkStatus();
  }
  absl::Status ForEachMemory(const store::TimeFilter&,
                             absl::FunctionRef<absl::Status(const store::MemoryBatch&)>) override {
    return absl::OkStatus();
  }

 private:
  CaptureRecord record_;
};

}  // namespace profd

#endif  // PROFD_TESTS_FAKES_EMPTY_CAPTURE_READER_H_
