// SyntheticGpuReader is a capture with as many GPU rows as one likes that takes no memory: they
// are made batch by batch as they are read, the same each time and in no order of time.
//
// One thread launches row i, of correlation i + 1, with a call at i us; the row runs 10 us later
// for 900 ns, on stream 7, alone.
//
// Threads: one.
#ifndef PROFD_TESTS_EXPORT_SYNTHETIC_GPU_READER_H_
#define PROFD_TESTS_EXPORT_SYNTHETIC_GPU_READER_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "daemon/base/status_macros.h"
#include "tests/export/gpu_capture.h"
#include "tests/fakes/synthetic_capture_reader.h"

namespace profd {

class SyntheticGpuReader : public SyntheticCaptureReader {
 public:
  static constexpr uint32_t kBatchRows = 65536;

  SyntheticGpuReader(uint32_t rows, GpuRowKind kind)
      : SyntheticCaptureReader(/*threads=*/1, /*steps=*/2), rows_(rows), kind_(kind) {
    record_ = SyntheticCaptureReader::record();
    record_.gpu = RecordedGpu();
  }

  // Called before every batch is given.
  std::function<void()> on_batch = [] {};
  int64_t gpu_batches_given() const { return gpu_batches_given_; }

  const CaptureRecord& record() const override { return record_; }
  int64_t gpu_row_count() const override { return rows_; }

  absl::Status ForEachApiCall(const store::TimeFilter&,
                              absl::FunctionRef<absl::Status(const store::ApiBatch&)> fn) override {
    for (uint32_t first = 0; first < rows_; first += kBatchRows) {
      const uint32_t size = std::min(kBatchRows, rows_ - first);
      Columns of;
      for (uint32_t i = first; i < first + size; ++i) {
        of.start_ns.push_back(int64_t{i} * 1'000);
        of.correlation.push_back(i + 1);
      }
      const std::vector<int64_t> duration_ns(size, 500);
      const std::vector<uint32_t> name(size, 1);
      const std::vector<int32_t> result(size);
      const std::vector<uint8_t> is_driver(size);
      on_batch();
      RETURN_IF_ERROR(fn({.thread = 0,
                          .size = size,
                          .start_ns = of.start_ns,
                          .duration_ns = duration_ns,
                          .name = name,
                          .correlation = of.correlation,
                          .cbid = name,
                          .result = result,
                          .is_driver = is_driver}));
    }
    return absl::OkStatus();
  }

  // Every second batch is given before the one ahead of it, and each backwards.
  absl::Status ForEachGpu(uint32_t, const store::TimeFilter& filter,
                          absl::FunctionRef<absl::Status(const store::GpuBatch&)> fn) override {
    const uint32_t batches = (rows_ + kBatchRows - 1) / kBatchRows;
    for (uint32_t i = 0; i < batches; ++i) {
      const uint32_t batch = (i ^ 1) < batches ? i ^ 1 : i;
      const uint32_t first = batch * kBatchRows;
      const uint32_t size = std::min(kBatchRows, rows_ - first);
      if (TimeOf(first) >= filter.end_ns || TimeOf(first + size) < filter.begin_ns) continue;
      ++gpu_batches_given_;
      on_batch();
      RETURN_IF_ERROR(GiveGpu(first, size, fn));
    }
    return absl::OkStatus();
  }

 private:
  struct Columns {
    std::vector<int64_t> start_ns;
    std::vector<uint32_t> correlation;
  };
  static int64_t TimeOf(uint32_t row) { return int64_t{row} * 1'000 + 10'000; }

  absl::Status GiveGpu(uint32_t first, uint32_t size,
                       absl::FunctionRef<absl::Status(const store::GpuBatch&)> fn) const {
    Columns of;
    for (uint32_t i = first + size; i-- > first;) {
      of.start_ns.push_back(TimeOf(i));
      of.correlation.push_back(i + 1);
    }
    const std::vector<int64_t> duration_ns(size, 900);
    const std::vector<int64_t> no_time(size, kNoGpuTime);
    const std::vector<uint8_t> kind(size, static_cast<uint8_t>(kind_));
    const std::vector<uint8_t> zero8(size);
    const std::vector<uint16_t> zero16(size);
    const std::vector<uint32_t> one(size, 1);
    const std::vector<uint32_t> seven(size, 7);
    const std::vector<uint32_t> zero32(size);
    const std::vector<uint64_t> zero64(size);
    return fn({.size = size,
               .start_ns = of.start_ns,
               .duration_ns = duration_ns,
               .kind = kind,
               .flags = zero8,
               .name = one,
               .bytes = zero64,
               .device = zero16,
               .context = one,
               .stream = seven,
               .correlation = of.correlation,
               .graph_id = zero32,
               .graph_node_id = zero64,
               .copy_kind = zero8,
               .source_kind = zero8,
               .destination_kind = zero8,
               .source_device = zero16,
               .destination_device = zero16,
               .queued_ns = no_time,
               .submitted_ns = no_time,
               .grid_x = one,
               .grid_y = one,
               .grid_z = one,
               .block_x = one,
               .block_y = one,
               .block_z = one,
               .cluster_x = zero16,
               .cluster_y = zero16,
               .cluster_z = zero16,
               .registers_per_thread = zero16,
               .static_shared_bytes = zero32,
               .dynamic_shared_bytes = zero32,
               .local_bytes_per_thread = zero32});
  }

  const uint32_t rows_;
  const GpuRowKind kind_;
  CaptureRecord record_;
  int64_t gpu_batches_given_ = 0;
};

}  // namespace profd

#endif  // PROFD_TESTS_EXPORT_SYNTHETIC_GPU_READER_H_
