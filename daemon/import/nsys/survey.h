// Lists the processes of an Nsight Systems export, selects those that become captures, and counts
// the rows that no capture gets.
//
// Threads: one.
// Errors:  those of store::ForeignDatabase; INVALID_ARGUMENT for a database without events of CUDA
//          and NVTX; RESOURCE_EXHAUSTED for more than kMaxCaptures processes.
#ifndef PROFD_DAEMON_IMPORT_NSYS_SURVEY_H_
#define PROFD_DAEMON_IMPORT_NSYS_SURVEY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/import/nsys/source.h"

namespace profd::importer {

struct NsysProcess {
  ProcessKey key = 0;
  bool has_gpu_work = false;
  int64_t row_count = 0;  // In tables that are imported.
  // Rows of tables that are not imported, by table: kinds of NotUnderstood.
  std::map<std::string, int64_t> left_out;
};

struct NsysSurvey {
  static constexpr size_t kMaxCaptures = 256;

  // Those with GPU work or NVTX ranges; where none has any, those with calls of CUDA. By pid.
  std::vector<NsysProcess> captured;
  // The one with the most rows. Its capture counts the rows that belong to no captured process.
  size_t main = 0;
  std::map<std::string, int64_t> left_out;
  // Rows without a process belong to the only process of the file.
  bool is_single_process = false;
};

absl::StatusOr<NsysSurvey> SurveyNsys(NsysSource& source);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_NSYS_SURVEY_H_
