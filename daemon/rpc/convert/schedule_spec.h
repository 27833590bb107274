// What a schedule asks for, and proto/profd/v1/schedules.proto, both ways, by the rules of
// convert.h.
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_RPC_CONVERT_SCHEDULE_SPEC_H_
#define PROFD_DAEMON_RPC_CONVERT_SCHEDULE_SPEC_H_

#include "absl/status/statusor.h"
#include "daemon/schedule/schedule_types.h"
#include "profd/v1/schedules.pb.h"

namespace profd::rpc {

// With defaults filled in. INVALID_ARGUMENT for what cannot be said in a ScheduleSpec; whether it
// can be carried out, the runner says.
absl::StatusOr<ScheduleSpec> ScheduleSpecFromProto(const v1::ScheduleSpec& spec);
// The same of what a daemon answered, as SpecOf().
ScheduleSpec ScheduleSpecOf(const v1::ScheduleSpec& spec);
void ScheduleSpecToProto(const ScheduleSpec& spec, v1::ScheduleSpec& out);

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_CONVERT_SCHEDULE_SPEC_H_
