// StatusIs, IsOk and IsOkAndHolds, spelled as in Abseil releases newer than Debian 12's.
#ifndef PROFD_TESTS_FAKES_STATUS_MATCHERS_H_
#define PROFD_TESTS_FAKES_STATUS_MATCHERS_H_

#include <gmock/gmock.h>

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace profd {

inline const absl::Status& GetStatus(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& GetStatus(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER_P(StatusIs, code, absl::StrCat("has code ", absl::StatusCodeToString(code))) {
  *result_listener << GetStatus(arg).ToString();
  return GetStatus(arg).code() == code;
}
MATCHER_P2(StatusIs, code, message_matcher,
           absl::StrCat("has code ", absl::StatusCodeToString(code), " and message")) {
  *result_listener << GetStatus(arg).ToString();
  return GetStatus(arg).code() == code &&
         ::testing::ExplainMatchResult(message_matcher, std::string(GetStatus(arg).message()),
                                       result_listener);
}
MATCHER(IsOk, "is OK") {
  *result_listener << GetStatus(arg).ToString();
  return GetStatus(arg).ok();
}
MATCHER_P(IsOkAndHolds, value_matcher, "is OK and holds a value") {
  if (!arg.ok()) {
    *result_listener << arg.status().ToString();
    return false;
  }
  return ::testing::ExplainMatchResult(
      ::testing::SafeMatcherCast<const typename std::decay_t<decltype(arg)>::value_type&>(
          value_matcher),
      *arg, result_listener);
}

}  // namespace profd

#endif  // PROFD_TESTS_FAKES_STATUS_MATCHERS_H_
