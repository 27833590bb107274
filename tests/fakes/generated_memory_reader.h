// GeneratedMemoryReader is a capture of as many memory events as a test asks for, which takes no
// memory: one thread allocates blocks of 64 bytes at rising addresses, an event per microsecond,
// and frees none of them but, if asked, the last, without saying how large it was. If asked, the
// thread has one range, around all of it.
//
// Threads: one.
#ifndef PROFD_TESTS_FAKES_GENERATED_MEMORY_READER_H_
#define PROFD_TESTS_FAKES_GENERATED_MEMORY_READER_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "daemon/store/file/event_columns.h"
#include "tests/fakes/empty_capture_reader.h"
#include "tests/fakes/repeat_row.h"

namespace profd {

class GeneratedMemoryReader : public EmptyCaptureReader {
 public:
  struct Options {
    int64_t allocations = 0;
    bool has_range = false;
    bool frees_last_without_size = false;
  };
  explicit GeneratedMemoryReader(const Options& options) : options_(options) {
    record_.start_unix_ns = 1;
    record_.windows.push_back({.start_ns = 0, .end_ns = TimeOf(event_count())});
    record_.covered_ns = TimeOf(event_count());
  }

  int64_t event_count() const {
    return options_.allocations + (options_.frees_last_without_size ? 1 : 0);
  }
  const CaptureRecord& record() const override { return record_; }
  std::span<const std::string> names() const override { return names_; }
  std::span<const store::ReaderThread> threads() const override { return threads_; }

  absl::Status Scan(RowKind kind, uint32_t columns, const store::TimeFilter& filter,
                    absl::FunctionRef<absl::Status(const EventBatch&)> fn) override {
    if (kind == RowKind::kMemory) return ScanMemory(columns, filter, fn);
    if (kind != RowKind::kRange || !options_.has_range) return absl::OkStatus();
    store::EventTable<RangeRow> table;
    const RangeRow range = {.start_ns = 0,
                            .duration_ns = TimeOf(event_count()),
                            .name = 1,
                            .depth = 0,
                            .category = 0,
                            .flags = 0};
    table.Append({&range, 1});
    return fn(store::ToBatch(table, columns, 0, 0, 1));
  }

 private:
  static constexpr int64_t kNsPerEvent = 1000;
  static constexpr int64_t kBatchRows = 1 << 16;
  static int64_t TimeOf(int64_t event) { return event * kNsPerEvent; }

  absl::Status ScanMemory(uint32_t columns, const store::TimeFilter& filter,
                          absl::FunctionRef<absl::Status(const EventBatch&)> fn) {
    const auto clamp = [this](int64_t ns) {
      return std::clamp<int64_t>(ns / kNsPerEvent, 0, event_count());
    };
    // Whole batches, as the chunks of a file are.
    const int64_t first = clamp(filter.begin_ns) / kBatchRows * kBatchRows;
    const int64_t last =
        clamp(filter.end_ns == store::TimeFilter().end_ns ? TimeOf(event_count()) : filter.end_ns);
    for (int64_t begin = first; begin < event_count() && begin <= last; begin += kBatchRows) {
      const int64_t size = std::min(kBatchRows, event_count() - begin);
      const MemoryRow allocation = {.time_ns = 0,
                                    .address = 0,
                                    .bytes = 64,
                                    .total_allocated_bytes = -1,
                                    .total_reserved_bytes = -1,
                                    .device_type = 0,
                                    .device_index = -1,
                                    .category = 0,
                                    .is_free = false};
      RepeatRow(allocation, static_cast<size_t>(size), table_);
      for (int64_t i = 0; i < size; ++i) SetRow(begin + i, static_cast<size_t>(i));
      const absl::Status status =
          fn(store::ToBatch(table_, columns, 0, 0, static_cast<size_t>(size)));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  void SetRow(int64_t event, size_t at) {
    const bool is_free = event == options_.allocations;
    table_.columns.time_ns[at] = TimeOf(event);
    table_.columns.address[at] = 64 * static_cast<uint64_t>(is_free ? event : event + 1);
    if (!is_free) return;
    table_.columns.bytes[at] = 0;
    table_.columns.is_free[at] = 1;
  }

  const Options options_;
  CaptureRecord record_;
  std::vector<std::string> names_ = {"", "everything"};
  std::vector<store::ReaderThread> threads_ = {{.os_thread = 1, .name = "main"}};
  store::EventTable<MemoryRow> table_;
};

}  // namespace profd

#endif  // PROFD_TESTS_FAKES_GENERATED_MEMORY_READER_H_
