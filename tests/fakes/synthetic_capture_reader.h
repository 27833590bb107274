// SyntheticCaptureReader is a capture of any size that takes no memory: its ranges are made
// batch by batch as they are read, the same each time.
//
// Every thread repeats a training step: a root range around `forward` and `backward`, each
// around layers around operators (kRangesPerStep ranges, four levels), then counts on.
//
// Threads: one.
#ifndef PROFD_TESTS_FAKES_SYNTHETIC_CAPTURE_READER_H_
#define PROFD_TESTS_FAKES_SYNTHETIC_CAPTURE_READER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "daemon/store/file/capture_reader.h"
#include "tests/fakes/empty_capture_reader.h"

namespace profd {

class SyntheticCaptureReader : public EmptyCaptureReader {
 public:
  static constexpr int64_t kLayers = 32;
  static constexpr int64_t kOpsPerLayer = 15;
  static constexpr int64_t kRangesPerStep = 3 + 2 * kLayers * (kOpsPerLayer + 1);

  SyntheticCaptureReader(uint32_t threads, int64_t steps);

  int64_t range_count() const;
  // Batches of ranges given so far, over all readings.
  int64_t batches_given() const { return batches_given_; }

  const CaptureRecord& record() const override { return record_; }
  std::span<const std::string> names() const override { return names_; }
  std::span<const store::ReaderThread> threads() const override { return threads_; }
  std::span<const StepRecord> steps() const override { return steps_; }
  int64_t step_thread() override { return 0; }
  absl::Status Scan(RowKind kind, uint32_t columns, const store::TimeFilter& filter,
                    absl::FunctionRef<absl::Status(const EventBatch&)> fn) override;

 private:
  static void AppendStep(int64_t step, std::vector<RangeRow>& rows);

  CaptureRecord record_;
  std::vector<std::string> names_;
  std::vector<store::ReaderThread> threads_;
  std::vector<StepRecord> steps_;
  int64_t batches_given_ = 0;
};

}  // namespace profd

#endif  // PROFD_TESTS_FAKES_SYNTHETIC_CAPTURE_READER_H_
