// As from_proto.h, for schedules.
#ifndef PROFD_CLI_CLIENT_FROM_PROTO_SCHEDULES_H_
#define PROFD_CLI_CLIENT_FROM_PROTO_SCHEDULES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/client/schedule_view.h"
#include "profd/v1/schedules.pb.h"

namespace profd::cli {

ScheduleView FromProto(const v1::Schedule& message);
WindowView FromProto(const v1::ScheduleWindow& message);
AppliedView FromProto(const v1::ApplyScheduleResponse& message);

}  // namespace profd::cli

#endif  // PROFD_CLI_CLIENT_FROM_PROTO_SCHEDULES_H_
