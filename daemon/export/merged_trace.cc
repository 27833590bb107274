// Several captures as one trace.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/export/chrome/header.h"
#include "daemon/export/sink/output_buffer.h"
#include "daemon/export/trace/layout.h"
#include "daemon/export/trace/writers.h"
#include "daemon/export/trace_export.h"

namespace profd::exporter {
namespace {

// A clock that runs that much faster than another is no clock, but a fit to nonsense.
constexpr double kMostDrift = 0.01;

class MergedWriter {
 public:
  MergedWriter(std::span<store::CaptureReader* const> readers, const report::ClockAlignment& clocks,
               std::string_view group, OutputBuffer& out)
      : readers_(readers), clocks_(clocks), group_(group), out_(out) {}

  absl::Status Write(bool is_perfetto) {
    for (size_t i = 0; i < readers_.size(); ++i) places_.push_back(PlaceOf(i));
    return is_perfetto ? WritePerfetto() : WriteChrome();
  }

 private:
  TracePlace PlaceOf(size_t number) const {
    const report::AlignedClock& clock = clocks_.members[number];
    TracePlace place = {.is_merged = true, .number = number};
    place.start_unix_ns = clock.ToCommon(readers_[number]->record().start_unix_ns);
    if (std::abs(clock.drift) < kMostDrift) place.drift = clock.drift;
    return place;
  }

  absl::Status WritePerfetto() {
    uint64_t sequence = 1;
    for (size_t i = 0; i < readers_.size(); ++i) {
      places_[i].first_sequence = sequence;
      ASSIGN_OR_RETURN(sequence, WritePerfettoTrace(*readers_[i], places_[i], out_));
    }
    return absl::OkStatus();
  }

  absl::Status WriteChrome() {
    // A pass over all captures before the first event, because they count from the same moment.
    int64_t base_unix_ns = std::numeric_limits<int64_t>::max();
    for (size_t i = 0; i < readers_.size(); ++i) {
      ASSIGN_OR_RETURN(const int64_t earliest_ns, EarliestTime(*readers_[i]));
      base_unix_ns = std::min(base_unix_ns, ChromeBase(places_[i].start_unix_ns, earliest_ns));
    }
    std::vector<const CaptureRecord*> records;
    for (store::CaptureReader* const reader : readers_) records.push_back(&reader->record());
    out_.Append(MergedChromeHeader(records, clocks_, group_, base_unix_ns));
    for (size_t i = 0; i < readers_.size(); ++i) {
      places_[i].base_unix_ns = base_unix_ns;
      RETURN_IF_ERROR(WriteChromeTrace(*readers_[i], places_[i], out_));
    }
    out_.Append("\n]\n}\n");
    return out_.status();
  }

  const std::span<store::CaptureReader* const> readers_;
  const report::ClockAlignment& clocks_;
  const std::string_view group_;
  OutputBuffer& out_;
  std::vector<TracePlace> places_;
};

}  // namespace

absl::Status ExportMergedTrace(std::span<store::CaptureReader* const> readers,
                               const report::ClockAlignment& clocks, std::string_view group,
                               TraceFormat format, ByteSink& sink) {
  if (readers.empty() || readers.size() > TracePlace::kMostCaptures ||
      clocks.members.size() != readers.size()) {
    return absl::InvalidArgumentError(
        StrCat("a trace is merged of 1 to ", TracePlace::kMostCaptures,
               " captures with a clock each, not of ", readers.size()));
  }
  if (!IsTrace(format)) {
    return absl::InvalidArgumentError("this format is of one capture: only traces are merged");
  }
  std::unique_ptr<ByteSink> gzip;
  if (format == TraceFormat::kChromeGz) gzip = NewGzipSink(sink);
  OutputBuffer out(gzip != nullptr ? *gzip : sink);
  RETURN_IF_ERROR(
      MergedWriter(readers, clocks, group, out).Write(format == TraceFormat::kPerfetto));
  return out.Finish();
}

}  // namespace profd::exporter
