// Sanitizers make code ten to thirty times slower and find the same defects with fewer repetitions.
// Tests that repeat something very often therefore repeat it less often with one.
#ifndef PROFD_TESTS_FAKES_SANITIZED_H_
#define PROFD_TESTS_FAKES_SANITIZED_H_

namespace profd {

#ifdef PROFD_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace profd

#endif  // PROFD_TESTS_FAKES_SANITIZED_H_
