// A trace as a stored capture, and what it takes to.
//
//   profd_bench import TRACE FOLDER [ROUNDS]        default: 5 rounds
//   profd_bench import --make BYTES FILE            a trace of about that many bytes, to import
//
// Prints "seconds S events N bytes B rss R" of the best round: seconds until the capture file is
// checked, synced and named, bytes of it, and the most memory the process had resident, in bytes.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>

#include "daemon/base/clock.h"
#include "daemon/base/str_cat.h"
#include "daemon/import/trace_import.h"
#include "tests/bench/benchmarks.h"

namespace profd::bench {
namespace {

int64_t PeakResidentBytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

// Steps of operators with inputs, each with a call and a kernel, as torch.profiler writes them.
int Make(int64_t bytes, const char* file) {
  std::ofstream out(file, std::ios::binary);
  out << R"({"schemaVersion":1,"baseTimeNanoseconds":1700000000000000000,"traceEvents":[)";
  for (int64_t i = 0; out.tellp() < bytes; ++i) {
    const int64_t us = i * 10;
    if (i % 1000 == 0) {
      out << StrCat(i == 0 ? "" : ",", "\n  {\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"",
                    "ProfilerStep#", i / 1000, R"(","pid":1,"tid":1,"ts":)", us,
                    R"(.000,"dur":9990.000,"args":{"External id":)", i, "}}");
    }
    out << StrCat(",\n", R"({"ph":"X","cat":"cpu_op","name":"aten::op)", i % 200,
                  R"(","pid":1,"tid":1,"ts":)", us, R"(.125,"dur":8.500,"args":{"External id":)", i,
                  R"(,"Record function id":0,"Sequence number":)", i,
                  R"(,"Fwd thread id":0,"Input Dims":[[)", i % 64 + 1,
                  R"(,512],[512,512]],"Input type":["float","float"],"Ev Idx":)", i, "}}");
    out << StrCat(",\n", R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,)",
                  R"("tid":1,"ts":)", us, R"(.500,"dur":4.000,"args":{"External id":)", i,
                  R"(,"cbid":211,"correlation":)", i + 1, "}}");
    out << StrCat(",\n", R"({"ph":"s","id":)", i + 1, R"(,"pid":1,"tid":1,"ts":)", us,
                  R"(.500,"cat":"ac2g","name":"ac2g"})");
    out << StrCat(
        ",\n", R"({"ph":"X","cat":"kernel","name":"void kernel<)", i % 100,
        R"(>","pid":0,"tid":7,"ts":)", us + 6, R"(.250,"dur":3.000,"args":{"External id":)", i,
        R"(,"queued":0,"device":0,"context":1,"stream":7,"correlation":)", i + 1,
        R"(,"registers per thread":32,"shared memory":0,"blocks per SM":1.5,"warps per SM":12,)",
        R"("grid":[132,1,1],"block":[256,1,1],"est. achieved occupancy %":38}})");
    out << StrCat(",\n", R"({"ph":"f","id":)", i + 1, R"(,"pid":0,"tid":7,"ts":)", us + 6,
                  R"(.250,"cat":"ac2g","name":"ac2g","bp":"e"})");
  }
  out << "\n]}\n";
  return out.flush().good() ? 0 : 1;
}

int Measure(const char* trace, const char* folder, int rounds) {
  double best_seconds = std::numeric_limits<double>::max();
  CaptureRecord record;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    const auto imported = importer::ImportTrace(trace, Clock::Real(),
                                                {.directory = folder,
                                                 .id = "",
                                                 .group_id = "",
                                                 .on_progress = nullptr,
                                                 .is_cancelled = nullptr});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (!imported.ok()) {
      std::fprintf(stderr, "profd_bench import: %s\n", imported.status().ToString().c_str());
      return 1;
    }
    best_seconds = std::min(best_seconds, took.count());
    record = imported->record;
    std::error_code error;
    record.file_bytes = static_cast<int64_t>(std::filesystem::file_size(imported->file, error));
    std::filesystem::remove(imported->file, error);
  }
  std::printf("seconds %.4f events %lld bytes %lld rss %lld\n", best_seconds,
              static_cast<long long>(record.event_count), static_cast<long long>(record.file_bytes),
              static_cast<long long>(PeakResidentBytes()));
  return 0;
}

}  // namespace

int ImportBenchmark(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "--make") {
    return Make(NumberAt(argc, argv, 2, 0), argv[3]);
  }
  if (argc < 3) {
    std::fputs("usage: profd_bench import TRACE FOLDER [ROUNDS] | --make BYTES FILE\n", stderr);
    return 2;
  }
  return Measure(argv[1], argv[2], static_cast<int>(NumberAt(argc, argv, 3, 5)));
}

}  // namespace profd::bench
