#include "daemon/export/chrome/other_events.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "daemon/base/str_cat.h"
#include "daemon/export/trace/json_text.h"

namespace profd::exporter {
namespace {

// No time lies further from the capture: a year.
constexpr int64_t kMostReachNs = int64_t{366} * 24 * 3600 * 1'000'000'000;

// Nothing: it is none, or out of reach.
std::optional<int64_t> TimeOf(const nlohmann::ordered_json& json) {
  if (!json.is_number_integer()) return std::nullopt;
  const auto ns = json.get<int64_t>();
  return ns >= -kMostReachNs && ns <= kMostReachNs ? std::optional(ns) : std::nullopt;
}

std::string TextIn(const nlohmann::ordered_json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string Micros(uint64_t ns) {
  char text[kMostNumberBytes];
  return std::string(text, PutMicros(text, ns));
}

}  // namespace

OtherEvents::OtherEvents(const CaptureRecord& record) {
  const auto found = record.imported.members.find("traceEvents");
  if (found == record.imported.members.end() || !IsPlainJson(found->second)) return;
  const auto events = nlohmann::ordered_json::parse(found->second, nullptr, false);
  if (!events.is_array()) return;
  for (const nlohmann::ordered_json& json : events) {
    if (!json.is_object()) continue;
    Event event;
    for (const auto& [key, value] : json.items()) {
      if (key == "ts") {
        event.start_ns = TimeOf(value);
      } else if (key == "dur") {
        event.duration_ns = TimeOf(value);
      } else {
        std::string& text = key == "args" ? event.tail : event.head;
        text += text.empty() && key != "args" ? "" : ",";
        AppendJsonString(key, text);
        StrAppend(&text, ":", value.dump());
      }
    }
    const std::string phase = TextIn(json, "ph");
    const bool is_label = phase == "M";
    const bool is_timed =
        (phase == "i" && event.start_ns.has_value()) ||
        (phase == "X" && event.start_ns.has_value() && event.duration_ns.has_value());
    if (!is_label && !is_timed) continue;
    has_end_ |= TextIn(json, "name") == "Record Window End";
    earliest_ns_ = std::min(earliest_ns_, event.start_ns.value_or(0));
    events_.push_back(std::move(event));
  }
}

void OtherEvents::Write(TraceClock clock, OutputBuffer& out) const {
  for (const Event& event : events_) {
    std::string text = StrCat(",\n{", event.head);
    if (event.start_ns.has_value()) {
      StrAppend(&text, ",\"ts\":", Micros(clock.At(*event.start_ns)));
    }
    if (event.start_ns.has_value() && event.duration_ns.has_value()) {
      const auto duration_ns = static_cast<uint64_t>(std::max<int64_t>(*event.duration_ns, 0));
      StrAppend(&text, ",\"dur\":", Micros(clock.Duration(*event.start_ns, duration_ns)));
    }
    out.Append(StrCat(text, event.tail, "}"));
  }
}

}  // namespace profd::exporter
