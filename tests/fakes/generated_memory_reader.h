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
#include "tests/fakes/empty_capture_reader.h"

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

  absl::Status ForEachRange(uint32_t, const store::TimeFilter&,
                            absl::FunctionRef<absl::Status(const store::RangeBatch&)> fn) override {
    if (!options_.has_range) return absl::OkStatus();
    const int64_t start = 0;
    const int64_t duration = TimeOf(event_count());
    const uint32_t name = 1;
    const uint16_t depth = 0;
    const uint8_t zero = 0;
    return fn({.thread = 0,
               .size = 1,
               .start_ns = {&start, 1},
               .duration_ns = {&duration, 1},
               .name = {&name, 1},
               .depth = {&depth, 1},
               .category = {&zero, 1},
               .flags = {&zero, 1}});
  }

  absl::Status ForEachMemory(
      const store::TimeFilter& filter,
      absl::FunctionRef<absl::Status(const store::MemoryBatch&)> fn) override {
    const auto clamp = [this](int64_t ns) {
      return std::clamp<int64_t>(ns / kNsPerEvent, 0, event_count());
    };
    // Whole batches, as the chunks of a file are.
    const int64_t first = clamp(filter.begin_ns) / kBatchRows * kBatchRows;
    const int64_t last =
        clamp(filter.end_ns == store::TimeFilter().end_ns ? TimeOf(event_count()) : filter.end_ns);
    for (int64_t begin = first; begin < event_count() && begin <= last; begin += kBatchRows) {
      const int64_t size = std::min(kBatchRows, event_count() - begin);
      if (absl::Status status = fn(Fill(begin, size)); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kNsPerEvent = 1000;
  static constexpr int64_t kBatchRows = 1 << 16;
  static int64_t TimeOf(int64_t event) { return event * kNsPerEvent; }

  store::MemoryBatch Fill(int64_t begin, int64_t count) {
    const auto size = static_cast<size_t>(count);
    for (std::vector<int64_t>* column : {&time_ns_, &bytes_, &unknown_}) column->resize(size);
    address_.resize(size);
    zero_.resize(size);
    is_free_.assign(size, 0);
    device_index_.assign(size, -1);
    for (size_t i = 0; i < size; ++i) {
      const int64_t event = begin + static_cast<int64_t>(i);
      const bool is_free = event == options_.allocations;
      time_ns_[i] = TimeOf(event);
      bytes_[i] = is_free ? 0 : 64;
      unknown_[i] = -1;
      address_[i] = 64 * static_cast<uint64_t>(is_free ? event : event + 1);
      is_free_[i] = is_free ? 1 : 0;
    }
    return {.thread = 0,
            .size = size,
            .time_ns = time_ns_,
            .address = address_,
            .bytes = bytes_,
            .total_allocated_bytes = unknown_,
            .total_reserved_bytes = unknown_,
            .device_type = zero_,
            .device_index = device_index_,
            .category = zero_,
            .is_free = is_free_};
  }

  const Options options_;
  CaptureRecord record_;
  std::vector<std::string> names_ = {"", "everything"};
  std::vector<store::ReaderThread> threads_ = {{.os_thread = 1, .name = "main"}};
  std::vector<int64_t> time_ns_;
  std::vector<int64_t> bytes_;
  std::vector<int64_t> unknown_;
  std::vector<uint64_t> address_;
  std::vector<int16_t> device_index_;
  std::vector<uint8_t> zero_;
  std::vector<uint8_t> is_free_;
};

}  // namespace profd

#endif  // PROFD_TESTS_FAKES_GENERATED_MEMORY_READER_H_
