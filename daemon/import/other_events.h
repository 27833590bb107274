// OtherEvents keeps the few events of a trace that no row of a capture stands for, so that an
// export has them again: the profiler's own span ("Trace") and its marks.
//
// Threads: one.
// Memory:  kMaxBytes. Later ones are left out.
#ifndef PROFD_DAEMON_IMPORT_OTHER_EVENTS_H_
#define PROFD_DAEMON_IMPORT_OTHER_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/import/trace_event.h"

namespace profd::importer {

class OtherEvents {
 public:
  static constexpr size_t kMaxBytes = size_t{8} << 10;

  void Add(const TraceEvent& event);

  // All of them as a JSON array, as ImportRecord::members has it under "traceEvents": `ts` and
  // `dur` are whole nanoseconds, since `start_ns` of the trace's time. Empty: there are none.
  std::string Take(int64_t start_ns);

 private:
  struct Kept {
    std::string head;  // `{"ph":"X",...,"tid":7`
    std::string tail;  // `,"args":{...}}`
    std::optional<int64_t> start_ns;
    std::optional<int64_t> duration_ns;
  };

  std::vector<Kept> kept_;
  size_t bytes_ = 0;
};

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_OTHER_EVENTS_H_
