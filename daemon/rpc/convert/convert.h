// Between the daemon's structs and the messages of proto/profd/v1, both ways.
//
// What we send is always well formed: strings are valid UTF-8 (protobuf refuses others),
// times that are not set are absent, values of enums a client may not know are sent as they
// are. What we are sent is believed nothing: see SpecFromProto and FilterFromProto.
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_RPC_CONVERT_CONVERT_H_
#define PROFD_DAEMON_RPC_CONVERT_CONVERT_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/capture/capture_types.h"
#include "daemon/export/trace_export.h"
#include "daemon/report/gpu/copy_table.h"
#include "daemon/report/gpu/idle_table.h"
#include "daemon/report/gpu/kernel_table.h"
#include "daemon/report/gpu/sync_table.h"
#include "daemon/report/index/step_table.h"
#include "daemon/report/memory/timeline.h"
#include "daemon/report/ops/op_table.h"
#include "daemon/report/ranks/collectives.h"
#include "daemon/report/time/compile_report.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "profd/v1/captures.pb.h"
#include "profd/v1/export.pb.h"
#include "profd/v1/reports.pb.h"
#include "profd/v1/targets.pb.h"

namespace profd::rpc {

// ---- time ----

// Cut to what a Timestamp can say: the years 1 to 9999.
void TimeToProto(absl::Time time, google::protobuf::Timestamp& out);
void DurationToProto(absl::Duration duration, google::protobuf::Duration& out);
// INVALID_ARGUMENT, naming `field`, for one that protobuf itself calls invalid.
absl::StatusOr<absl::Time> TimeFromProto(const google::protobuf::Timestamp& time,
                                         std::string_view field);
absl::StatusOr<absl::Duration> DurationFromProto(const google::protobuf::Duration& duration,
                                                 std::string_view field);

// ---- targets ----

void TargetToProto(const TargetInfo& target, v1::Target& out);

// ---- captures ----

// With defaults filled in. INVALID_ARGUMENT as ValidateSpec.
absl::StatusOr<CaptureSpec> SpecFromProto(const v1::CaptureSpec& spec);
void SpecToProto(const CaptureSpec& spec, v1::CaptureSpec& out);
void CaptureToProto(const CaptureRecord& record, v1::Capture& out);
void StepsToProto(std::span<const StepRecord> steps, v1::Capture& out);

absl::StatusOr<CaptureState> StateFromProto(v1::Capture::State state);

// ---- reports and exports ----

absl::StatusOr<report::OpOptions> OpOptionsFromProto(const v1::GetOperatorsRequest& request);
void OpTableToProto(const report::OpTable& table, v1::GetOperatorsResponse& out);
void StepTableToProto(const report::StepTable& table, v1::GetStepsResponse& out);
absl::StatusOr<report::MemoryOptions> MemoryOptionsFromProto(
    const v1::GetMemoryTimelineRequest& request);
void MemoryTimelineToProto(const report::MemoryTimeline& timeline,
                           v1::GetMemoryTimelineResponse& out);
// In gpu_reports.cc. None of them sets `simulated`: that is the capture's.
absl::StatusOr<report::KernelOptions> KernelOptionsFromProto(const v1::GetKernelsRequest& request);
void KernelTableToProto(const report::KernelTable& table, v1::GetKernelsResponse& out);
void CopyTableToProto(const report::CopyTable& table, v1::GetCopiesResponse& out);
void SyncTableToProto(const report::SyncTable& table, v1::GetSyncsResponse& out);
void IdleTableToProto(const report::IdleTable& table, v1::GetIdleResponse& out);
// In compile_report.cc, likewise.
void CompileReportToProto(const report::CompileReport& report, v1::GetCompileResponse& out);
// In collectives.cc, likewise.
void CollectiveTableToProto(const report::CollectiveTable& table, v1::GetCollectivesResponse& out);
absl::StatusOr<exporter::TraceFormat> FormatFromProto(v1::ExportTraceRequest::Format format);

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_CONVERT_CONVERT_H_
