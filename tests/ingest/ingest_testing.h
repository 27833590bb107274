// What the tests of daemon/ingest share: a sink and an observer that remember, chunks built
// by hand, a server on a temporary socket.
#ifndef PROFD_TESTS_INGEST_INGEST_TESTING_H_
#define PROFD_TESTS_INGEST_INGEST_TESTING_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "daemon/base/str_cat.h"
#include "daemon/capture/ports.h"
#include "daemon/ingest/decode/event_decoder.h"
#include "daemon/ingest/target_server.h"
#include "proto/wire/capture_memory.h"

namespace profd {

inline constexpr absl::Duration kTestDeadline = absl::Seconds(60);

// Remembers every row; checks the sink's own contract: names and threads come first, rows
// of one thread in order, depths and durations in range.
class RecordingSink final : public CaptureSink {
 public:
  struct Named {
    uint32_t thread;
    std::string name;
  };
  struct Range : Named {
    RangeRow row;
  };
  struct Instant : Named {
    InstantRow row;
  };
  struct Counter : Named {
    CounterRow row;
  };
  struct ApiCall : Named {
    ApiRow row;
  };
  struct Operator {
    uint32_t thread;
    OperatorRow row;
    OperatorInputs inputs;
    std::string scalars;
  };
  struct Note {
    uint32_t thread;
    std::string subject;
    std::string text;
    NoteRow row;
  };
  struct Block {
    std::string name;
    BlockRow row;
  };
  struct Argument {
    std::string key;
    std::string text;  // Of ArgumentType::kJson.
    ArgumentRow row;
  };

  absl::Status AddName(uint32_t id, std::string_view name) override {
    absl::MutexLock lock(&mu_);
    if (!error_.ok()) return error_;
    EXPECT_TRUE(names_.emplace(id, name).second) << "name " << id << " twice";
    return absl::OkStatus();
  }
  absl::Status AddThread(const ThreadRow& thread) override {
    absl::MutexLock lock(&mu_);
    if (!error_.ok()) return error_;
    threads_[thread.index] = thread;
    return absl::OkStatus();
  }
  absl::Status AddInputs(uint32_t id, const OperatorInputs& inputs) override {
    absl::MutexLock lock(&mu_);
    if (!error_.ok()) return error_;
    EXPECT_TRUE(inputs_.emplace(id, inputs).second) << "inputs " << id << " twice";
    return absl::OkStatus();
  }
  absl::Status AddScalars(uint32_t id, std::string_view scalars) override {
    absl::MutexLock lock(&mu_);
    if (!error_.ok()) return error_;
    EXPECT_TRUE(scalars_.emplace(id, scalars).second) << "scalars " << id << " twice";
    return absl::OkStatus();
  }
  absl::Status AppendRows(const EventRows& rows) override {
    absl::MutexLock lock(&mu_);
    if (!error_.ok()) return error_;
    rows.Visit([&](auto of_kind) {
      mu_.AssertHeld();
      Take(rows.thread(), of_kind);
    });
    return absl::OkStatus();
  }
  int64_t approx_bytes() const override {
    absl::MutexLock lock(&mu_);
    return bytes_;
  }

  // From now on every call fails.
  void FailWith(absl::Status error) {
    absl::MutexLock lock(&mu_);
    error_ = std::move(error);
  }

  std::vector<Range> ranges() const { return Copy(ranges_); }
  std::vector<Instant> instants() const { return Copy(instants_); }
  std::vector<Counter> counters() const { return Copy(counters_); }
  std::vector<MemoryRow> memory() const { return Copy(memory_); }
  std::vector<StepRow> steps() const { return Copy(steps_); }
  std::vector<ApiCall> api_calls() const { return Copy(api_calls_); }
  std::vector<GpuRow> gpu() const { return Copy(gpu_); }
  std::vector<SyncRow> syncs() const { return Copy(syncs_); }
  std::vector<OverheadRow> overheads() const { return Copy(overheads_); }
  std::vector<CudaEventRow> cuda_events() const { return Copy(cuda_events_); }
  std::vector<Operator> operators() const { return Copy(operators_); }
  std::vector<TensorUseRow> tensor_uses() const { return Copy(tensor_uses_); }
  std::vector<Note> notes() const { return Copy(notes_); }
  std::vector<Block> blocks() const { return Copy(blocks_); }
  std::vector<StackRow> stacks() const { return Copy(stacks_); }
  std::vector<ModuleRow> modules() const { return Copy(modules_); }
  std::vector<Argument> arguments() const { return Copy(arguments_); }
  size_t inputs_count() const { return Copy(inputs_).size(); }
  std::map<uint32_t, ThreadRow> threads() const { return Copy(threads_); }

  std::vector<std::string> range_names() const {
    std::vector<std::string> names;
    for (const Range& range : ranges()) names.push_back(range.name);
    return names;
  }
  void WaitForRanges(size_t count) const {
    absl::MutexLock lock(&mu_);
    const auto enough = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return ranges_.size() >= count; };
    ASSERT_TRUE(mu_.AwaitWithTimeout(absl::Condition(&enough), kTestDeadline));
  }

 private:
  template <typename T>
  T Copy(const T& value) const {
    absl::MutexLock lock(&mu_);
    return value;
  }
  std::string NameOf(uint32_t id) const ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    const auto it = names_.find(id);
    EXPECT_NE(it, names_.end()) << "row before its name";
    return it != names_.end() ? it->second : "";
  }
  void Take(uint32_t thread, std::span<const RangeRow> rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (const RangeRow& row : rows) {
      EXPECT_GE(row.duration_ns, 0);
      EXPECT_LT(row.depth, wire::kMaxRangeDepth);
      int64_t& last = last_end_ns_[thread];
      EXPECT_GE(row.start_ns + row.duration_ns, last) << "out of order";
      last = row.start_ns + row.duration_ns;
      ranges_.push_back({{thread, NameOf(row.name)}, row});
      ++range_counts_[thread];
    }
    bytes_ += static_cast<int64_t>(rows.size_bytes());
  }
  void Take(uint32_t thread, std::span<const InstantRow> rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (const InstantRow& row : rows) instants_.push_back({{thread, NameOf(row.name)}, row});
  }
  void Take(uint32_t thread, std::span<const CounterRow> rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (const CounterRow& row : rows) counters_.push_back({{thread, NameOf(row.name)}, row});
  }
  void Take(uint32_t, std::span<const MemoryRow> rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    memory_.insert(memory_.end(), rows.begin(), rows.end());
  }
  void Take(uint32_t, std::span<const StepRow> rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    steps_.insert(steps_.end(), rows.begin(), rows.end());
  }
  void Take(uint32_t thread, std::span<const ApiRow> rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    EXPECT_TRUE(threads_.contains(thread)) << "row before its thread";
    for (const ApiRow& row : rows) api_calls_.push_back({{thread, NameOf(row.name)}, row});
  }
  void Take(uint32_t, std::span<const GpuRow> rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (const GpuRow& row : rows) {
      EXPECT_GE(row.duration_ns, 0);
      if (row.kind == GpuRowKind::kKernel) NameOf(row.name);
    }
    gpu_.insert(gpu_.end(), rows.begin(), rows.end());
  }
  void Take(uint32_t, std::span<const SyncRow> rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    syncs_.insert(syncs_.end(), rows.begin(), rows.end());
  }
  void Take(uint32_t, std::span<const OverheadRow> rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    overheads_.insert(overheads_.end(), rows.begin(), rows.end());
  }
  void Take(uint32_t, std::span<const CudaEventRow> rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    cuda_events_.insert(cuda_events_.end(), rows.begin(), rows.end());
  }
  // Each has a range that came before.
  void Take(uint32_t thread, std::span<const OperatorRow> rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (const OperatorRow& row : rows) {
      EXPECT_TRUE(std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
        return range.thread == thread && range.row.start_ns == row.start_ns &&
               range.row.depth == row.depth && range.row.category == 1;
      })) << "operator without its range";
      EXPECT_TRUE(row.inputs == 0 || inputs_.contains(row.inputs)) << "row before its inputs";
      EXPECT_TRUE(row.scalars == 0 || scalars_.contains(row.scalars)) << "row before its scalars";
      operators_.push_back({thread, row, row.inputs == 0 ? OperatorInputs() : inputs_[row.inputs],
                            row.scalars == 0 ? "" : scalars_[row.scalars]});
    }
  }
  void Take(uint32_t, std::span<const TensorUseRow> rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    tensor_uses_.insert(tensor_uses_.end(), rows.begin(), rows.end());
  }
  void Take(uint32_t thread, std::span<const NoteRow> rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    EXPECT_TRUE(threads_.contains(thread)) << "row before its thread";
    for (const NoteRow& row : rows) {
      notes_.push_back({thread, row.subject == 0 ? "" : NameOf(row.subject),
                        row.text == 0 ? "" : NameOf(row.text), row});
    }
  }
  void Take(uint32_t, std::span<const BlockRow> rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (const BlockRow& row : rows) {
      blocks_.push_back({row.name == 0 ? "" : NameOf(row.name), row});
    }
  }
  void Take(uint32_t, std::span<const StackRow> rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (const StackRow& row : rows) {
      EXPECT_LE(row.caller, stacks_.size()) << "a stack before its caller";
      stacks_.push_back(row);
    }
  }
  void Take(uint32_t, std::span<const ModuleRow> rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    modules_.insert(modules_.end(), rows.begin(), rows.end());
  }
  void Take(uint32_t, std::span<const ArgumentRow> rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (const ArgumentRow& row : rows) {
      EXPECT_EQ(row.of, kArgumentOfRange);
      EXPECT_LT(row.row, range_counts_[row.of_thread]) << "an argument before its range";
      const bool is_text = row.type == ArgumentType::kJson;
      arguments_.push_back(
          {NameOf(row.key), is_text ? NameOf(static_cast<uint32_t>(row.value)) : "", row});
    }
  }
  // Kinds that only imports have.
  template <typename Row>
  void Take(uint32_t, std::span<const Row>) {
    ADD_FAILURE() << "rows of kind " << static_cast<int>(Row::kKind);
  }

  mutable absl::Mutex mu_;
  absl::Status error_;
  int64_t bytes_ = 0;
  std::map<uint32_t, std::string> names_;
  std::map<uint32_t, ThreadRow> threads_;
  std::map<uint32_t, int64_t> last_end_ns_;
  std::map<uint32_t, uint32_t> range_counts_;  // By thread.
  std::vector<Range> ranges_;
  std::vector<Instant> instants_;
  std::vector<Counter> counters_;
  std::vector<MemoryRow> memory_;
  std::vector<StepRow> steps_;
  std::vector<ApiCall> api_calls_;
  std::vector<GpuRow> gpu_;
  std::vector<SyncRow> syncs_;
  std::vector<OverheadRow> overheads_;
  std::vector<CudaEventRow> cuda_events_;
  std::map<uint32_t, OperatorInputs> inputs_;
  std::map<uint32_t, std::string> scalars_;
  std::vector<Operator> operators_;
  std::vector<TensorUseRow> tensor_uses_;
  std::vector<Note> notes_;
  std::vector<Block> blocks_;
  std::vector<StackRow> stacks_;
  std::vector<ModuleRow> modules_;
  std::vector<Argument> arguments_;
};

// Remembers what it is told, and waits for it.
class RecordingObserver final : public TargetPort::Observer {
 public:
  void OnTargetAdded(TargetNumber target) override {
    absl::MutexLock lock(&mu_);
    added_.insert(target);
  }
  void OnTargetGone(TargetNumber target) override {
    absl::MutexLock lock(&mu_);
    gone_.insert(target);
  }
  void OnTargetOptedOut(TargetNumber target) override {
    absl::MutexLock lock(&mu_);
    opted_out_.insert(target);
  }
  void OnArmed(std::string_view id) override {
    absl::MutexLock lock(&mu_);
    armed_.insert(std::string(id));
  }
  void OnArming(std::string_view id, std::string_view activity) override {
    absl::MutexLock lock(&mu_);
    activities_[std::string(id)].emplace_back(activity);
  }
  void OnArmFailed(std::string_view id, absl::Status why) override {
    absl::MutexLock lock(&mu_);
    arm_failed_.emplace(id, std::move(why));
  }
  void OnProgress(std::string_view id, const Progress& progress) override {
    absl::MutexLock lock(&mu_);
    progress_[std::string(id)].push_back(progress);
  }
  void OnDrained(std::string_view id, DrainResult result) override {
    absl::MutexLock lock(&mu_);
    EXPECT_TRUE(drained_.emplace(id, std::move(result)).second) << "drained twice";
  }

  void WaitGone(TargetNumber target) {
    Wait([&]() { return gone_.contains(target); }, "target gone");
  }
  void WaitOptedOut(TargetNumber target) {
    Wait([&]() { return opted_out_.contains(target); }, "target opted out");
  }
  std::vector<std::string> WaitActivities(const std::string& id) {
    Wait([&]() { return !activities_[id].empty(); }, "activity");
    absl::MutexLock lock(&mu_);
    return activities_.at(id);
  }
  void WaitArmed(const std::string& id) {
    Wait([&]() { return armed_.contains(id); }, "armed");
  }
  absl::Status WaitArmFailed(const std::string& id) {
    Wait([&]() { return arm_failed_.contains(id); }, "arm failed");
    absl::MutexLock lock(&mu_);
    return arm_failed_.at(id);
  }
  DrainResult WaitDrained(const std::string& id) {
    Wait([&]() { return drained_.contains(id); }, "drained");
    absl::MutexLock lock(&mu_);
    return drained_.at(id);
  }
  void WaitPhase(const std::string& id, RecordingPhase phase) {
    Wait(
        [&]() {
          for (const Progress& progress : progress_[id]) {
            if (progress.phase == phase) return true;
          }
          return false;
        },
        "phase");
  }
  void WaitSinkFailure(const std::string& id) {
    Wait(
        [&]() {
          const std::vector<Progress>& all = progress_[id];
          return !all.empty() && !all.back().sink_status.ok();
        },
        "sink failure");
  }
  std::vector<Progress> progress(const std::string& id) {
    absl::MutexLock lock(&mu_);
    return progress_[id];
  }
  bool IsDrained(const std::string& id) {
    absl::MutexLock lock(&mu_);
    return drained_.contains(id);
  }
  size_t added_count() {
    absl::MutexLock lock(&mu_);
    return added_.size();
  }

 private:
  template <typename Done>
  void Wait(const Done& done, const char* what) {
    absl::MutexLock lock(&mu_);
    if (!mu_.AwaitWithTimeout(absl::Condition(&done), kTestDeadline)) {
      ADD_FAILURE() << "waited in vain: " << what;
      abort();
    }
  }

  absl::Mutex mu_;
  std::set<TargetNumber> added_;
  std::set<TargetNumber> gone_;
  std::set<TargetNumber> opted_out_;
  std::set<std::string> armed_;
  std::map<std::string, std::vector<std::string>> activities_;
  std::map<std::string, absl::Status> arm_failed_;
  std::map<std::string, std::vector<Progress>> progress_;
  std::map<std::string, DrainResult> drained_;
};

class TempDir {
 public:
  TempDir() {
    char name[] = "/tmp/profd-ingest-XXXXXX";
    if (mkdtemp(name) == nullptr) abort();
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Polls for what there is no event for.
template <typename Done>
bool Eventually(const Done& done) {
  const absl::Time deadline = absl::Now() + kTestDeadline;
  while (!done()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

// A chunk as a thread of a target would leave it, or not.
class ChunkBuilder {
 public:
  ChunkBuilder() { memset(data_, 0, sizeof(data_)); }

  ChunkBuilder& Head(uint32_t serial, uint32_t window = 0, uint32_t os_thread = 100) {
    Put(offsetof(wire::ChunkHeader, thread_serial), serial);
    Put(offsetof(wire::ChunkHeader, os_thread), os_thread);
    Put(offsetof(wire::ChunkHeader, window), window);
    return *this;
  }
  ChunkBuilder& Open(uint64_t start_ticks, uint32_t name_id, uint16_t pairing = 0,
                     uint16_t category = 0) {
    const wire::OpenRange range{start_ticks, name_id, category, pairing};
    memcpy(data_ + offsetof(wire::ChunkHeader, open_ranges) + depth_ * sizeof(range), &range,
           sizeof(range));
    return Depth(++depth_);
  }
  ChunkBuilder& Depth(uint32_t depth) {
    Put(offsetof(wire::ChunkHeader, open_depth), depth);
    return *this;
  }
  template <typename Record>
  ChunkBuilder& Add(Record record, wire::EventKind kind, uint8_t flags = 0, uint32_t thread = 0) {
    record.header = {sizeof(record), static_cast<uint8_t>(kind), flags, thread};
    return AddBytes(&record, sizeof(record));
  }
  ChunkBuilder& AddBytes(const void* bytes, size_t size) {
    memcpy(data_ + wire::kChunkDataOffset + used_, bytes, size);
    used_ += static_cast<uint32_t>(size);
    return *this;
  }
  ChunkBuilder& Range(uint64_t start, uint64_t end, uint32_t name, uint16_t depth = 0) {
    wire::RangeEvent event{};
    event.start_ticks = start;
    event.duration_ticks = end - start;
    event.name_id = name;
    event.depth = depth;
    return Add(event, wire::EventKind::kRange);
  }
  ChunkBuilder& Instant(uint64_t time, uint32_t name) {
    wire::InstantEvent event{};
    event.time_ticks = time;
    event.name_id = name;
    return Add(event, wire::EventKind::kInstant);
  }
  ChunkBuilder& Step(uint64_t time, uint64_t step) {
    wire::StepEvent event{};
    event.time_ticks = time;
    event.step = step;
    return Add(event, wire::EventKind::kStep);
  }
  ChunkBuilder& ThreadName(uint32_t name) {
    wire::ThreadNameEvent event{};
    event.name_id = name;
    return Add(event, wire::EventKind::kThreadName);
  }

  std::byte* data() { return data_; }
  uint32_t used() const { return used_; }
  ChunkView View(uint64_t copy_ticks) const {
    return {.bytes = data_, .record_bytes = used_, .copy_ticks = copy_ticks};
  }

 private:
  void Put(size_t at, uint32_t value) { memcpy(data_ + at, &value, sizeof(value)); }

  alignas(64) std::byte data_[wire::kChunkBytes];
  uint32_t used_ = 0;
  uint32_t depth_ = 0;
};

// Names "n<id>" for the ids it was given.
class FakeNames final : public NameReader {
 public:
  explicit FakeNames(std::set<uint32_t> ids) : ids_(std::move(ids)) {}
  bool ReadName(uint32_t id, std::string& name) const override {
    ++reads;
    if (!ids_.contains(id)) return false;
    name = StrCat("n", id);
    return true;
  }
  mutable int reads = 0;

 private:
  const std::set<uint32_t> ids_;
};

}  // namespace profd

#endif  // PROFD_TESTS_INGEST_INGEST_TESTING_H_
