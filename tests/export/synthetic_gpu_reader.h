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

#include "absl/functional/function_ref.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/file/event_columns.h"
#include "tests/export/gpu_capture.h"
#include "tests/fakes/repeat_row.h"
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
  int64_t RowsOf(RowKind kind) const override { return kind == RowKind::kGpu ? rows_ : 0; }

  absl::Status Scan(RowKind kind, uint32_t columns, const store::TimeFilter& filter,
                    absl::FunctionRef<absl::Status(const EventBatch&)> fn) override {
    if (kind == RowKind::kApiCall) return ScanApiCalls(fn);
    if (kind == RowKind::kGpu) return ScanGpu(columns, filter, fn);
    return SyntheticCaptureReader::Scan(kind, columns, filter, fn);
  }

 private:
  static int64_t TimeOf(uint32_t row) { return int64_t{row} * 1'000 + 10'000; }

  absl::Status ScanApiCalls(absl::FunctionRef<absl::Status(const EventBatch&)> fn) const {
    for (uint32_t first = 0; first < rows_; first += kBatchRows) {
      const uint32_t size = std::min(kBatchRows, rows_ - first);
      const ApiRow call = {.start_ns = 0,
                           .duration_ns = 500,
                           .name = 1,
                           .correlation = 0,
                           .cbid = 1,
                           .result = 0,
                           .is_driver = false};
      store::EventTable<ApiRow> table;
      RepeatRow(call, size, table);
      for (uint32_t i = 0; i < size; ++i) {
        table.columns.start_ns[i] = int64_t{first + i} * 1'000;
        table.columns.correlation[i] = first + i + 1;
      }
      on_batch();
      RETURN_IF_ERROR(fn(store::ToBatch(table, kEveryColumn, 0, 0, size)));
    }
    return absl::OkStatus();
  }

  // Every second batch is given before the one ahead of it, and each backwards.
  absl::Status ScanGpu(uint32_t columns, const store::TimeFilter& filter,
                       absl::FunctionRef<absl::Status(const EventBatch&)> fn) {
    const uint32_t batches = (rows_ + kBatchRows - 1) / kBatchRows;
    for (uint32_t i = 0; i < batches; ++i) {
      const uint32_t batch = (i ^ 1) < batches ? i ^ 1 : i;
      const uint32_t first = batch * kBatchRows;
      const uint32_t size = std::min(kBatchRows, rows_ - first);
      if (TimeOf(first) >= filter.end_ns || TimeOf(first + size) < filter.begin_ns) continue;
      ++gpu_batches_given_;
      on_batch();
      store::EventTable<GpuRow> table;
      RepeatRow(Work(), size, table);
      for (uint32_t at = 0; at < size; ++at) {
        const uint32_t row = first + size - 1 - at;
        table.columns.start_ns[at] = TimeOf(row);
        table.columns.correlation[at] = row + 1;
      }
      RETURN_IF_ERROR(fn(store::ToBatch(table, columns, 0, 0, size)));
    }
    return absl::OkStatus();
  }

  // But for its start and correlation.
  GpuRow Work() const {
    GpuRow work = {};
    work.duration_ns = 900;
    work.kind = kind_;
    work.name = 1;
    work.context = 1;
    work.stream = 7;
    work.queued_ns = kNoGpuTime;
    work.submitted_ns = kNoGpuTime;
    work.grid = {1, 1, 1};
    work.block = {1, 1, 1};
    return work;
  }

  const uint32_t rows_;
  const GpuRowKind kind_;
  CaptureRecord record_;
  int64_t gpu_batches_given_ = 0;
};

}  // namespace profd

#endif  // PROFD_TESTS_EXPORT_SYNTHETIC_GPU_READER_H_
