// StrCat and StrAppend that take std::string_view. Debian 12's Abseil is built with a
// string_view of its own, so absl::StrCat does not; these convert and call it.
#ifndef PROFD_DAEMON_BASE_STR_CAT_H_
#define PROFD_DAEMON_BASE_STR_CAT_H_

#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace profd {

inline absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view FromAbsl(absl::string_view text) { return {text.data(), text.size()}; }

namespace str_cat_internal {
template <typename T>
decltype(auto) Adapt(const T& value) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    return ToAbsl(value);
  } else {
    return (value);
  }
}
}  // namespace str_cat_internal

template <typename... Args>
std::string StrCat(const Args&... args) {
  return absl::StrCat(str_cat_internal::Adapt(args)...);
}

template <typename... Args>
void StrAppend(std::string* out, const Args&... args) {
  absl::StrAppend(out, str_cat_internal::Adapt(args)...);
}

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_STR_CAT_H_
