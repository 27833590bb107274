// A capture's Perfetto trace, as tests look at it.
#ifndef PROFD_TESTS_EXPORT_PERFETTO_EXPORTED_PERFETTO_H_
#define PROFD_TESTS_EXPORT_PERFETTO_EXPORTED_PERFETTO_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "daemon/check/trace_check.h"
#include "daemon/export/trace_export.h"
#include "tests/export/perfetto/perfetto_decoder.h"
#include "tests/export/sink/string_sink.h"
#include "tests/fakes/status_matchers.h"

namespace profd::exporter {

// Decoded, without offence, and nothing for `profctl check` to find.
inline PerfettoTrace PerfettoTraceOf(store::CaptureReader& reader) {
  StringSink sink;
  EXPECT_THAT(ExportTrace(reader, TraceFormat::kPerfetto, sink), IsOk());
  const auto checked = check::CheckTraceBytes(sink.text(), {});
  EXPECT_THAT(checked, IsOk());
  EXPECT_TRUE(checked.ok() && checked->clean()) << checked->findings.front().examples.front();
  absl::StatusOr<PerfettoTrace> trace = DecodePerfetto(sink.text());
  EXPECT_THAT(trace, IsOk());
  if (!trace.ok()) return {};
  EXPECT_THAT(trace->offences, testing::IsEmpty());
  return *std::move(trace);
}

inline const PerfettoSlice& SliceNamed(const PerfettoTrace& trace, std::string_view name) {
  for (const PerfettoSlice& slice : trace.slices) {
    if (slice.name == name) return slice;
  }
  ADD_FAILURE() << "no slice " << name;
  static const PerfettoSlice& kNone = *new PerfettoSlice();
  return kNone;
}

}  // namespace profd::exporter

#endif  // PROFD_TESTS_EXPORT_PERFETTO_EXPORTED_PERFETTO_H_
