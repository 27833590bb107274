// Storing and scanning captures, beside plain SQLite rows in the same run.
//
//   profd_bench store [EVENTS] [ROUNDS]        default: 10000000 5
//
// Prints one line per figure; the best round counts. The events are training steps of about
// 3,000 ranges on two threads whose times vary by 10 %, with 1 % outliers. A tenth as many GPU
// rows, 800 a step on two streams, and the API calls that launched them, each in a file of
// their own, tell what those take.
#include <fcntl.h>
#include <sqlite3.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/unique_fd.h"
#include "daemon/store/file/files.h"
#include "daemon/store/file/reader.h"
#include "daemon/store/file/writer.h"
#include "tests/bench/benchmarks.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd::store {
namespace {

constexpr uint32_t kThreads = 2;
constexpr size_t kBatchRows = 2'048;  // A chunk of capture memory holds as many.

[[noreturn]] void Die(const absl::Status& status) {
  std::fprintf(stderr, "profd_bench store: %s\n", status.ToString().c_str());
  std::exit(1);
}
void Must(const absl::Status& status) {
  if (!status.ok()) Die(status);
}
template <typename T>
T Must(absl::StatusOr<T> result) {
  if (!result.ok()) Die(result.status());
  return *std::move(result);
}

// Of this thread; on a machine that others use it says more than the wall clock.
double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double Seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
double BestSeconds(int rounds, const std::function<double()>& round) {
  double best = round();
  for (int i = 1; i < rounds; ++i) best = std::min(best, round());
  return best;
}

// About a million ranges that repeat no noise within themselves.
struct Events {
  std::array<std::vector<RangeRow>, kThreads> threads;
  int64_t span_ns = 0;
  size_t size() const { return threads[0].size() + threads[1].size(); }
};
Events MakeEvents(size_t most) {
  Events events;
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    StepPattern pattern(thread + 1);
    std::vector<RangeRow>& rows = events.threads[thread];
    while (rows.size() < most / kThreads) {
      const std::vector<RangeRow>& step = pattern.NextRanges();
      rows.insert(rows.end(), step.begin(), step.end());
    }
    rows.resize(most / kThreads);
    events.span_ns = std::max(events.span_ns, pattern.now_ns());
  }
  return events;
}

// The batches that ingest would give, `total` rows in all, through `fn(thread, rows)`.
template <typename F>
void ForEachBatch(const Events& events, size_t total, F fn) {
  std::vector<RangeRow> batch(kBatchRows);
  size_t given = 0;
  for (int64_t shift_ns = 0; given < total; shift_ns += events.span_ns) {
    for (size_t begin = 0; begin < events.threads[0].size(); begin += kBatchRows) {
      for (uint32_t thread = 0; thread < kThreads && given < total; ++thread) {
        const std::vector<RangeRow>& rows = events.threads[thread];
        const size_t count = std::min({kBatchRows, rows.size() - begin, total - given});
        for (size_t i = 0; i < count; ++i) {
          batch[i] = rows[begin + i];
          batch[i].start_ns += shift_ns;
        }
        fn(thread, std::span<const RangeRow>(batch).first(count));
        given += count;
      }
    }
  }
}

void WriteCapture(const Events& events, size_t total, const std::filesystem::path& folder,
                  std::string_view id) {
  CaptureRecord record = NewRecord(id);
  record.spec.max_bytes = int64_t{4} << 30;
  auto writer = Must(CaptureFileWriter::Create(record, Clock::Real(),
                                               {.directory = folder, .on_sealed = nullptr}));
  Must(IntroducePattern(StepPattern(1), kThreads, *writer));
  ForEachBatch(events, total, [&writer](uint32_t thread, std::span<const RangeRow> rows) {
    Must(writer->Append(thread, rows));
  });
  record = FinishedRecord(record, {.start_ns = 0, .end_ns = events.span_ns});
  Must(writer->Finish(record, 0));
}

// Kernels, or the calls that launched them.
void WriteGpuCapture(const std::vector<std::vector<GpuRow>>& kernels,
                     const std::vector<std::vector<ApiRow>>& calls,
                     const std::filesystem::path& folder, std::string_view id) {
  CaptureRecord record = NewRecord(id);
  auto writer = Must(CaptureFileWriter::Create(record, Clock::Real(),
                                               {.directory = folder, .on_sealed = nullptr}));
  Must(IntroducePattern(StepPattern(1), 1, *writer));
  for (const std::vector<GpuRow>& rows : kernels) Must(writer->Append(rows));
  for (const std::vector<ApiRow>& rows : calls) Must(writer->Append(0, rows));
  record = FinishedRecord(record, {.start_ns = 0, .end_ns = 1});
  Must(writer->Finish(record, 0));
}

// ---- the other side: one row per event ----

struct Sqlite {
  explicit Sqlite(const std::filesystem::path& path) {
    if (sqlite3_open(path.c_str(), &db) != SQLITE_OK) Die(absl::InternalError("sqlite3_open"));
  }
  ~Sqlite() { sqlite3_close(db); }
  void Exec(const char* sql) const {
    if (sqlite3_exec(db, sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
      Die(absl::InternalError(sqlite3_errmsg(db)));
    }
  }
  sqlite3* db = nullptr;
};

void WriteRows(const Events& events, size_t total, const std::filesystem::path& path) {
  const Sqlite sqlite(path);
  sqlite.Exec(
      "PRAGMA page_size=16384; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;"
      "CREATE TABLE events(thread INTEGER, name INTEGER, start_ns INTEGER, duration_ns INTEGER,"
      "depth INTEGER); BEGIN");
  sqlite3_stmt* put = nullptr;
  sqlite3_prepare_v2(sqlite.db, "INSERT INTO events VALUES(?,?,?,?,?)", -1, &put, nullptr);
  ForEachBatch(events, total, [put](uint32_t thread, std::span<const RangeRow> rows) {
    for (const RangeRow& row : rows) {
      sqlite3_bind_int64(put, 1, thread);
      sqlite3_bind_int64(put, 2, row.name);
      sqlite3_bind_int64(put, 3, row.start_ns);
      sqlite3_bind_int64(put, 4, row.duration_ns);
      sqlite3_bind_int64(put, 5, row.depth);
      sqlite3_step(put);
      sqlite3_reset(put);
    }
  });
  sqlite3_finalize(put);
  sqlite.Exec("COMMIT");
}

void GroupRows(const std::filesystem::path& path) {
  const Sqlite sqlite(path);
  sqlite.Exec("SELECT name, count(*), sum(duration_ns) FROM events GROUP BY name");
}

// ---- reading ----

void DropPageCache(const std::filesystem::path& path) {
  const UniqueFd file = Must(OpenForReading(path));
  fsync(file.get());
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
}

struct OpTotals {
  int64_t calls = 0;
  int64_t total_ns = 0;
  int64_t self_ns = 0;
};

// What an operator table needs: calls, total and self time by name.
int64_t ScanOperators(const std::filesystem::path& path, bool only_totals) {
  auto reader = Must(CaptureReader::Open(path));
  std::vector<OpTotals> ops(reader->names().size());
  std::vector<std::array<int64_t, kMaxDepth + 2>> children(reader->threads().size());
  for (auto& of_thread : children) of_thread.fill(0);
  const uint32_t columns = kRangeName | kRangeDuration | (only_totals ? 0u : uint32_t{kRangeDepth});
  Must(reader->ForEach<RangeRow>(columns, {}, [&](const RangeBatch& batch) {
    auto& child_ns = children[batch.thread];
    for (size_t i = 0; i < batch.size; ++i) {
      OpTotals& op = ops[batch.name[i]];
      const int64_t duration = batch.duration_ns[i];
      ++op.calls;
      op.total_ns += duration;
      if (only_totals) continue;
      const size_t depth = batch.depth[i];
      op.self_ns += duration - child_ns[depth + 1];
      child_ns[depth + 1] = 0;
      child_ns[depth] += duration;
    }
    return absl::OkStatus();
  }));
  int64_t self_ns = 0;
  for (const OpTotals& op : ops) self_ns += op.self_ns;
  return self_ns;
}

void Print(const char* what, double value, const char* unit) {
  std::printf("%-58s %10.3f %s\n", what, value, unit);
  std::fflush(stdout);
}

volatile int64_t scan_result = 0;  // Keeps the scans.

void GpuFigures(size_t total, int rounds, const std::filesystem::path& folder) {
  GpuPattern pattern(1);
  std::vector<std::vector<GpuRow>> kernels;
  std::vector<std::vector<ApiRow>> calls;
  for (size_t rows = 0; rows < total; rows += 500) {  // What 64 KiB of capture memory hold.
    kernels.push_back(pattern.NextRows(500));
    calls.push_back(pattern.ApiCalls());
  }
  const auto count = static_cast<double>(kernels.size() * 500);
  int number = 5'000;
  const auto measure = [&](const char* what, const auto& gpu_rows, const auto& api_rows) {
    std::filesystem::path file;
    const double cpu_s = BestSeconds(rounds, [&] {
      if (!file.empty()) std::filesystem::remove(file);
      const std::string id = IdOf(++number);
      file = folder / (id + ".profd");
      const double before = CpuSeconds();
      WriteGpuCapture(gpu_rows, api_rows, folder, id);
      return CpuSeconds() - before;
    });
    const std::string name = what;
    Print((name + ": CPU time of append, check, hash, sync").c_str(), cpu_s / count * 1e9,
          "ns/row");
    Print((name + ": size").c_str(), static_cast<double>(std::filesystem::file_size(file)) / count,
          "bytes/row");
    return file;
  };
  const std::filesystem::path gpu =
      measure("GPU rows", kernels, std::vector<std::vector<ApiRow>>());
  measure("API calls", std::vector<std::vector<GpuRow>>(), calls);
  const double scan_s = BestSeconds(rounds, [&] {
    return Seconds([&] {
      auto reader = Must(CaptureReader::Open(gpu));
      std::vector<int64_t> totals(reader->names().size());
      Must(reader->ForEach<GpuRow>(kGpuTime | kGpuWhat, {}, [&totals](const GpuBatch& batch) {
        for (size_t i = 0; i < batch.size; ++i) totals[batch.name[i]] += batch.duration_ns[i];
        return absl::OkStatus();
      }));
      scan_result = totals[1];
    });
  });
  Print("GPU rows: time by kernel name, warm", scan_s / count * 1e9, "ns/row");
}

int Main(size_t total, int rounds) {
  const TemporaryFolder folder;
  const Events events = MakeEvents(std::min<size_t>(total, 1'000'000));
  const auto count = static_cast<double>(total);

  int number = 0;
  double write_cpu_s = 1e9;
  const double write_s = BestSeconds(rounds, [&] {
    if (number > 0) std::filesystem::remove(folder / (IdOf(number) + ".profd"));
    const std::string id = IdOf(++number);
    const double cpu_before = CpuSeconds();
    const double seconds = Seconds([&] { WriteCapture(events, total, folder.path(), id); });
    write_cpu_s = std::min(write_cpu_s, CpuSeconds() - cpu_before);
    return seconds;
  });
  const std::filesystem::path capture = folder / (IdOf(number) + ".profd");
  Print("capture file: append, check, hash, sync", count / write_s / 1e6, "M events/s");
  Print("capture file: CPU time of the same", write_cpu_s / count * 1e9, "ns/event");
  Print("capture file: size", static_cast<double>(std::filesystem::file_size(capture)) / count,
        "bytes/event");

  // Rows are slow: a tenth of the events tells the rate.
  const size_t row_total = std::max<size_t>(total / 10, 1);
  const auto row_count = static_cast<double>(row_total);
  const std::filesystem::path rows = folder / "rows.db";
  const double rows_s = Seconds([&] { WriteRows(events, row_total, rows); });
  Print("SQLite rows, one transaction: append", row_count / rows_s / 1e6, "M events/s");
  Print("SQLite rows: size", static_cast<double>(std::filesystem::file_size(rows)) / row_count,
        "bytes/event");

  const auto timed_scan = [&](bool cold, bool only_totals) {
    return BestSeconds(rounds, [&] {
      if (cold) DropPageCache(capture);
      return Seconds([&] { scan_result = ScanOperators(capture, only_totals); });
    });
  };
  Print("capture file: operator table, page cache dropped", timed_scan(true, false), "s");
  Print("capture file: operator table, warm", timed_scan(false, false), "s");
  Print("capture file: calls and totals by name, warm", timed_scan(false, true), "s");
  Print("capture file: open alone, page cache dropped",
        BestSeconds(rounds,
                    [&] {
                      DropPageCache(capture);
                      return Seconds([&] { Must(CaptureReader::Open(capture)); });
                    }),
        "s");
  const double group_s = Seconds([&] { GroupRows(rows); });
  Print("SQLite rows: GROUP BY name, warm, scaled to as many events", group_s * count / row_count,
        "s");
  GpuFigures(std::max<size_t>(total / 10, 1'000), rounds, folder.path());
  return 0;
}

}  // namespace
}  // namespace profd::store

namespace profd::bench {

int StoreBenchmark(int argc, char** argv) {
  const int64_t events = NumberAt(argc, argv, 1, 10'000'000);
  const int rounds = static_cast<int>(NumberAt(argc, argv, 2, 5));
  if (events < 1'000 || rounds < 1) {
    std::fprintf(stderr, "usage: profd_bench store [EVENTS >= 1000] [ROUNDS >= 1]\n");
    return 2;
  }
  return store::Main(static_cast<size_t>(events), rounds);
}

}  // namespace profd::bench
