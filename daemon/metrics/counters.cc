#include "daemon/metrics/counters.h"

#include <string>

namespace profd::metrics {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildHistogram;

// A capture lasts from a second to the hours of its timeout, a call from a millisecond to the
// minutes of an export. Calls have few buckets, because every method has all of them.
const prometheus::Histogram::BucketBoundaries& CaptureBuckets() {
  static const auto* const buckets =
      new prometheus::Histogram::BucketBoundaries{1, 2, 5, 10, 30, 60, 120, 300, 900, 3600};
  return *buckets;
}
const prometheus::Histogram::BucketBoundaries& CallBuckets() {
  static const auto* const buckets =
      new prometheus::Histogram::BucketBoundaries{0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 15};
  return *buckets;
}

}  // namespace

Counters::Counters()
    : captures_(BuildCounter()
                    .Name("profd_captures_total")
                    .Help("Captures that ended, by state and by why")
                    .Register(registry_)),
      dropped_events_(BuildCounter()
                          .Name("profd_capture_dropped_events_total")
                          .Help("Events that captures could not keep, by why")
                          .Register(registry_)),
      capture_duration_(BuildHistogram()
                            .Name("profd_capture_duration_seconds")
                            .Help("Time from a capture's creation to its end")
                            .Register(registry_)
                            .Add({}, CaptureBuckets())),
      events_(BuildCounter()
                  .Name("profd_capture_events_total")
                  .Help("Events that captures kept")
                  .Register(registry_)
                  .Add({})),
      file_bytes_(BuildCounter()
                      .Name("profd_capture_file_bytes_total")
                      .Help("Bytes of finished capture files")
                      .Register(registry_)
                      .Add({})),
      call_duration_(BuildHistogram()
                         .Name("profd_rpc_duration_seconds")
                         .Help("Time from a call's arrival to its answer's end")
                         .Register(registry_)),
      calls_(BuildCounter()
                 .Name("profd_rpc_calls_total")
                 .Help("Calls that were answered, by status code and reason of refusal")
                 .Register(registry_)),
      sent_bytes_(BuildCounter()
                      .Name("profd_rpc_sent_bytes_total")
                      .Help("Bytes of captures and traces sent to callers")
                      .Register(registry_)),
      windows_(BuildCounter()
                   .Name("profd_schedule_windows_total")
                   .Help("Windows of schedules, by what became of them")
                   .Register(registry_)) {
  // So that a rate has something to rise from.
  for (int reason = 0; reason < kDropReasonCount; ++reason) {
    dropped_events_.Add({{"reason", std::string(ToString(static_cast<DropReason>(reason)))}});
  }
}

void Counters::CaptureEnded(const CaptureRecord& record) {
  captures_
      .Add({{"state", std::string(ToString(record.state))},
            {"reason", std::string(ToString(record.ended_by))},
            {"origin", record.schedule_id.empty() ? "request" : "schedule"}})
      .Increment();
  for (size_t reason = 0; reason < record.drops.size(); ++reason) {
    if (record.drops[reason] <= 0) continue;
    dropped_events_.Add({{"reason", std::string(ToString(static_cast<DropReason>(reason)))}})
        .Increment(static_cast<double>(record.drops[reason]));
  }
  if (record.end_time != absl::InfiniteFuture() && record.end_time >= record.create_time) {
    capture_duration_.Observe(absl::ToDoubleSeconds(record.end_time - record.create_time));
  }
  events_.Increment(static_cast<double>(record.event_count));
  file_bytes_.Increment(static_cast<double>(record.file_bytes));
}

void Counters::CallEnded(std::string_view method, absl::StatusCode code, std::string_view reason,
                         absl::Duration took, int64_t sent_bytes) {
  const std::string name(method);
  call_duration_.Add({{"method", name}}, CallBuckets()).Observe(absl::ToDoubleSeconds(took));
  calls_
      .Add({{"method", name},
            {"code", absl::StatusCodeToString(code)},
            {"reason", std::string(reason)}})
      .Increment();
  if (sent_bytes > 0) {
    sent_bytes_.Add({{"method", name}}).Increment(static_cast<double>(sent_bytes));
  }
}

void Counters::WindowEnded(std::string_view outcome) {
  windows_.Add({{"outcome", std::string(outcome)}}).Increment();
}

}  // namespace profd::metrics
