// From capture memory to a stored capture.
//
//   profd_bench ingest pipeline [EVENTS] [ROUNDS]     default: 10000000 5
//     Full chunks are copied, validated, decoded and stored by one thread on one core. The
//     same with a sink that does nothing, and the copy alone, for scale. Best of ROUNDS, by
//     the clock and by the thread's own CPU time, which says more where others are at work.
//   profd_bench ingest live [SECONDS] [EVENTS_PER_S]  default: 10 2500000
//     Two processes with the real library, paced to that rate each, captured at the same time
//     by a real server into capture files: what was dropped, and the server's share of a core.
//   profd_bench ingest arm [ROUNDS]                   default: 300
//     From Arm() of 64 MiB to the target's ARMED, with the real library in a process.
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client_lib/include/profd/profd.h"
#include "daemon/base/log.h"
#include "daemon/base/str_cat.h"
#include "daemon/ingest/capture_memory.h"
#include "daemon/ingest/decode/event_decoder.h"
#include "daemon/ingest/target_server.h"
#include "daemon/store/file/writer.h"
#include "tests/bench/benchmarks.h"
#include "tests/store/file/capture_file_builder.h"

extern char** environ;

namespace profd {
namespace {

constexpr uint32_t kThreads = 2;
constexpr uint32_t kRecordsPerChunk = wire::kChunkDataBytes / sizeof(wire::RangeEvent);
constexpr uint64_t kEpoch = 1'000'000'000'000;

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "profd_bench ingest: %s\n", what.c_str());
  std::exit(1);
}
void Must(const absl::Status& status) {
  if (!status.ok()) Die(status.ToString());
}
template <typename T>
T Must(absl::StatusOr<T> result) {
  if (!result.ok()) Die(result.status().ToString());
  return *std::move(result);
}

double SecondsOf(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// ---- pipeline ----

// Takes everything and keeps nothing.
class NullSink final : public CaptureSink {
 public:
  absl::Status AddName(uint32_t, std::string_view) override { return absl::OkStatus(); }
  absl::Status AddThread(const ThreadRow&) override { return absl::OkStatus(); }
  absl::Status AddInputs(uint32_t, const OperatorInputs&) override { return absl::OkStatus(); }
  absl::Status AddScalars(uint32_t, std::string_view) override { return absl::OkStatus(); }
  absl::Status AppendRows(const EventRows& rows) override {
    rows.Visit([&](auto of_kind) { Take(rows.thread(), of_kind); });
    return absl::OkStatus();
  }
  int64_t approx_bytes() const override { return sum_ns_; }

 private:
  void Take(uint32_t, std::span<const RangeRow> rows) {
    for (const RangeRow& row : rows) sum_ns_ += row.duration_ns;
  }
  template <typename Row>
  void Take(uint32_t, std::span<const Row>) {}

  int64_t sum_ns_ = 0;
};

// Capture memory full of chunks, as the threads of a target leave it. One tick is one ns.
class FullMemory {
 public:
  explicit FullMemory(uint64_t events) : chunk_count_(events / kRecordsPerChunk) {
    const uint64_t bytes = (chunk_count_ + 600) * wire::kChunkBytes;
    memory_ = Must(CaptureMemory::Create(1, bytes));
    while (memory_->FillFreeList() == CaptureMemory::Fill::kMore) {
    }
    void* mapped =
        mmap(nullptr, memory_->size_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, memory_->fd(), 0);
    if (mapped == MAP_FAILED) Die("mmap");
    theirs_ = static_cast<std::byte*>(mapped);
    WriteNames();
    for (uint32_t thread = 0; thread < kThreads; ++thread) WriteChunks(thread);
  }
  ~FullMemory() { munmap(theirs_, memory_->size_bytes()); }

  CaptureMemory& memory() { return *memory_; }
  uint32_t chunk_count() const { return static_cast<uint32_t>(chunk_count_); }
  uint64_t event_count() const { return chunk_count_ * kRecordsPerChunk; }
  uint64_t end_ticks() const { return end_ticks_; }

 private:
  void WriteNames() {
    const wire::CaptureMemoryLayout& layout = memory_->layout();
    auto* index = reinterpret_cast<std::atomic<uint32_t>*>(theirs_ + layout.name_index_offset);
    uint64_t at = layout.name_area_offset;
    for (uint32_t id = 1; id <= StepPattern(1).name_count() + 1; ++id, at += 32) {
      const std::string name = StrCat("aten::operator_", id);
      const wire::NameEntry entry{static_cast<uint32_t>(name.size()), 0};
      memcpy(theirs_ + at, &entry, sizeof(entry));
      memcpy(theirs_ + at + sizeof(entry), name.data(), name.size());
      index[id].store(static_cast<uint32_t>(at));
    }
  }

  // Every second chunk is this thread's.
  void WriteChunks(uint32_t thread) {
    StepPattern pattern(thread + 1);
    std::vector<RangeRow> rows;
    size_t next = 0;
    uint32_t sequence = 0;
    for (uint64_t i = thread; i < chunk_count_; i += kThreads) {
      std::byte* chunk =
          theirs_ + memory_->layout().chunks_offset + i * uint64_t{wire::kChunkBytes};
      auto* head = reinterpret_cast<wire::ChunkHeader*>(chunk);
      head->thread_serial = thread + 1;
      head->os_thread = thread + 100;
      head->sequence = sequence++;
      std::byte* to = chunk + wire::kChunkDataOffset;
      for (uint32_t r = 0; r < kRecordsPerChunk; ++r, to += sizeof(wire::RangeEvent)) {
        if (next == rows.size()) {
          rows = pattern.NextRanges();
          next = 0;
        }
        const RangeRow& row = rows[next++];
        const wire::RangeEvent event{
            .header = {sizeof(wire::RangeEvent), static_cast<uint8_t>(wire::EventKind::kRange), 0,
                       0},
            .start_ticks = kEpoch + 1000 + static_cast<uint64_t>(row.start_ns),
            .duration_ticks = static_cast<uint64_t>(row.duration_ns),
            .name_id = row.name + 1,
            .depth = row.depth,
            .category = 0};
        memcpy(to, &event, sizeof(event));
        end_ticks_ = std::max(end_ticks_, event.start_ticks + event.duration_ticks);
      }
      head->published_bytes.store(kRecordsPerChunk * sizeof(wire::RangeEvent));
    }
  }
  using StepPattern = store::StepPattern;

  const uint64_t chunk_count_;
  std::unique_ptr<CaptureMemory> memory_;
  std::byte* theirs_ = nullptr;
  uint64_t end_ticks_ = 0;
};

// How long something took, or the least of several times.
struct Times {
  double wall = 1e9;
  double cpu = 1e9;
  void KeepLeast(const Times& other) {
    wall = std::min(wall, other.wall);
    cpu = std::min(cpu, other.cpu);
  }
};
Times TimesOf(const std::function<void()>& work) {
  const double wall = SecondsOf(CLOCK_MONOTONIC);
  const double cpu = SecondsOf(CLOCK_THREAD_CPUTIME_ID);
  work();
  return {SecondsOf(CLOCK_MONOTONIC) - wall, SecondsOf(CLOCK_THREAD_CPUTIME_ID) - cpu};
}

// One pass over all chunks.
void Drain(FullMemory& full, CaptureSink& sink) {
  const std::array<WindowTicks, 1> windows = {{{kEpoch + 1, full.end_ticks()}}};
  ChunkQueue queue(4 * wire::kChunkBytes);
  ChunkCopy& copy = *queue.Take();
  EventDecoder decoder(TickLine({kEpoch, 0, 0}, 1.0), full.memory(), windows, sink);
  for (uint32_t i = 0; i < full.chunk_count(); ++i) {
    full.memory().CopyChunk(i, copy);
    decoder.Decode(
        {.bytes = copy.bytes, .record_bytes = copy.record_bytes, .copy_ticks = full.end_ticks()});
  }
  decoder.Finish();
  if (decoder.counts().event_count != static_cast<int64_t>(full.event_count())) {
    Die(StrCat("only ", decoder.counts().event_count, " of ", full.event_count(),
               " events arrived; invalid: ", decoder.counts().invalid_count));
  }
}

void CopyOnly(FullMemory& full) {
  ChunkQueue queue(4 * wire::kChunkBytes);
  ChunkCopy& copy = *queue.Take();
  for (uint32_t i = 0; i < full.chunk_count(); ++i) full.memory().CopyChunk(i, copy);
}

std::unique_ptr<store::CaptureFileWriter> NewFile(const std::filesystem::path& folder,
                                                  std::string_view id) {
  CaptureRecord record = store::NewRecord(id);
  record.spec.max_bytes = int64_t{8} << 30;
  return Must(store::CaptureFileWriter::Create(record, Clock::Real(),
                                               {.directory = folder, .on_sealed = nullptr}));
}

Times DrainToFile(FullMemory& full, const std::filesystem::path& folder, int64_t& file_bytes) {
  auto file = NewFile(folder, store::IdOf(1));
  const Times times = TimesOf([&] { Drain(full, *file); });
  // Sealing (checksum of the file, sync) is the store's; it is in its own benchmark.
  CaptureRecord record = store::FinishedRecord(
      store::NewRecord(store::IdOf(1)),
      {.start_ns = 0, .end_ns = static_cast<int64_t>(full.end_ticks() - kEpoch)});
  Must(file->Finish(record, 0));
  file_bytes = record.file_bytes;
  return times;
}

void RunPipeline(uint64_t events, int rounds) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(sched_getcpu(), &cpus);
  sched_setaffinity(0, sizeof(cpus), &cpus);
  FullMemory full(events);
  const store::TemporaryFolder folder;
  const auto millions = static_cast<double>(full.event_count()) * 1e-6;
  Times copy;
  Times decode;
  Times stored;
  int64_t file_bytes = 0;
  for (int i = 0; i < rounds; ++i) {
    copy.KeepLeast(TimesOf([&full] { CopyOnly(full); }));
    NullSink sink;
    decode.KeepLeast(TimesOf([&full, &sink] { Drain(full, sink); }));
    stored.KeepLeast(DrainToFile(full, folder.path(), file_bytes));
  }
  const auto print = [millions](const char* what, const Times& times) {
    std::printf("%-30s %6.1f M/s  (%.1f by CPU time)\n", what, millions / times.wall,
                millions / times.cpu);
  };
  std::printf("%.1f M ranges, best of %d\n", millions, rounds);
  print("copy", copy);
  print("copy, validate, decode", decode);
  print("copy, validate, decode, store", stored);
  std::printf("%-30s %6.2f bytes/event\n", "file",
              static_cast<double>(file_bytes) / (millions * 1e6));
}

// ---- live ----

int RunProducer(const char* socket_dir, double events_per_second) {
  static profd_name outer = PROFD_NAME_INIT("outer");
  static profd_name inner = PROFD_NAME_INIT("inner");
  constexpr double kQuantumSeconds = 200e-6;
  constexpr int kInnerPerOuter = 9;
  setenv("PROFD_SOCKET_DIR", socket_dir, 1);
  if (profd_init() != PROFD_OK) return 1;
  profd_status status{};
  status.size_bytes = sizeof(status);
  const auto recording = [&status] {
    return profd_get_status(&status) == PROFD_OK && status.recording != 0;
  };
  while (!recording()) usleep(1000);
  const double start = SecondsOf(CLOCK_MONOTONIC);
  double written = 0;
  while (recording()) {
    const double due = (SecondsOf(CLOCK_MONOTONIC) - start) * events_per_second;
    while (written < due) {
      profd_range_begin(&outer);
      for (int i = 0; i < kInnerPerOuter; ++i) {
        profd_range_begin(&inner);
        profd_range_end();
      }
      profd_range_end();
      written += kInnerPerOuter + 1;
    }
    timespec pause{0, static_cast<long>(kQuantumSeconds * 1e9)};
    nanosleep(&pause, nullptr);
  }
  return 0;
}

class LiveObserver final : public TargetPort::Observer {
 public:
  void OnTargetAdded(TargetNumber) override {}
  void OnTargetGone(TargetNumber) override {}
  void OnTargetOptedOut(TargetNumber) override {}
  void OnArmed(std::string_view) override {
    absl::MutexLock lock(&mu_);
    ++armed_;
  }
  void OnArming(std::string_view, std::string_view) override {}
  void OnArmFailed(std::string_view, absl::Status why) override { Must(why); }
  void OnProgress(std::string_view, const Progress&) override {}
  void OnDrained(std::string_view, DrainResult result) override {
    absl::MutexLock lock(&mu_);
    results_.push_back(std::move(result));
  }
  void WaitArmed(int count) {
    absl::MutexLock lock(&mu_);
    const auto armed = [&]() { return armed_ == count; };
    mu_.Await(absl::Condition(&armed));
  }
  std::vector<DrainResult> WaitDrained(size_t count) {
    absl::MutexLock lock(&mu_);
    const auto drained = [&]() { return results_.size() == count; };
    mu_.Await(absl::Condition(&drained));
    return results_;
  }

 private:
  absl::Mutex mu_;
  int armed_ = 0;
  std::vector<DrainResult> results_;
};

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

pid_t StartProducer(const std::string& socket_dir, const std::string& rate) {
  const std::array<const char*, 6> arguments = {"profd_bench",      "ingest",     "producer",
                                                socket_dir.c_str(), rate.c_str(), nullptr};
  pid_t pid;
  if (posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr,
                  const_cast<char* const*>(arguments.data()), environ) != 0) {
    Die("posix_spawn");
  }
  return pid;
}

void RunLive(double seconds, const std::string& rate) {
  constexpr size_t kProducers = 2;
  SetLogLevel(LogLevel::kWarning);
  const store::TemporaryFolder folder;
  LiveObserver observer;
  quota::Ledger ledger(quota::Limits::ForMemory(int64_t{2} << 30), Clock::Real());
  auto server = Must(TargetServer::Create(folder.path(), {}, ledger));
  server->Start(observer);
  std::vector<pid_t> producers;
  for (size_t i = 0; i < kProducers; ++i) {
    producers.push_back(StartProducer(folder.path().string(), rate));
  }
  while (server->List().size() < kProducers) absl::SleepFor(absl::Milliseconds(1));
  std::vector<std::unique_ptr<store::CaptureFileWriter>> files;
  std::vector<std::string> ids;
  for (const TargetInfo& target : server->List()) {
    ids.push_back(store::IdOf(static_cast<int>(target.number)));
    files.push_back(NewFile(folder.path(), ids.back()));
    Must(server->Arm(target.number, {.capture_id = ids.back(), .memory_bytes = 64 << 20},
                     *files.back()));
  }
  observer.WaitArmed(kProducers);
  const double cpu = CpuSeconds();
  const double start = SecondsOf(CLOCK_MONOTONIC);
  for (const std::string& id : ids) server->Fire(id, {});
  absl::SleepFor(absl::Seconds(seconds));
  for (const std::string& id : ids) server->Stop(id);
  const std::vector<DrainResult> results = observer.WaitDrained(kProducers);
  const double wall = SecondsOf(CLOCK_MONOTONIC) - start;
  std::printf("server's CPU                  %.1f %% of one core\n",
              100 * (CpuSeconds() - cpu) / wall);
  for (const DrainResult& result : results) {
    std::printf("producer                      %.2f M events/s, %lld dropped\n",
                static_cast<double>(result.event_count) * 1e-6 / seconds,
                static_cast<long long>(TotalDrops(result.drops)));
  }
  for (const auto& file : files) file->Discard();
  for (const pid_t pid : producers) waitpid(pid, nullptr, 0);
}

// ---- arm ----

void RunArm(int rounds) {
  SetLogLevel(LogLevel::kWarning);
  const store::TemporaryFolder folder;
  LiveObserver observer;
  quota::Ledger ledger(quota::Limits::ForMemory(int64_t{2} << 30), Clock::Real());
  auto server = Must(TargetServer::Create(folder.path(), {}, ledger));
  server->Start(observer);
  const pid_t producer = StartProducer(folder.path().string(), "0");
  while (server->List().empty()) absl::SleepFor(absl::Milliseconds(1));
  const TargetNumber target = server->List()[0].number;
  std::vector<double> ms;
  NullSink sink;
  for (int i = 0; i < rounds; ++i) {
    const std::string id = store::IdOf(i);
    const double start = SecondsOf(CLOCK_MONOTONIC);
    Must(server->Arm(target, {.capture_id = id, .memory_bytes = 64 << 20}, sink));
    observer.WaitArmed(i + 1);
    ms.push_back((SecondsOf(CLOCK_MONOTONIC) - start) * 1e3);
    server->Stop(id);
    observer.WaitDrained(static_cast<size_t>(i) + 1);
  }
  std::sort(ms.begin(), ms.end());
  std::printf("Arm() to armed, 64 MiB        median %.2f ms, p99 %.2f ms, of %d\n",
              ms[ms.size() / 2], ms[ms.size() * 99 / 100], rounds);
  kill(producer, SIGKILL);
  waitpid(producer, nullptr, 0);
}

}  // namespace
}  // namespace profd

namespace profd::bench {

int IngestBenchmark(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "pipeline";
  if (mode == "producer" && argc == 4) {
    return RunProducer(argv[2], static_cast<double>(NumberAt(argc, argv, 3, 0)));
  }
  if (mode == "pipeline") {
    RunPipeline(static_cast<uint64_t>(NumberAt(argc, argv, 2, 10'000'000)),
                static_cast<int>(NumberAt(argc, argv, 3, 5)));
  } else if (mode == "live") {
    RunLive(static_cast<double>(NumberAt(argc, argv, 2, 10)), argc > 3 ? argv[3] : "2500000");
  } else if (mode == "arm") {
    RunArm(static_cast<int>(NumberAt(argc, argv, 2, 300)));
  } else {
    std::fprintf(stderr, "usage: profd_bench ingest pipeline|live|arm [...]\n");
    return 2;
  }
  return 0;
}

}  // namespace profd::bench
