#include "tests/bench/bench_capture.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <span>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/unique_fd.h"
#include "daemon/store/file/writer.h"
#include "proto/wire/event.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd::bench {
namespace {

constexpr uint32_t kThreads = 2;
constexpr uint32_t kStepThread = 0;
constexpr auto kOperatorCategory = static_cast<uint8_t>(wire::RangeCategory::kOperator);
// Noise that repeats only this seldom cannot be compressed away.
constexpr size_t kDistinctSteps = 100;

struct PatternStep {
  std::vector<RangeRow> ranges;
  std::vector<MemoryRow> memory;
  int64_t start_ns;
  int64_t end_ns;
};

std::vector<PatternStep> MakeSteps(uint32_t seed) {
  store::StepPattern pattern(seed);
  std::vector<PatternStep> steps;
  for (size_t i = 0; i < kDistinctSteps; ++i) {
    const int64_t start_ns = pattern.now_ns();
    std::vector<RangeRow> ranges = pattern.NextRanges();
    steps.push_back({std::move(ranges), pattern.Memory(), start_ns, pattern.now_ns()});
  }
  return steps;
}

double ThreadCpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Launches one GPU row from each of a step's innermost ranges.
class GpuWriter {
 public:
  explicit GpuWriter(store::CaptureFileWriter& writer) : writer_(writer), pattern_(1) {}

  void WriteStep(const std::vector<RangeRow>& ranges, int64_t shift_ns, BenchCapture& capture) {
    std::vector<RangeRow> leaves;
    for (const RangeRow& range : ranges) {
      if (range.depth == kLeafDepth) leaves.push_back(range);
    }
    std::vector<GpuRow> rows = pattern_.NextRows(leaves.size());
    std::vector<ApiRow> calls = pattern_.ApiCalls();
    for (size_t i = 0; i < leaves.size(); ++i) {
      const RangeRow& leaf = leaves[i];
      calls[i].start_ns = leaf.start_ns + shift_ns + leaf.duration_ns / 4;
      calls[i].duration_ns = leaf.duration_ns / 2;
      calls[i].correlation = rows[i].correlation = ++correlation_;
      int64_t& free_ns = free_ns_[rows[i].stream];
      rows[i].start_ns = std::max(free_ns + 500, calls[i].start_ns + 2'000);
      rows[i].duration_ns = leaf.duration_ns * 4 / 5;
      free_ns = rows[i].start_ns + rows[i].duration_ns;
    }
    Must(writer_.Append(kStepThread, calls));
    Must(writer_.Append(rows));
    capture.gpu_rows += static_cast<int64_t>(rows.size());
  }

 private:
  static constexpr uint16_t kLeafDepth = 3;

  store::CaptureFileWriter& writer_;
  store::GpuPattern pattern_;
  uint32_t correlation_ = 0;
  std::map<uint32_t, int64_t> free_ns_;  // By stream.
};

// Puts one thread's steps behind each other, the pattern again and again.
class ThreadWriter {
 public:
  ThreadWriter(uint32_t thread, store::CaptureFileWriter& writer)
      : thread_(thread), writer_(writer), steps_(MakeSteps(thread + 1)) {}

  void WriteStep(bool memory, BenchCapture& capture, GpuWriter* gpu = nullptr,
                 bool operators = false) {
    const PatternStep& step = steps_[next_ % kDistinctSteps];
    const int64_t shift_ns = static_cast<int64_t>(next_ / kDistinctSteps) * steps_.back().end_ns;
    std::vector<RangeRow> ranges = step.ranges;
    for (RangeRow& row : ranges) row.start_ns += shift_ns;
    MarkStep(step.start_ns + shift_ns);
    if (operators) {
      for (RangeRow& row : ranges) row.category = kOperatorCategory;
    }
    Must(writer_.Append(thread_, ranges));
    capture.ranges += static_cast<int64_t>(ranges.size());
    if (operators) WriteOperators(ranges);
    if (operators && memory) WriteTensorUses(ranges, step.memory);
    if (gpu != nullptr) gpu->WriteStep(step.ranges, shift_ns, capture);
    if (memory) {
      std::vector<MemoryRow> rows = step.memory;
      for (MemoryRow& row : rows) row.time_ns += shift_ns;
      Must(writer_.Append(thread_, rows));
      capture.memory_events += static_cast<int64_t>(rows.size());
    }
    now_ns_ = step.end_ns + shift_ns;
    ++next_;
  }
  void MarkStep(int64_t time_ns) {
    if (thread_ != kStepThread) return;
    const StepRow mark = {time_ns, static_cast<int64_t>(next_)};
    Must(writer_.Append(thread_, mark));
  }
  int64_t now_ns() const { return now_ns_; }
  int64_t steps() const { return static_cast<int64_t>(next_); }

 private:
  void WriteOperators(std::span<const RangeRow> ranges) {
    std::vector<OperatorRow> rows = store::OperatorsOf(ranges);
    const bool is_backward = thread_ != kStepThread;
    for (OperatorRow& row : rows) {
      row.scope = is_backward ? 1 : 0;
      row.forward_thread = is_backward ? 1 : 0;
      row.torch_thread = thread_ + 1;
      row.sequence = operators_++ % 3 == 0 ? operators_ : -1;
    }
    Must(writer_.Append(thread_, rows));
  }
  void WriteTensorUses(std::span<const RangeRow> ranges, std::span<const MemoryRow> memory) {
    std::vector<TensorUseRow> uses;
    for (const RangeRow& range : ranges) {
      for (const uint8_t input : {0, 1}) {
        uses.push_back({.time_ns = range.start_ns,
                        .address = memory[uses.size() % memory.size()].address,
                        .depth = range.depth,
                        .scope = 0,
                        .input = input});
      }
    }
    Must(writer_.Append(thread_, uses));
  }

  const uint32_t thread_;
  store::CaptureFileWriter& writer_;
  const std::vector<PatternStep> steps_;
  size_t next_ = 0;
  int64_t operators_ = 0;
  int64_t now_ns_ = 0;
};

// Two threads' steps, as WriteBenchCapture says.
BenchCapture WriteTwoThreads(const std::filesystem::path& folder, int64_t ranges, bool memory,
                             bool operators) {
  static int captures_made = 0;
  const std::string id = store::IdOf(++captures_made);
  CaptureRecord record = store::NewRecord(id);
  record.spec.max_bytes = int64_t{8} << 30;
  const auto writer = Must(store::CaptureFileWriter::Create(
      record, Clock::Real(), {.directory = folder, .on_sealed = nullptr}));
  Must(store::IntroducePattern(store::StepPattern(1), kThreads, *writer));
  if (operators) Must(store::IntroduceInputs(*writer));
  BenchCapture capture{.path = folder / (id + ".profd")};
  ThreadWriter main(kStepThread, *writer);
  ThreadWriter worker(1, *writer);
  while (capture.ranges < ranges) {
    main.WriteStep(memory, capture, nullptr, operators);
    worker.WriteStep(memory, capture, nullptr, operators);
  }
  main.MarkStep(main.now_ns());
  capture.steps = main.steps();
  record = store::FinishedRecord(
      record, {.start_ns = 0, .end_ns = main.now_ns(), .first_step = 0, .end_step = capture.steps});
  Must(writer->Finish(record, 0));
  return capture;
}

}  // namespace

void Die(const absl::Status& status) {
  std::fprintf(stderr, "benchmark: %s\n", status.ToString().c_str());
  std::exit(1);
}

BenchCapture WriteBenchCapture(const std::filesystem::path& folder, int64_t ranges, bool memory) {
  return WriteTwoThreads(folder, ranges, memory, /*operators=*/false);
}

BenchCapture WriteOperatorBenchCapture(const std::filesystem::path& folder, int64_t ranges,
                                       bool memory) {
  return WriteTwoThreads(folder, ranges, memory, /*operators=*/true);
}

BenchCapture WriteGpuBenchCapture(const std::filesystem::path& folder, int64_t gpu_rows) {
  CaptureRecord record = store::NewRecord("01JGPU00000000000000000000");
  record.spec.max_bytes = int64_t{8} << 30;
  const auto writer = Must(store::CaptureFileWriter::Create(
      record, Clock::Real(), {.directory = folder, .on_sealed = nullptr}));
  Must(store::IntroducePattern(store::StepPattern(1), 1, *writer));
  BenchCapture capture{.path = folder / (record.id + ".profd")};
  ThreadWriter main(kStepThread, *writer);
  GpuWriter gpu(*writer);
  while (capture.gpu_rows < gpu_rows) main.WriteStep(/*memory=*/false, capture, &gpu);
  main.MarkStep(main.now_ns());
  capture.steps = main.steps();
  record = store::FinishedRecord(
      record, {.start_ns = 0, .end_ns = main.now_ns(), .first_step = 0, .end_step = capture.steps});
  record.gpu.outcome = GpuOutcome::kRecorded;
  record.gpu.mode = GpuMode::kDefault;
  record.gpu.devices = {{.number = 0,
                         .name = "GPU",
                         .compute_major = 9,
                         .sm_count = 132,
                         .warp_threads = 32,
                         .max_threads_per_block = 1024,
                         .max_threads_per_sm = 2048,
                         .max_blocks_per_sm = 32,
                         .registers_per_sm = 65536,
                         .shared_bytes_per_sm = 233472}};
  // As the seal of such a capture says.
  record.graded.checks.push_back({.name = "impossible_times"});
  Must(writer->Finish(record, 0));
  return capture;
}

std::unique_ptr<store::CaptureReader> OpenCapture(const BenchCapture& capture) {
  return Must(store::CaptureReader::Open(capture.path));
}

void DropPageCache(const std::filesystem::path& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  fsync(file.get());
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
}

Timing Best(int rounds, const std::function<void()>& prepare, const std::function<void()>& run) {
  Timing best;
  for (int i = 0; i < rounds; ++i) {
    prepare();
    const double cpu_before = ThreadCpuSeconds();
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    best.wall_s = std::min(best.wall_s, wall.count());
    best.cpu_s = std::min(best.cpu_s, ThreadCpuSeconds() - cpu_before);
  }
  return best;
}

Timing Best(int rounds, const std::function<void()>& run) {
  return Best(
      rounds, [] {}, run);
}

void Print(const char* what, double value, const char* unit) {
  std::printf("%-66s %10.3f %s\n", what, value, unit);
  std::fflush(stdout);
}

}  // namespace profd::bench
