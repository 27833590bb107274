// The fields of a schedule, each named once, as capture/capture_fields.h has those of a capture:
// what stores them and what sends them goes by these lists.
//
// Threads: any.
#ifndef PROFD_DAEMON_SCHEDULE_SCHEDULE_FIELDS_H_
#define PROFD_DAEMON_SCHEDULE_SCHEDULE_FIELDS_H_

#include "daemon/capture/capture_fields.h"
#include "daemon/schedule/schedule_types.h"

namespace profd {

template <>
struct EnumFacts<SampleUnit> {
  static constexpr SampleUnit kFirst = SampleUnit::kNodes;
  static constexpr SampleUnit kLast = SampleUnit::kJobs;
  static constexpr auto FromString = &SampleUnitFromString;
};

template <typename Archive, SameStruct<TargetSelector> T>
void Visit(Archive& archive, T& selector) {
  archive("job", selector.job);
  archive("ranks", selector.ranks);
  archive("command", selector.command);
  archive("metadata", selector.metadata);
  archive("pod_namespace", selector.pod_namespace);
  archive("uid", selector.uid);
}

template <typename Archive, SameStruct<SampleSpec> T>
void Visit(Archive& archive, T& sample) {
  archive("unit", sample.unit);
  archive("fraction", sample.fraction);
  archive("count", sample.count);
}

template <typename Archive, SameStruct<ScheduleBudget> T>
void Visit(Archive& archive, T& budget) {
  archive("captures_per_hour", budget.captures_per_hour);
  archive("bytes_per_day", budget.bytes_per_day);
  archive("time_share", budget.time_share);
}

template <typename Archive, SameStruct<ScheduleSpec> T>
void Visit(Archive& archive, T& spec) {
  archive("every_ns", spec.every);
  archive("align", spec.align);
  archive("cron", spec.cron);
  archive("jitter_ns", spec.jitter);
  archive("capture", spec.capture);
  archive("selector", spec.selector);
  archive("sample", spec.sample);
  archive("budget", spec.budget);
  archive("step_grid", spec.step_grid);
  archive("step_lead", spec.step_lead);
  archive("max_slowdown", spec.max_slowdown);
  archive("end_unix_ns", spec.end_time);
  archive("nodes", spec.nodes);
  archive("pin", spec.pin);
  archive("display_name", spec.display_name);
}

}  // namespace profd

#endif  // PROFD_DAEMON_SCHEDULE_SCHEDULE_FIELDS_H_
