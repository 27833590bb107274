// A stable reason on a status ("NO_STEPS"): what callers branch on, while the message is
// for people. Travels as a payload; daemon/rpc puts it into trailing metadata.
#ifndef PROFD_DAEMON_BASE_REASON_H_
#define PROFD_DAEMON_BASE_REASON_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "daemon/base/str_cat.h"

namespace profd {

inline constexpr std::string_view kReasonPayloadUrl = "profd/reason";

inline absl::Status WithReason(absl::Status status, std::string_view reason) {
  status.SetPayload(ToAbsl(kReasonPayloadUrl), absl::Cord(ToAbsl(reason)));
  return status;
}

// Empty: it has none.
inline std::string ReasonOf(const absl::Status& status) {
  const auto payload = status.GetPayload(ToAbsl(kReasonPayloadUrl));
  return payload.has_value() ? std::string(*payload) : std::string();
}

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_REASON_H_
