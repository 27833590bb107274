#include "daemon/rpc/convert/proto_time.h"

#include <algorithm>
#include <cstdint>

#include "daemon/base/str_cat.h"

namespace profd::rpc {
namespace {

// Of google/protobuf/timestamp.proto and duration.proto.
constexpr int64_t kMinTimestampSeconds = -62135596800;
constexpr int64_t kMaxTimestampSeconds = 253402300799;
constexpr int64_t kMaxDurationSeconds = 315576000000;
constexpr int32_t kMaxNanos = 999'999'999;

absl::Status Invalid(std::string_view field, std::string_view type) {
  return absl::InvalidArgumentError(StrCat(field, ": not a valid ", type));
}

}  // namespace

bool IsSet(absl::Time time) {
  return time != absl::InfinitePast() && time != absl::InfiniteFuture() && time != absl::Time();
}

void TimeToProto(absl::Time time, google::protobuf::Timestamp& out) {
  const absl::Time lowest = absl::FromUnixSeconds(kMinTimestampSeconds);
  const absl::Time highest =
      absl::FromUnixSeconds(kMaxTimestampSeconds) + absl::Nanoseconds(kMaxNanos);
  time = std::min(std::max(time, lowest), highest);
  const int64_t seconds = absl::ToUnixSeconds(time);  // Rounds down.
  out.set_seconds(seconds);
  out.set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
}

void DurationToProto(absl::Duration duration, google::protobuf::Duration& out) {
  const absl::Duration longest = absl::Seconds(kMaxDurationSeconds);
  duration = std::min(std::max(duration, -longest), longest);
  const int64_t seconds = absl::IDivDuration(duration, absl::Seconds(1), &duration);
  out.set_seconds(seconds);
  out.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
}

absl::StatusOr<absl::Time> TimeFromProto(const google::protobuf::Timestamp& time,
                                         std::string_view field) {
  if (time.seconds() < kMinTimestampSeconds || time.seconds() > kMaxTimestampSeconds ||
      time.nanos() < 0 || time.nanos() > kMaxNanos) {
    return Invalid(field, "Timestamp");
  }
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

absl::StatusOr<absl::Duration> DurationFromProto(const google::protobuf::Duration& duration,
                                                 std::string_view field) {
  const int64_t seconds = duration.seconds();
  const int32_t nanos = duration.nanos();
  const bool signs_differ = (seconds > 0 && nanos < 0) || (seconds < 0 && nanos > 0);
  if (seconds < -kMaxDurationSeconds || seconds > kMaxDurationSeconds || nanos < -kMaxNanos ||
      nanos > kMaxNanos || signs_differ) {
    return Invalid(field, "Duration");
  }
  return absl::Seconds(seconds) + absl::Nanoseconds(nanos);
}

absl::Time TimeOf(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

absl::Duration DurationOf(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

}  // namespace profd::rpc
