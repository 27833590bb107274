// TraceThreads knows the processes and threads of a trace: who they are by their `pid` and `tid`,
// and what the trace calls them, which it may say after their events.
//
// Threads: one.
// Memory:  kMaxThreads of them, and of their names.
#ifndef PROFD_DAEMON_IMPORT_TRACE_THREADS_H_
#define PROFD_DAEMON_IMPORT_TRACE_THREADS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/capture/event_kinds.h"
#include "daemon/store/file/check.h"

namespace profd::importer {

class TraceThreads {
 public:
  // More are in no file that profd accepts.
  static constexpr uint32_t kMaxThreads = store::kMaxCheckedThreads;

  // `pid` and `tid` are JSON. The thread that an event of the CPU is of, or the row of its own that
  // the thread's functions of Python have; nothing: there are more than kMaxThreads.
  std::optional<uint32_t> IndexOf(std::string_view pid, std::string_view tid, bool is_python);

  // What the trace says of them; `name` is text.
  void NameThread(std::string_view pid, std::string_view tid, std::string_view name);
  void NameProcess(std::string_view pid, std::string_view name);

  struct Process {
    int64_t pid = 0;
    std::string name;
    int64_t others = 0;  // Further processes in the trace.
  };
  // What the trace called a thread so far, and labelled a process ("GPU 0"); empty: nothing.
  void LabelProcess(std::string_view pid, std::string_view label);
  std::string_view LabelOf(std::string_view pid, std::string_view tid);
  std::string_view LabelOf(std::string_view pid) const;
  // Whether it has a thread with events that were asked for.
  bool HasThreadOf(std::string_view pid) const;
  // What the trace calls a process; empty: nothing.
  std::string_view NameOf(std::string_view pid) const;
  // Exports of profd give CUDA calls that do not nest with a thread's ranges a row of their own,
  // "thread 17 CUDA calls". The `tid` of that thread; of other rows, `tid`.
  std::string_view ThreadOfCalls(std::string_view pid, std::string_view tid);

  // The one with most events.
  Process MainProcess() const;
  // As in the trace.
  std::string_view PidOf(size_t index) const { return threads_[index].pid; }
  // 0 for a `tid` that is a name.
  int64_t TidOf(size_t index) const { return threads_[index].os_thread; }
  std::vector<ThreadRow> Rows() const;
  // The `tid` of a thread, by index, that its row does not have: Python's functions share one with
  // their thread, and Kineto's may be negative.
  std::optional<int64_t> SourceTid(size_t index) const;

 private:
  struct Thread {
    std::string key;  // Pid and tid.
    std::string pid;
    int64_t os_thread = 0;
    int64_t event_count = 0;
    bool is_python = false;
  };

  std::vector<Thread> threads_;
  absl::flat_hash_map<std::string, uint32_t> by_key_;
  absl::flat_hash_map<std::string, std::string> thread_names_;   // By key.
  absl::flat_hash_map<std::string, std::string> labelled_tids_;  // By pid and name.
  absl::flat_hash_map<std::string, std::string> process_names_;
  absl::flat_hash_map<std::string, std::string> process_labels_;
  std::string key_;
  uint32_t last_ = 0;  // The thread that was asked for last.
};

// What rows of Python's functions are called, after the name of their thread.
inline constexpr std::string_view kPythonRow = "Python functions";

// The number of a row of ours for a GPU or a stream, whose `pid` and `tid` may be other numbers: 7
// of "stream 7 of context 1 (2) ", where `kind` is "stream ".
std::optional<int64_t> NumberOfRow(std::string_view label, std::string_view kind);

// Of what traces call threads: "thread 17 (data)" is "data", "thread 17" and "stream 7 " nothing.
std::string ThreadNameOf(std::string_view label);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_TRACE_THREADS_H_
