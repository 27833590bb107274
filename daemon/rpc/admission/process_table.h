// ProcessTable: the processes of this machine, as far as finding a launcher's children
// needs them. An interface so that tests bring their own.
//
// Threads: any.
#ifndef PROFD_DAEMON_RPC_ADMISSION_PROCESS_TABLE_H_
#define PROFD_DAEMON_RPC_ADMISSION_PROCESS_TABLE_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace profd::rpc {

struct ProcessFacts {
  int64_t parent_pid = 0;  // 0: it has none we could see.
  int64_t uid = -1;        // Real uid.
  bool has_ended = false;  // A zombie: its parent has not asked for its status yet.
};

class ProcessTable {
 public:
  virtual ~ProcessTable() = default;
  // nullopt: no such process, or hidden from us.
  virtual std::optional<ProcessFacts> Find(int64_t pid) const = 0;

  static const ProcessTable& Real();  // /proc
};

// The two facts in the text of /proc/PID/status.
std::optional<ProcessFacts> ParseProcessStatus(std::string_view status);

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_ADMISSION_PROCESS_TABLE_H_
