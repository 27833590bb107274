// A capture's Chrome trace, as tests look at it.
#ifndef PROFD_TESTS_EXPORT_CHROME_EXPORTED_CHROME_H_
#define PROFD_TESTS_EXPORT_CHROME_EXPORTED_CHROME_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/export/trace_export.h"
#include "tests/export/chrome/strict_json.h"
#include "tests/export/sink/string_sink.h"
#include "tests/export/trace/trace_rules.h"
#include "tests/fakes/status_matchers.h"

namespace profd::exporter {

inline std::string ExportOrDie(store::CaptureReader& reader,
                               TraceFormat format = TraceFormat::kChrome) {
  StringSink sink;
  EXPECT_THAT(ExportTrace(reader, format, sink), IsOk());
  EXPECT_EQ(sink.finished(), 1);
  EXPECT_LE(sink.longest_piece(), size_t{1} << 20);
  return sink.text();
}

// Parsed strictly and held against the rules of those who load it.
inline JsonValue ParsedTrace(const std::string& text) {
  absl::StatusOr<JsonValue> root = ParseStrictJson(text);
  EXPECT_THAT(root, IsOk());
  if (!root.ok()) return {};
  EXPECT_THAT(TraceRuleOffences(text, *root), testing::IsEmpty());
  return *std::move(root);
}
inline JsonValue TraceOf(store::CaptureReader& reader) { return ParsedTrace(ExportOrDie(reader)); }

inline std::vector<const JsonValue*> Events(const JsonValue& root, std::string_view phase) {
  std::vector<const JsonValue*> events;
  for (const JsonValue& event : root["traceEvents"].items) {
    if (event["ph"].text == phase) events.push_back(&event);
  }
  return events;
}

// The first of this name that is not metadata.
inline const JsonValue& Named(const JsonValue& root, std::string_view name) {
  for (const JsonValue& event : root["traceEvents"].items) {
    if (event["name"].text == name && event["ph"].text != "M") return event;
  }
  ADD_FAILURE() << "no event " << name;
  static const JsonValue& kNull = *new JsonValue();
  return kNull;
}

inline int64_t UnixNs(const JsonValue& root, const JsonValue& event) {
  return root["baseTimeNanoseconds"].integer() + TraceTimeNs(event["ts"]);
}

}  // namespace profd::exporter

#endif  // PROFD_TESTS_EXPORT_CHROME_EXPORTED_CHROME_H_
