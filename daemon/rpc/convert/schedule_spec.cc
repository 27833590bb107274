#include "daemon/rpc/convert/schedule_spec.h"

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/rpc/convert/convert.h"
#include "daemon/rpc/convert/message_fields.h"
#include "daemon/schedule/schedule_fields.h"

namespace profd::rpc {
namespace {

// What `spec` says that no ScheduleSpec can.
absl::Status CheckScheduleSpec(const v1::ScheduleSpec& spec) {
  RETURN_IF_ERROR(DurationFromProto(spec.every(), "every").status());
  RETURN_IF_ERROR(DurationFromProto(spec.jitter(), "jitter").status());
  RETURN_IF_ERROR(TimeFromProto(spec.end_time(), "end_time").status());
  const v1::Sample& sample = spec.sample();
  if (!v1::Sample::Unit_IsValid(sample.unit())) {
    return absl::InvalidArgumentError(
        StrCat("sample.unit: ", static_cast<int>(sample.unit()), " is not known to this profd"));
  }
  if (spec.has_sample() && sample.fraction() == 0 && sample.count() == 0) {
    return absl::InvalidArgumentError("sample: needs a fraction or a count");
  }
  return absl::OkStatus();
}

}  // namespace

ScheduleSpec ScheduleSpecOf(const v1::ScheduleSpec& spec) {
  ScheduleSpec out;
  FieldsFromMessage(spec, out);
  out.capture = SpecOf(spec.capture());
  if (spec.governor().has_max_slowdown()) out.max_slowdown = spec.governor().max_slowdown();
  return out;
}

absl::StatusOr<ScheduleSpec> ScheduleSpecFromProto(const v1::ScheduleSpec& spec) {
  RETURN_IF_ERROR(CheckScheduleSpec(spec));
  RETURN_IF_ERROR(SpecFromProto(spec.capture()).status());
  return ScheduleSpecOf(spec);
}

void ScheduleSpecToProto(const ScheduleSpec& spec, v1::ScheduleSpec& out) {
  FieldsToMessage(spec, out);
  SpecToProto(spec.capture, *out.mutable_capture());
  out.mutable_governor()->set_max_slowdown(spec.max_slowdown);
  // Any time is an end, also the epoch.
  if (spec.end_time != absl::InfiniteFuture()) TimeToProto(spec.end_time, *out.mutable_end_time());
  if (spec.sample.fraction == 0 && spec.sample.count == 0) out.clear_sample();
}

}  // namespace profd::rpc
