// Tests that do something very often do it less often with a sanitizer, which takes ten to thirty
// times as long and sees what it looks for the first time.
#ifndef PROFD_TESTS_FAKES_SANITIZED_H_
#define PROFD_TESTS_FAKES_SANITIZED_H_

namespace profd {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace profd

#endif  // PROFD_TESTS_FAKES_SANITIZED_H_
