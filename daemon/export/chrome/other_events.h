// OtherEvents are the events of an imported trace that no row of the capture stands for: the
// profiler's own span and marks. They are in ImportRecord::members, under "traceEvents", with whole
// nanoseconds since the capture's start.
//
// Threads: one. Errors: those of the sink are in `out`. What is not as it should be is left out.
#ifndef PROFD_DAEMON_EXPORT_CHROME_OTHER_EVENTS_H_
#define PROFD_DAEMON_EXPORT_CHROME_OTHER_EVENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/capture/capture_types.h"
#include "daemon/export/sink/output_buffer.h"
#include "daemon/export/trace/clock.h"

namespace profd::exporter {

class OtherEvents {
 public:
  OtherEvents() = default;
  explicit OtherEvents(const CaptureRecord& record);

  // 0 if none is earlier.
  int64_t earliest_ns() const { return earliest_ns_; }
  // One of them is Kineto's mark of the end of the recording.
  bool has_end() const { return has_end_; }
  // With a comma before each.
  void Write(TraceClock clock, OutputBuffer& out) const;

 private:
  struct Event {
    std::string head;
    std::string tail;
    std::optional<int64_t> start_ns;
    std::optional<int64_t> duration_ns;
  };

  std::vector<Event> events_;
  int64_t earliest_ns_ = 0;
  bool has_end_ = false;
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_CHROME_OTHER_EVENTS_H_
