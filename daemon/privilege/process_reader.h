// ProcessReader: facts from /proc about another process, with the daemon's own rights or with those
// of profd-helper. A daemon without privileges cannot see the namespaces of other users' processes.
//
// Threads: any. Calls read /proc, or wait for the helper for at most some seconds.
// Errors:  NOT_FOUND: the process has ended, or cannot be seen.
#ifndef PROFD_DAEMON_PRIVILEGE_PROCESS_READER_H_
#define PROFD_DAEMON_PRIVILEGE_PROCESS_READER_H_

#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"
#include "daemon/privilege/proc_files.h"

namespace profd {

class ProcessReader {
 public:
  virtual ~ProcessReader() = default;

  // Reads the process of `pidfd`. The facts are of that process, not of a later one with its pid.
  virtual absl::StatusOr<std::unique_ptr<ProcFacts>> Read(int pidfd) = 0;

  // Reads with this process's own rights. Lives as long as the process.
  static ProcessReader& Direct();
};

// Reads a process by the path of its folder, "/proc/4711", for tests and for oneself.
absl::StatusOr<std::unique_ptr<ProcFacts>> ReadProcFolder(const std::filesystem::path& folder);

}  // namespace profd

#endif  // PROFD_DAEMON_PRIVILEGE_PROCESS_READER_H_
