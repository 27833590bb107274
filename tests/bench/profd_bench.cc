// What profd and profctl do with captures, timed: profd_bench BENCHMARK [ARGUMENTS].
#include <array>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <system_error>

#include "tests/bench/benchmarks.h"

namespace profd::bench {
namespace {

struct Benchmark {
  std::string_view name;
  int (*run)(int argc, char** argv);
};

constexpr std::array<Benchmark, 6> kBenchmarks = {{
    {"export", &ExportBenchmark},
    {"fleet", &FleetBenchmark},
    {"import", &ImportBenchmark},
    {"ingest", &IngestBenchmark},
    {"report", &ReportBenchmark},
    {"store", &StoreBenchmark},
}};

int Main(int argc, char** argv) {
  for (const Benchmark& benchmark : kBenchmarks) {
    if (argc > 1 && argv[1] == benchmark.name) return benchmark.run(argc - 1, argv + 1);
  }
  std::fputs("usage: profd_bench export|fleet|import|ingest|report|store [ARGUMENTS]\n", stderr);
  return 2;
}

}  // namespace

int64_t NumberAt(int argc, char** argv, int at, int64_t otherwise) {
  if (argc <= at) return otherwise;
  const std::string_view text = argv[at];
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

}  // namespace profd::bench

int main(int argc, char** argv) { return profd::bench::Main(argc, argv); }
