#include "daemon/check/chrome_event.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::check {
namespace {

constexpr int64_t kEndOfMicros = int64_t{1} << 53;
// From here on a double of microseconds has no room for nanoseconds.
constexpr int64_t kEndOfExactNanos = int64_t{1} << 43;

std::optional<int64_t> Integer(std::string_view token) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (error != std::errc() || end != token.data() + token.size()) return std::nullopt;
  return value;
}

std::optional<int64_t> ReadInteger(JsonReader& json) { return Integer(json.Token()); }

ChromeId ReadId(JsonReader& json) {
  ChromeId id{.is_present = true};
  if (json.Peek() == JsonReader::Kind::kString) {
    id.value = static_cast<int64_t>(std::hash<std::string_view>()(json.String()));
  } else if (const std::optional<int64_t> value = ReadInteger(json)) {
    id.is_integer = true;
    id.value = *value;
  }
  return id;
}

ChromeTime ReadTime(JsonReader& json) {
  ChromeTime time = ParseChromeTime(json.Token());
  time.is_present = true;
  return time;
}

bool ReadText(JsonReader& json, std::string& text) {
  const bool is_text = json.Peek() == JsonReader::Kind::kString;
  text.assign(json.String());
  return is_text;
}

void ReadArguments(JsonReader& json, ChromeEvent& event) {
  if (!json.EnterObject()) return;
  std::string_view key;
  while (json.NextKey(key)) {
    if (key == "stream") {
      event.stream = ReadInteger(json);
    } else if (key == "correlation") {
      event.correlation = ReadInteger(json);
    } else if (key == "device") {
      event.device = ReadInteger(json);
    } else if (key == "Bytes") {
      event.has_bytes = ReadInteger(json).has_value();
    } else if (key == "Device Type") {
      event.has_device_type = ReadInteger(json).has_value();
    } else if (key == "Device Id") {
      event.has_device_id = ReadInteger(json).has_value();
    } else {
      json.Skip();
    }
  }
}

void ReadField(std::string_view key, JsonReader& json, ChromeEvent& event) {
  if (key == "ph") {
    const std::string_view phase = json.String();
    event.phase = phase.size() == 1 ? phase.front() : '\0';
  } else if (key == "name") {
    event.has_name = ReadText(json, event.name);
  } else if (key == "cat") {
    event.has_category = ReadText(json, event.category);
  } else if (key == "ts") {
    event.time = ReadTime(json);
  } else if (key == "dur") {
    event.duration = ReadTime(json);
  } else if (key == "pid") {
    event.pid = ReadId(json);
  } else if (key == "tid") {
    event.tid = ReadId(json);
  } else if (key == "id") {
    event.id = ReadId(json);
  } else if (key == "bp") {
    event.binds_enclosing = json.String() == "e";
  } else if (key == "args") {
    ReadArguments(json, event);
  } else {
    json.Skip();
  }
}

// As it was made, but for its place; what its texts own is kept for the next.
void Clear(ChromeEvent& event) {
  // The strings keep their memory from one event to the next; a trace has millions of events.
  std::string name = std::move(event.name);
  std::string category = std::move(event.category);
  name.clear();
  category.clear();
  event = ChromeEvent{.number = event.number};
  event.name = std::move(name);
  event.category = std::move(category);
}

}  // namespace

bool ChromeEvent::is_gpu_work() const {
  return category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset";
}

bool ChromeEvent::is_gpu_call() const {
  return category == "cuda_runtime" || category == "cuda_driver" || category == "hip_runtime";
}

ChromeTime ParseChromeTime(std::string_view token) {
  ChromeTime time;
  if (token.empty()) return time;
  const std::string_view whole = token.substr(0, token.find('.'));
  const std::string_view fraction =
      whole.size() < token.size() ? token.substr(whole.size() + 1) : std::string_view();
  const std::optional<int64_t> micros = Integer(whole);
  // An exponent is rare and is read as a double, with its error. Plain decimals are read digit by
  // digit, because nanoseconds since the epoch do not fit in a double.
  if (!micros.has_value() || fraction.find_first_of("eE") != std::string_view::npos) {
    const double value = std::strtod(std::string(token).c_str(), nullptr);
    if (!(std::abs(value) < static_cast<double>(kEndOfMicros))) return time;
    time.is_number = true;
    time.ns = std::llround(value * 1000);
    return time;
  }
  // Not std::abs(), which has no result for the smallest number.
  if (*micros <= -kEndOfMicros || *micros >= kEndOfMicros) return time;
  int64_t nanos = 0;
  for (size_t i = 0; i < 3; ++i) {
    nanos = nanos * 10 + (i < fraction.size() ? fraction[i] - '0' : 0);
  }
  time.is_number = true;
  time.ns = *micros * 1000 + (token.front() == '-' ? -nanos : nanos);
  time.is_rounded = std::abs(*micros) >= kEndOfExactNanos &&
                    fraction.find_first_not_of('0') != std::string_view::npos;
  return time;
}

bool ReadChromeEvent(JsonReader& json, ChromeEvent& event) {
  Clear(event);
  json.Peek();
  event.offset = json.offset();
  if (!json.EnterObject()) return false;
  std::string_view key;
  while (json.NextKey(key)) ReadField(key, json, event);
  return json.ok();
}

std::string Describe(const ChromeEvent& event) {
  return StrCat("\"", ForDisplay(event.name, 120), "\" (event ", event.number, ", byte ",
                event.offset, ")");
}

}  // namespace profd::check
