// TraceHeader gathers what a trace says of itself beside its events.
//
// Threads: one.
// Memory:  what it keeps; values beyond kMaxMemberBytes are not understood.
#ifndef PROFD_DAEMON_IMPORT_TRACE_HEADER_H_
#define PROFD_DAEMON_IMPORT_TRACE_HEADER_H_

#include <cstdint>
#include <string_view>

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

  bool is_ours() const { return is_ours_; }
  // The trace holds several captures that profd put on one time.
  bool is_merged() const { return is_merged_; }
  int64_t base_unix_ns() const { return base_unix_ns_; }  // Where its times count from.
  // Puts all that is known into the record.
  void FillIn(CaptureRecord& record) const;

 private:
  void Keep(std::string_view key, std::string_view value, NotUnderstood& not_understood);

  bool is_kineto_ = false;
  bool is_ours_ = false;
  bool is_merged_ = false;
  int64_t base_unix_ns_ = 0;
  size_t kept_bytes_ = 0;
  CaptureRecord known_;
};

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_TRACE_HEADER_H_
