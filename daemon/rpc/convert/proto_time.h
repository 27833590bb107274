// Times and durations of protobuf's messages, to and from Abseil's.
//
// Threads: any.
#ifndef PROFD_DAEMON_RPC_CONVERT_PROTO_TIME_H_
#define PROFD_DAEMON_RPC_CONVERT_PROTO_TIME_H_

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace profd::rpc {

// Whether `time` is set: neither infinite nor the epoch.
bool IsSet(absl::Time time);

// Clamped to the range of Timestamp: the years 1 to 9999.
void TimeToProto(absl::Time time, google::protobuf::Timestamp& out);
// Clamped to the range of Duration: about 10,000 years.
void DurationToProto(absl::Duration duration, google::protobuf::Duration& out);

// INVALID_ARGUMENT, naming `field`, for one that protobuf itself calls invalid.
absl::StatusOr<absl::Time> TimeFromProto(const google::protobuf::Timestamp& time,
                                         std::string_view field);
absl::StatusOr<absl::Duration> DurationFromProto(const google::protobuf::Duration& duration,
                                                 std::string_view field);

// Of any message, valid or not: Abseil saturates.
absl::Time TimeOf(const google::protobuf::Timestamp& time);
absl::Duration DurationOf(const google::protobuf::Duration& duration);

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_CONVERT_PROTO_TIME_H_
