// Finds the end of an event whose quotes or brackets do not match, from what follows it: the begin
// of another event, or the end of the array.
//
//   {"ph": "X", "name": "f("a")"}, {"ph": "X", ...      {"ph": "X", "name": "a"b"}], "tr...": 1}
//                               ^ ends here                                      ^ ends here
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_IMPORT_DAMAGED_EVENT_H_
#define PROFD_DAEMON_IMPORT_DAMAGED_EVENT_H_

#include <cstddef>
#include <string_view>

namespace profd::importer {

// `text` begins with the event. Returns the size of the event with its last bracket;
// std::string_view::npos: no end is in `text`.
size_t EndOfDamagedEvent(std::string_view text);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_DAMAGED_EVENT_H_
