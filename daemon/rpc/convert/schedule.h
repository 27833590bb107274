// Between the structs of daemon/schedule and proto/profd/v1/schedules.proto, both ways, by the
// rules of convert.h.
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_RPC_CONVERT_SCHEDULE_H_
#define PROFD_DAEMON_RPC_CONVERT_SCHEDULE_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/schedule/schedule_runner.h"
#include "daemon/schedule/schedule_types.h"
#include "profd/v1/schedules.pb.h"

namespace profd::rpc {

absl::StatusOr<ScheduleDeclaration> DeclarationFromProto(
    const v1::ScheduleDeclaration& declaration);
v1::ApplyScheduleResponse::Change ChangeToProto(DeclaredChange change);
void ScheduleToProto(const ScheduleView& view, std::string_view node, v1::Schedule& out);
void WindowToProto(const ScheduleWindow& window, std::string_view node, v1::ScheduleWindow& out);

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_CONVERT_SCHEDULE_H_
