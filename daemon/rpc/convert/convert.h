// Between the daemon's structs and the messages of proto/profd/v1, both ways.
//
// What we send is always well formed: strings are valid UTF-8 (protobuf refuses others),
// times that are not set are absent, values of enums a client may not know are sent as they
// are. What callers send is checked: see SpecFromProto().
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_RPC_CONVERT_CONVERT_H_
#define PROFD_DAEMON_RPC_CONVERT_CONVERT_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/capture/capture_types.h"
#include "daemon/rpc/convert/proto_time.h"
#include "profd/v1/captures.pb.h"
#include "profd/v1/reports.pb.h"
#include "profd/v1/targets.pb.h"

namespace profd::rpc {

// ---- targets ----

void TargetToProto(const TargetInfo& target, v1::Target& out);

// ---- captures ----

// Fills in defaults. INVALID_ARGUMENT as ValidateSpec().
absl::StatusOr<CaptureSpec> SpecFromProto(const v1::CaptureSpec& spec);
// The same of what a daemon answered, which is believed: values of enums that we do not know are
// the defaults.
CaptureSpec SpecOf(const v1::CaptureSpec& spec);
void SpecToProto(const CaptureSpec& spec, v1::CaptureSpec& out);
void CaptureToProto(const CaptureRecord& record, v1::Capture& out);
void StepsToProto(std::span<const StepRecord> steps, v1::Capture& out);

absl::StatusOr<CaptureState> StateFromProto(v1::Capture::State state);

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_CONVERT_CONVERT_H_
