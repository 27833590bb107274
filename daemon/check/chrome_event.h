// ChromeEvent is one event of a Chrome trace, as far as rules look at it. Nothing of it is trusted:
// each field says whether it was there, and whether it was what it should be.
#ifndef PROFD_DAEMON_CHECK_CHROME_EVENT_H_
#define PROFD_DAEMON_CHECK_CHROME_EVENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/check/json_reader.h"

namespace profd::check {

// A number of microseconds, to the nanosecond.
struct ChromeTime {
  bool is_present = false;
  bool is_number = false;   // And below 2^53 us.
  bool is_rounded = false;  // A double has no room for all its digits.
  int64_t ns = 0;
};

// A pid, a tid or an arrow's id: readers take numbers and texts.
struct ChromeId {
  bool is_present = false;
  bool is_integer = false;
  int64_t value = 0;  // A hash where it is text.
};

struct ChromeEvent {
  int64_t number = 0;   // Its place in the list, from 0.
  uint64_t offset = 0;  // Of its first byte.
  char phase = '\0';
  bool has_name = false;
  bool has_category = false;
  bool binds_enclosing = false;  // "bp": "e"
  std::string name;
  std::string category;
  ChromeTime time;
  ChromeTime duration;
  ChromeId pid;
  ChromeId tid;
  ChromeId id;

  // Of "args".
  std::optional<int64_t> device;
  std::optional<int64_t> stream;
  std::optional<int64_t> correlation;
  bool has_bytes = false;
  bool has_device_type = false;
  bool has_device_id = false;

  bool is_slice() const { return phase == 'X'; }
  // Kernels, copies and memsets.
  bool is_gpu_work() const;
  // Of CUDA or HIP, in which GPU work is launched.
  bool is_gpu_call() const;
};

// Takes the next value. False: it is no object, or the text broke off.
bool ReadChromeEvent(JsonReader& json, ChromeEvent& event);

// "12.345" as 12345 ns.
ChromeTime ParseChromeTime(std::string_view token);

// `"aten::mm" (event 12, byte 3456)`
std::string Describe(const ChromeEvent& event);

}  // namespace profd::check

#endif  // PROFD_DAEMON_CHECK_CHROME_EVENT_H_
