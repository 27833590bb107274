// The benchmarks of profd_bench. Each takes its own arguments, argv[0] being its name, prints its
// figures on stdout, and returns the exit status.
#ifndef PROFD_TESTS_BENCH_BENCHMARKS_H_
#define PROFD_TESTS_BENCH_BENCHMARKS_H_

#include <cstdint>

namespace profd::bench {

// argv[at] as a number: `otherwise` if it is not there, 0 if it is none.
int64_t NumberAt(int argc, char** argv, int at, int64_t otherwise);

int ExportBenchmark(int argc, char** argv);
int FleetBenchmark(int argc, char** argv);
int ImportBenchmark(int argc, char** argv);
int IngestBenchmark(int argc, char** argv);
int ReportBenchmark(int argc, char** argv);
int StoreBenchmark(int argc, char** argv);

}  // namespace profd::bench

#endif  // PROFD_TESTS_BENCH_BENCHMARKS_H_
