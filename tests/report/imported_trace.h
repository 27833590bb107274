// A trace of torch.profiler as users have it, imported by the product; and what torch itself says
// in the trace beside the times, to hold reports against.
#ifndef PROFD_TESTS_REPORT_IMPORTED_TRACE_H_
#define PROFD_TESTS_REPORT_IMPORTED_TRACE_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "daemon/store/file/capture_reader.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd::report {

enum class GpuWorkKept {
  kAll,
  kAllButOfTheLastStep,  // Only what the other steps launched, if there are two or more.
};

class ImportedTrace {
 public:
  // Imports a .json.gz, or what is kept of it. Those of ImportTrace().
  absl::Status Import(const std::filesystem::path& trace, GpuWorkKept kept);

  store::CaptureReader& reader() const { return *reader_; }  // Once imported.

 private:
  store::TemporaryFolder folder_;
  std::unique_ptr<store::CaptureReader> reader_;
};

struct TorchFacts {
  // By the correlation of what ran on a GPU: the operator that torch itself linked it to.
  std::map<uint32_t, std::string> linked_op;
  // By the name of a kernel, as far as captures hold names: the least and greatest of torch's
  // estimates of its occupancy.
  std::map<std::string, std::pair<int64_t, int64_t>> occupancy_percent;
};
TorchFacts ReadTorchFacts(const std::filesystem::path& trace);

}  // namespace profd::report

#endif  // PROFD_TESTS_REPORT_IMPORTED_TRACE_H_
