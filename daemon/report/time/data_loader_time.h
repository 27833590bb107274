// Time that the program waited for its data loader: the ranges that torch opens to take the next
// batch, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__".
//
// Threads: any.
// Memory:  16 bytes per wait; ranges are read only if a name matches.
#ifndef PROFD_DAEMON_REPORT_TIME_DATA_LOADER_TIME_H_
#define PROFD_DAEMON_REPORT_TIME_DATA_LOADER_TIME_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/report/time/time_report.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// True for the name of such a range.
bool IsDataLoaderWait(std::string_view name);

// Of such a name: the loader has worker processes.
bool HasLoaderWorkers(std::string_view name);

struct DataLoaderWaits {
  DataLoaderTime sum;
  // One for each step, in the order of their starts: waits that began in it, on its thread.
  std::vector<int64_t> step_ns;
};
absl::StatusOr<DataLoaderWaits> ReadDataLoaderWaits(store::CaptureReader& reader);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_TIME_DATA_LOADER_TIME_H_
