// The benchmarks of profd_bench. Each takes its own arguments, argv[0] being its name, prints its
// figures on stdout, and returns the exit status.
#ifndef PROFD_TESTS_BENCH_BENCHMARKS_H_
#define PROFD_TESTS_BENCH_BENCHMARKS_H_

namespace profd::bench {

int ExportBenchmark(int argc, char** argv);
int FleetBenchmark(int argc, char** argv);
int ImportBenchmark(int argc, char** argv);
int IngestBenchmark(int argc, char** argv);
int ReportBenchmark(int argc, char** argv);
int StoreBenchmark(int argc, char** argv);

}  // namespace profd::bench

#endif  // PROFD_TESTS_BENCH_BENCHMARKS_H_
