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
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "profd/v1/captures.pb.h"
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

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_CONVERT_CONVERT_H_
