// The time report of a capture, file open included: as Holistic Trace Analysis counts, and all of
// it. tests/bench/time_bench.py holds it against that tool on the same trace.
//
//   time_benchmark [FILE.profd] [ROUNDS]      default: a made-up capture of 100,000 GPU rows, 5
//
// Prints one line per figure; the best round counts.
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "daemon/report/time/time_report.h"
#include "daemon/store/file/capture_reader.h"
#include "tests/bench/bench_capture.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd::bench {
namespace {

volatile int64_t result = 0;  // Keeps what is measured.

void SummarizeOnce(const std::filesystem::path& path, const report::TimeOptions& options) {
  const std::unique_ptr<store::CaptureReader> reader = Must(store::CaptureReader::Open(path));
  result = Must(report::SummarizeTime(*reader, options)).whole.busy_ns;
}

void Measure(const std::filesystem::path& path, int rounds) {
  const Timing open =
      Best(rounds, [&] { result = Must(store::CaptureReader::Open(path))->gpu_row_count(); });
  Print("open alone", open.wall_s * 1e3, "ms");
  const Timing as_hta = Best(rounds, [&] { SummarizeOnce(path, {.as_hta = true}); });
  Print("open and report as HTA", as_hta.wall_s * 1e3, "ms");
  const Timing whole = Best(rounds, [&] { SummarizeOnce(path, {}); });
  Print("open and whole report", whole.wall_s * 1e3, "ms");
}

}  // namespace
}  // namespace profd::bench

int main(int argc, char** argv) {
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  if (argc > 1 && std::string(argv[1]) != "-") {
    profd::bench::Measure(argv[1], rounds);
    return 0;
  }
  const profd::store::TemporaryFolder folder;
  profd::bench::Measure(profd::bench::WriteGpuBenchCapture(folder.path(), 100'000).path, rounds);
  return 0;
}
