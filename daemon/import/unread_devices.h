// UnreadDevices counts complete events without a category, by process. Where the process is a
// device, as "Ascend Hardware" or "/device:TPU:0" is, they are work whose kind is not known.
//
// Threads: one. Memory: kMaxPids and their texts. Events of later ones have no device.
#ifndef PROFD_DAEMON_IMPORT_UNREAD_DEVICES_H_
#define PROFD_DAEMON_IMPORT_UNREAD_DEVICES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "daemon/import/not_understood.h"
#include "daemon/import/trace_event.h"
#include "daemon/import/trace_threads.h"

namespace profd::importer {

class UnreadDevices {
 public:
  static constexpr size_t kMaxPids = 1024;

  // `event` is of no category that is known. Counts it at once if it has one.
  void Count(const TraceEvent& event, NotUnderstood& not_understood);
  // Once all events are there, because processes may be named after them.
  void CountIn(NotUnderstood& not_understood, const TraceThreads& threads) const;

 private:
  std::map<std::string, int64_t, std::less<>> counts_;
  int64_t other_count_ = 0;
};

// Whether a trace calls a device so.
bool IsNameOfDevice(std::string_view process);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_UNREAD_DEVICES_H_
