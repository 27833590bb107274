// Times and durations of messages, to and from Abseil's.
//
// Any value of a message is accepted: Abseil saturates.
#ifndef PROFD_CLI_CLIENT_PROTO_TIME_H_
#define PROFD_CLI_CLIENT_PROTO_TIME_H_

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace profd::cli {

inline absl::Time TimeOf(const google::protobuf::Timestamp& message) {
  return absl::FromUnixSeconds(message.seconds()) + absl::Nanoseconds(message.nanos());
}

inline absl::Duration DurationOf(const google::protobuf::Duration& message) {
  return absl::Seconds(message.seconds()) + absl::Nanoseconds(message.nanos());
}

// REQUIRES: `duration` is finite.
inline void SetDuration(absl::Duration duration, google::protobuf::Duration& message) {
  message.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  message.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
}

// Sets 1970 for an earlier `time`: nothing was captured before.
// REQUIRES: `time` is not InfiniteFuture().
inline void SetTime(absl::Time time, google::protobuf::Timestamp& message) {
  absl::Duration since_epoch = std::max(time, absl::UnixEpoch()) - absl::UnixEpoch();
  message.set_seconds(absl::IDivDuration(since_epoch, absl::Seconds(1), &since_epoch));
  message.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(since_epoch)));
}

}  // namespace profd::cli

#endif  // PROFD_CLI_CLIENT_PROTO_TIME_H_
