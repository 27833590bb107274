// Numbers of a trace in the widths that rows have.
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_IMPORT_NARROW_H_
#define PROFD_DAEMON_IMPORT_NARROW_H_

#include <cstdint>
#include <utility>

#include "daemon/import/trace_event.h"

namespace profd::importer {

// `number` where it fits; else `otherwise`.
template <typename To>
To Narrow(int64_t number, To otherwise) {
  return std::in_range<To>(number) ? static_cast<To>(number) : otherwise;
}
template <typename To>
To NumberOr(const TraceEvent& event, Number number, To otherwise) {
  return Narrow<To>(event.Get(number, otherwise), otherwise);
}

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_NARROW_H_
