// Builders for store tests: a temporary folder, a clock, records, and events in a realistic
// pattern.
#ifndef PROFD_TESTS_STORE_FILE_CAPTURE_FILE_BUILDER_H_
#define PROFD_TESTS_STORE_FILE_CAPTURE_FILE_BUILDER_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/capture/capture_types.h"
#include "daemon/capture/ports.h"
#include "daemon/store/file/capture_reader.h"
#include "daemon/store/file/writer.h"

namespace profd::store {

// A folder that is removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

class ManualClock final : public Clock {
 public:
  absl::Time Now() override { return start_ + elapsed_; }
  absl::Duration Monotonic() override { return elapsed_; }
  void Advance(absl::Duration by) { elapsed_ += by; }

 private:
  const absl::Time start_ = absl::FromUnixSeconds(1'790'000'000);
  absl::Duration elapsed_;
};

// A capture of two steps as the manager begins it.
CaptureRecord NewRecord(std::string_view id);
// `record` as the manager hands it to Finish(): COMPLETE, with one window.
CaptureRecord FinishedRecord(CaptureRecord record, const WindowRecord& window);

// "01J0000000000000000000" and four digits: sorts by `number`.
std::string IdOf(int number);

// A training step of about 3,000 events: ranges in four levels, an allocation and a free now
// and then, a counter and an instant per step; durations vary by 10 %, and 1 % are outliers.
class StepPattern {
 public:
  explicit StepPattern(uint32_t seed, uint32_t name_count = 258);

  // The next step of the thread, in order of end, from where the last one ended.
  const std::vector<RangeRow>& NextRanges();
  // Allocations and frees that fall into the step NextRanges() gave last.
  const std::vector<MemoryRow>& Memory() const { return memory_; }
  int64_t now_ns() const { return now_ns_; }
  uint32_t name_count() const { return name_count_; }

 private:
  int64_t Jitter(int64_t mean_ns);
  void AddRange(int64_t body_ns, uint16_t depth, uint32_t name, int children, int fanout);

  std::mt19937 random_;
  const uint32_t name_count_;
  int64_t now_ns_ = 0;
  std::vector<RangeRow> ranges_;
  std::vector<MemoryRow> memory_;
};

// The GPU side of training steps: kernels on a compute stream in one order of names and launch
// shapes, every tenth on a second stream, a copy or memset now and then, each launched by an
// API call a few microseconds before. Names are those of a StepPattern.
class GpuPattern {
 public:
  explicit GpuPattern(uint32_t seed, uint32_t name_count = 258);

  // The next `count` rows, in order of their end, as a buffer of CUPTI's has them.
  const std::vector<GpuRow>& NextRows(size_t count);
  // The calls that launched the rows NextRows() gave last.
  const std::vector<ApiRow>& ApiCalls() const { return calls_; }

 private:
  void Add(size_t number);

  std::mt19937 random_;
  const uint32_t name_count_;
  size_t number_ = 0;
  int64_t call_ns_ = 0;
  int64_t stream_free_ns_[2] = {0, 0};
  uint32_t correlation_ = 1000;
  std::vector<GpuRow> rows_;
  std::vector<ApiRow> calls_;
};

// An operator for each of `ranges`, every fourth one backward, with inputs and scalars that recur
// (`kPatternInputs` of each, from 1).
inline constexpr uint32_t kPatternInputs = 12;
std::vector<OperatorRow> OperatorsOf(std::span<const RangeRow> ranges);
absl::Status IntroduceInputs(CaptureSink& sink);

// Adds the names and `threads` threads of a StepPattern to a sink.
absl::Status IntroducePattern(const StepPattern& pattern, uint32_t threads, CaptureSink& sink);

// Everything a reader gives, by thread.
struct ReadBack {
  std::vector<std::vector<RangeRow>> ranges;
  std::vector<std::vector<InstantRow>> instants;
  std::vector<std::vector<CounterRow>> counters;
  std::vector<std::vector<MemoryRow>> memory;
  std::vector<std::vector<ApiRow>> api_calls;
  // Of no thread.
  std::vector<GpuRow> gpu;
  std::vector<SyncRow> syncs;
  std::vector<OverheadRow> overheads;
  std::vector<CudaEventRow> cuda_events;
  // Of frameworks; by thread but for blocks.
  std::vector<std::vector<OperatorRow>> operators;
  std::vector<std::vector<TensorUseRow>> tensor_uses;
  std::vector<std::vector<NoteRow>> notes;
  std::vector<BlockRow> blocks;
  std::vector<StackRow> stacks;
  std::vector<ModuleRow> modules;
  // Of imported traces.
  std::vector<ArgumentRow> arguments;
  std::vector<GpuAnnotationRow> gpu_annotations;
};
absl::StatusOr<ReadBack> ReadAll(CaptureReader& reader);

}  // namespace profd::store

#endif  // PROFD_TESTS_STORE_FILE_CAPTURE_FILE_BUILDER_H_
