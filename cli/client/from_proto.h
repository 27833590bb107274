// Messages of the gRPC contract to and from the values that commands show.
//
// What is unset or unknown to this version keeps the default of its field. A daemon is
// trusted not to lie about captures; still, nothing here can crash on what it sends.
#ifndef PROFD_CLI_CLIENT_FROM_PROTO_H_
#define PROFD_CLI_CLIENT_FROM_PROTO_H_

#include "cli/client/capture_view.h"
#include "cli/client/daemon_client.h"
#include "daemon/capture/capture_types.h"
#include "profd/v1/captures.pb.h"
#include "profd/v1/export.pb.h"
#include "profd/v1/node.pb.h"
#include "profd/v1/reports.pb.h"
#include "profd/v1/targets.pb.h"

namespace profd::cli {

TargetInfo FromProto(const v1::Target& message);
CaptureView FromProto(const v1::Capture& message);
NodeInfo FromProto(const v1::Node& message);
// In from_proto_report.cc. DATA_LOSS: parts that do not fit together.
absl::StatusOr<table::Report> FromProto(const v1::Report& message);

// These in from_proto_groups.cc.
GroupView FromProto(const v1::CaptureGroup& message);
GroupPreparation FromProto(const v1::GroupPreparation& message);
std::vector<MemberStart> FromProto(const v1::CommitGroupResponse& message);
v1::PrepareGroupRequest ToProto(const GroupRequest& request);
v1::CommitGroupRequest ToProto(const std::string& group_id, const GroupStart& start);
v1::GroupMember ToProto(const GroupMember& member);

v1::ListCapturesRequest::Filter ToProto(const CaptureFilter& filter);
v1::ExportTraceRequest::Format ToProto(exporter::TraceFormat format);

}  // namespace profd::cli

#endif  // PROFD_CLI_CLIENT_FROM_PROTO_H_
