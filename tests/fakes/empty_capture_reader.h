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
  std::span<const OperatorInputs> inputs() const override { return {}; }
  std::span<const std::string> scalars() const override { return {}; }
  int64_t RowsOf(RowKind) const override { return 0; }
  absl::Status Scan(RowKind, uint32_t, const store::TimeFilter&,
                    absl::FunctionRef<absl::Status(const EventBatch&)>) override {
    return absl::OkStatus();
  }

 private:
  CaptureRecord record_;
};

}  // namespace profd

#endif  // PROFD_TESTS_FAKES_EMPTY_CAPTURE_READER_H_
