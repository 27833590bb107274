// Reports of a large stored capture, beside SQL over plain rows in the same run.
//
//   profd_bench report [RANGES] [ROUNDS]        default: 10000000 5
//
// Prints one line per figure; the best round counts.
#include <sqlite3.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "daemon/report/gpu/idle_table.h"
#include "daemon/report/gpu/kernel_table.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/memory/timeline.h"
#include "daemon/report/ops/op_table.h"
#include "daemon/report/ops/profile.h"
#include "tests/bench/bench_capture.h"
#include "tests/bench/benchmarks.h"
#include "tests/fakes/empty_capture_reader.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd::bench {
namespace {

volatile int64_t result = 0;  // Keeps what is measured.

void SummarizeOnce(const BenchCapture& capture, const report::OpOptions& options) {
  const auto reader = OpenCapture(capture);
  result = Must(report::SummarizeOps(*reader, options)).self_cpu_total_ns;
}

// ---- the other side: one row per range ----

class Rows {
 public:
  explicit Rows(const std::filesystem::path& path) {
    if (sqlite3_open(path.c_str(), &db_) != SQLITE_OK) Die(absl::InternalError("sqlite3_open"));
  }
  ~Rows() { sqlite3_close(db_); }

  void Exec(const char* sql) {
    if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
      Die(absl::InternalError(sqlite3_errmsg(db_)));
    }
  }
  void CopyFrom(store::CaptureReader& reader) {
    Exec(
        "PRAGMA page_size=16384; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;"
        "CREATE TABLE ranges(thread INTEGER, name INTEGER, start_ns INTEGER, duration_ns INTEGER,"
        "depth INTEGER); BEGIN");
    sqlite3_stmt* put = nullptr;
    sqlite3_prepare_v2(db_, "INSERT INTO ranges VALUES(?,?,?,?,?)", -1, &put, nullptr);
    Must(reader.ForEach<RangeRow>(kRangeAllColumns, {}, [&](const RangeBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        sqlite3_bind_int64(put, 1, batch.thread);
        sqlite3_bind_int64(put, 2, batch.name[i]);
        sqlite3_bind_int64(put, 3, batch.start_ns[i]);
        sqlite3_bind_int64(put, 4, batch.duration_ns[i]);
        sqlite3_bind_int64(put, 5, batch.depth[i]);
        sqlite3_step(put);
        sqlite3_reset(put);
      }
      return absl::OkStatus();
    }));
    sqlite3_finalize(put);
    Exec("COMMIT");
  }

 private:
  sqlite3* db_ = nullptr;
};

// ---- the GPU ----

// A reader of ranges and API calls that are in memory, so that what is measured is not decoding.
class InMemoryReader final : public EmptyCaptureReader {
 public:
  explicit InMemoryReader(store::CaptureReader& from) : from_(from) {
    Must(from.ForEach<RangeRow>(kRangeAllColumns, {}, [&](const RangeBatch& batch) {
      Keep<RangeRow>(batch, ranges_.emplace_back());
      range_count_ += batch.size;
      return absl::OkStatus();
    }));
    Must(from.ForEach<ApiRow>([&](const ApiBatch& batch) {
      Keep<ApiRow>(batch, calls_.emplace_back());
      call_count_ += batch.size;
      return absl::OkStatus();
    }));
  }
  size_t range_count() const { return range_count_; }
  size_t call_count() const { return call_count_; }

  const CaptureRecord& record() const override { return from_.record(); }
  std::span<const std::string> names() const override { return from_.names(); }
  std::span<const store::ReaderThread> threads() const override { return from_.threads(); }
  std::span<const StepRecord> steps() const override { return from_.steps(); }
  absl::Status Scan(RowKind kind, uint32_t columns, const store::TimeFilter&,
                    absl::FunctionRef<absl::Status(const EventBatch&)> fn) override {
    if (kind == RowKind::kRange) Give(ranges_, columns, fn);
    if (kind == RowKind::kApiCall) Give(calls_, columns, fn);
    return absl::OkStatus();
  }
  int64_t RowsOf(RowKind kind) const override { return from_.RowsOf(kind); }

 private:
  template <typename Row>
  struct Kept {
    uint32_t thread = 0;
    store::EventTable<Row> table;
  };
  template <typename Row>
  static void Keep(const BatchOfRow<Row>& batch, Kept<Row>& kept) {
    kept.thread = batch.thread;
    ForEachColumnPair(batch, kept.table.columns, [](const auto& from, const auto& to) {
      to.values.assign(from.values.begin(), from.values.end());
    });
  }
  template <typename Row>
  static void Give(const std::vector<Kept<Row>>& all, uint32_t columns,
                   absl::FunctionRef<absl::Status(const EventBatch&)> fn) {
    for (const Kept<Row>& kept : all) {
      Must(fn(store::ToBatch(kept.table, columns, kept.thread, 0, kept.table.size())));
    }
  }

  store::CaptureReader& from_;
  std::vector<Kept<RangeRow>> ranges_;
  std::vector<Kept<ApiRow>> calls_;
  size_t range_count_ = 0;
  size_t call_count_ = 0;
};

void MeasureGpu(const store::TemporaryFolder& folder, int64_t gpu_rows, int rounds) {
  const BenchCapture capture = WriteGpuBenchCapture(folder.path(), gpu_rows);
  const auto stored = OpenCapture(capture);
  InMemoryReader in_memory(*stored);
  Print("GPU capture: ranges", static_cast<double>(in_memory.range_count()) / 1e6, "M");
  Print("GPU capture: API calls", static_cast<double>(in_memory.call_count()) / 1e6, "M");
  const auto attribute = [](store::CaptureReader& reader) {
    result = static_cast<int64_t>(Must(report::GpuAttribution::Build(reader)).paths().size());
  };
  const Timing alone = Best(rounds, [&] { attribute(in_memory); });
  Print("attribution, rows in memory", alone.wall_s * 1e3, "ms");
  Print("... its CPU time", alone.cpu_s * 1e3, "ms");
  Print("... per API call", alone.cpu_s * 1e9 / static_cast<double>(in_memory.call_count()), "ns");
  Print("attribution, of a stored capture", Best(rounds, [&] { attribute(*stored); }).wall_s * 1e3,
        "ms");
  Print("kernel table",
        Best(rounds, [&] { result = Must(report::SummarizeKernels(*stored, {})).total_ns; }).wall_s,
        "s");
  Print("operator table with GPU",
        Best(rounds, [&] { result = Must(report::SummarizeOps(*stored, {})).row_count; }).wall_s,
        "s");
  Print(
      "idle table",
      Best(rounds,
           [&] { result = static_cast<int64_t>(Must(report::SummarizeIdle(*stored)).rows.size()); })
          .wall_s,
      "s");
}

// ---- PyTorch ----

// What the stop of a PyTorch job waits for, and what is asked next.
void MeasureTorch(const store::TemporaryFolder& folder, int64_t operators, int rounds) {
  const BenchCapture capture = WriteOperatorBenchCapture(folder.path(), operators, /*memory=*/true);
  Print("capture of PyTorch: operators", static_cast<double>(capture.ranges) / 1e6, "M");
  Print("... allocations and frees", static_cast<double>(capture.memory_events) / 1e6, "M");
  const auto measure = [&](const char* what, const std::function<void()>& run) {
    const Timing timing = Best(rounds, run);
    Print(what, timing.wall_s, "s");
    Print("... its CPU time", timing.cpu_s, "s");
  };
  measure("operator table with memory", [&] { SummarizeOnce(capture, {}); });
  measure("operator table with memory, by inputs",
          [&] { SummarizeOnce(capture, {.by_inputs = true}); });
  measure("memory timeline with categories", [&] {
    result = Must(report::SummarizeMemory(*OpenCapture(capture), {.max_points = 2000}))
                 .devices.front()
                 .peak_bytes;
  });
}

int Main(int64_t ranges, int rounds) {
  const store::TemporaryFolder folder;
  const BenchCapture capture = WriteBenchCapture(folder.path(), ranges, /*memory=*/false);
  Print("capture: ranges", static_cast<double>(capture.ranges) / 1e6, "M");
  const auto drop = [&] { DropPageCache(capture.path); };

  const Timing cold = Best(rounds, drop, [&] { SummarizeOnce(capture, {}); });
  Print("operator table, file open, page cache dropped", cold.wall_s, "s");
  Print("... its CPU time", cold.cpu_s, "s");
  Print("operator table, warm", Best(rounds, [&] { SummarizeOnce(capture, {}); }).wall_s, "s");
  const auto report = [&](const char* what, const report::OpProfileOptions& options) {
    const Timing timing = Best(rounds, [&] {
      result = Must(report::SummarizeOpProfile(*OpenCapture(capture), options)).step_count;
    });
    Print(what, timing.wall_s, "s");
    Print("... its CPU time", timing.cpu_s, "s");
  };
  report("report of operators, only sums, warm", {.sums_only = true});
  report("report of operators, all columns, warm", {});
  const Timing by_step = Best(rounds, [&] { SummarizeOnce(capture, {.by_step = true}); });
  Print("operator table by step, warm", by_step.wall_s, "s");
  Print("... its CPU time", by_step.cpu_s, "s");
  Print("operator table of the first step, warm",
        Best(rounds, [&] { SummarizeOnce(capture, {.step = 0}); }).wall_s, "s");
  Print("operator table of the last step, warm",
        Best(rounds, [&] { SummarizeOnce(capture, {.step = capture.steps - 1}); }).wall_s, "s");

  // Rows are slow: a tenth of the ranges tells the rate.
  const BenchCapture tenth = WriteBenchCapture(folder.path(), ranges / 10, /*memory=*/false);
  Rows rows(folder / "rows.db");
  rows.CopyFrom(*OpenCapture(tenth));
  const Timing group = Best(rounds, [&] {
    rows.Exec(
        "SELECT name, count(*), sum(duration_ns), min(duration_ns), max(duration_ns) "
        "FROM ranges GROUP BY name");
  });
  Print("SQL GROUP BY over plain rows, warm, no self time, scaled",
        group.wall_s * static_cast<double>(capture.ranges) / static_cast<double>(tenth.ranges),
        "s");

  const BenchCapture memory = WriteBenchCapture(folder.path(), ranges, /*memory=*/true);
  const Timing timeline = Best(rounds, [&] {
    result = Must(report::SummarizeMemory(*OpenCapture(memory), {.max_points = 2000}))
                 .devices.front()
                 .peak_bytes;
  });
  const double events = static_cast<double>(memory.memory_events);
  Print("memory timeline: events", events / 1e6, "M");
  Print("memory timeline, 2,000 points, shares by range, warm", timeline.wall_s, "s");
  MeasureGpu(folder, ranges / 10, rounds);
  MeasureTorch(folder, ranges / 20, rounds);
  return 0;
}

}  // namespace

int ReportBenchmark(int argc, char** argv) {
  const int64_t ranges = NumberAt(argc, argv, 1, 10'000'000);
  const int rounds = static_cast<int>(NumberAt(argc, argv, 2, 5));
  if (ranges < 100'000 || rounds < 1) {
    std::fprintf(stderr, "usage: profd_bench report [RANGES >= 100000] [ROUNDS >= 1]\n");
    return 2;
  }
  return Main(ranges, rounds);
}

}  // namespace profd::bench
