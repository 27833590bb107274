// The data of the HTML report: what the reports say of a capture, as one JSON document. The page's
// scripts (html/) are its only reader. Tables are objects of columns: {"name": [...], "calls":
// [...]}.
//
// Units:  ns, bytes, shares of 0..1; -1 or null: not known.
// Errors: those of the reader.
#ifndef PROFD_DAEMON_EXPORT_HTML_DATA_H_
#define PROFD_DAEMON_EXPORT_HTML_DATA_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/json_writer.h"
#include "daemon/report/findings/findings.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

// What keeps the page small. Whatever is cut by them says how much there was.
inline constexpr size_t kMostNameBytes = 500;
inline constexpr int64_t kMostTableRows = 1000;
// Of operators by inputs, whose rows are long.
inline constexpr int64_t kMostInputRows = 500;
// Bars of a chart over steps: of more steps, each is the mean of several.
inline constexpr size_t kMostStepBars = 600;
// Points of all memory curves together.
inline constexpr int64_t kMostMemoryPoints = 6000;
// Devices that have charts of their own: those with most work, or most memory.
inline constexpr size_t kMostDevices = 16;
// Stacks of a flame view: those that took most time.
inline constexpr size_t kMostFlameStacks = 4000;

// The whole document.
absl::StatusOr<std::string> HtmlData(store::CaptureReader& reader,
                                     const report::FindingsReport& findings);
// `json` as it may stand in a script element: nothing in it ends the element or a line of
// JavaScript.
std::string ForScriptElement(std::string_view json);

// Its parts: each writes one or several members of the open object.
void WriteCaptureData(const CaptureRecord& record, JsonWriter& json);
void WriteFindingsData(const report::FindingsReport& findings, JsonWriter& json);
absl::Status WriteTimeData(store::CaptureReader& reader, JsonWriter& json);
absl::Status WriteTableData(store::CaptureReader& reader, JsonWriter& json);
absl::Status WriteMemoryData(store::CaptureReader& reader, JsonWriter& json);
absl::Status WriteFlameData(store::CaptureReader& reader, JsonWriter& json);

// ---- what the parts share ----

// A name of a capture, cleaned and cut to kMostNameBytes.
std::string ShownName(std::string_view untrusted);

inline void WriteValue(JsonWriter& json, bool value) { json.Bool(value); }
inline void WriteValue(JsonWriter& json, double value) { json.Double(value); }
template <std::integral T>
void WriteValue(JsonWriter& json, T value) {
  json.Int(static_cast<int64_t>(value));
}
inline void WriteValue(JsonWriter& json, const std::string& untrusted) {
  json.String(ShownName(untrusted));
}
inline void WriteValue(JsonWriter& json, std::string_view untrusted) {
  json.String(ShownName(untrusted));
}

// One column of `rows`: `get` is a member or a function of a row.
template <typename Rows, typename Get>
void WriteColumn(JsonWriter& json, std::string_view name, const Rows& rows, Get get) {
  json.Key(name).BeginArray();
  for (const auto& row : rows) WriteValue(json, std::invoke(get, row));
  json.EndArray();
}

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_HTML_DATA_H_
