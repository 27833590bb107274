// TraceHeader gathers what a trace says of itself besides its events.
//
// Threads: one.
// Memory:  what it keeps; values beyond kMaxMemberBytes are not understood.
#ifndef PROFD_DAEMON_IMPORT_TRACE_HEADER_H_
#define PROFD_DAEMON_IMPORT_TRACE_HEADER_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/capture/capture_types.h"
#include "daemon/import/not_understood.h"

namespace profd::importer {

class TraceHeader {
 public:
  static constexpr size_t kMaxMemberBytes = size_t{4} << 20;
  // Of all that exports have again.
  static constexpr size_t kMaxKeptBytes = size_t{64} << 10;

  // A member of the trace but its events. What is not as it should be is counted.
  void Add(std::string_view key, std::string_view value, NotUnderstood& not_understood);

  // A thread whose events are on the row `tid`, or its functions of Python, which are there, too.
  struct Thread {
    int64_t tid = 0;
    bool is_python = false;
  };

  bool is_ours() const { return is_ours_; }
  // Of exports of profd: the process, and its threads in the order in which the capture had them.
  int64_t pid() const { return known_.target.pid; }
  bool has_torch() const { return has_torch_; }
  // An export of profd, of a trace with several windows.
  bool has_windows() const { return has_windows_; }
  // An export of profd, of a trace that was cut off: it lacks the same events.
  bool was_cut_off() const { return was_cut_off_; }
  std::span<const Thread> threads() const { return threads_; }
  // What process groups are called, by torch's name of them.
  const std::map<std::string, std::string>& group_names() const { return group_names_; }
  // The trace holds several captures that profd put on one time.
  bool is_merged() const { return is_merged_; }
  int64_t base_unix_ns() const { return base_unix_ns_; }  // Where its times count from.
  // Puts all that is known into the record.
  void FillIn(CaptureRecord& record) const;
  // The same of OtherEvents::Take(), where there is room.
  void AddOtherEvents(std::string events, CaptureRecord& record) const;

 private:
  void Keep(std::string_view key, std::string_view value, NotUnderstood& not_understood);

  bool is_kineto_ = false;
  bool is_ours_ = false;
  bool is_merged_ = false;
  bool has_torch_ = false;
  bool has_windows_ = false;
  bool was_cut_off_ = false;
  int64_t base_unix_ns_ = 0;
  size_t kept_bytes_ = 0;
  std::vector<Thread> threads_;
  std::map<std::string, std::string> group_names_;
  CaptureRecord known_;
};

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_TRACE_HEADER_H_
