// A trace of torch.profiler as a capture, so that reports can be held against what other tools
// say of the same trace.
#ifndef PROFD_TESTS_REPORT_KINETO_TRACE_H_
#define PROFD_TESTS_REPORT_KINETO_TRACE_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "tests/fakes/fake_capture_reader.h"

namespace profd::report {

struct KinetoTrace {
  // CPU operators and annotations are ranges, CUDA calls are calls, rows of streams are rows; times
  // count from the first of them all. Steps are those of ProfilerStep#N.
  FakeCaptureReader reader;
  bool has_syncs = false;  // The trace holds waits, which are left out here.
  // By the correlation of what ran on a GPU: the operator that torch itself linked it to.
  std::map<uint32_t, std::string> linked_op;
  // By the name of a kernel: the least and greatest of torch's estimates of its occupancy.
  std::map<std::string, std::pair<int64_t, int64_t>> occupancy_percent;
};

enum class StepsKept {
  kAll,
  kAllButTheLast,  // And no GPU work but what those launched: if there are two or more.
};

// Reads a .json.gz into `trace`. NOT_FOUND, DATA_LOSS.
absl::Status ReadKinetoTrace(const std::filesystem::path& path, StepsKept kept, KinetoTrace& trace);

}  // namespace profd::report

#endif  // PROFD_TESTS_REPORT_KINETO_TRACE_H_
