// What can be done about an event that is not JSON. RepairEvent() mends what other programs write
// and JSON does not have: NaN and inf, and line breaks in texts. EndOfDamagedEvent() finds the end
// of an event whose quotes or brackets do not match, from what follows it: the begin of another
// event, or the end of the array.
//
//   {"ph": "X", "name": "f("a")"}, {"ph": "X", ...      {"ph": "X", "name": "a"b"}], "tr...": 1}
//                               ^ ends here                                      ^ ends here
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_IMPORT_DAMAGED_EVENT_H_
#define PROFD_DAEMON_IMPORT_DAMAGED_EVENT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace profd::importer {

// `text` begins with the event. Returns the size of the event with its last bracket;
// std::string_view::npos: no end is in `text`.
size_t EndOfDamagedEvent(std::string_view text);

// Where in an event JSON ends; 0 if it is JSON, with a number that no double can hold.
size_t ByteOfDamage(std::string_view event);

// Where in `text`, which begins with an event and may go on beyond the array, the first event
// begins whose brackets do not match, or that is followed by what no event is followed by;
// std::string_view::npos: none is.
size_t FindDamagedEvent(std::string_view text);

// `text` begins with the value of a member of the trace; after `from` bytes of it comes what
// follows no value. Returns the size of the value up to the comma before the next member or, if
// `is_all` of the trace is in `text`, up to its last bracket; std::string_view::npos: neither is
// there.
size_t EndOfDamagedMember(std::string_view text, size_t from, bool is_all);

struct RepairedEvent {
  std::string json;
  int64_t non_finite_numbers = 0;  // null is in the place of each.
  int64_t control_characters = 0;  // In texts; a space is in the place of each.

  bool is_changed() const { return non_finite_numbers + control_characters > 0; }
};
// Whether a value, an array, or an object has a number that is not finite, as RepairEvent() finds
// them.
bool HasNonFinite(std::string_view json);
// `event` from its first bracket to its last. What else is wrong with it stays as it is.
RepairedEvent RepairEvent(std::string_view event);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_DAMAGED_EVENT_H_
