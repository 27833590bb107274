// Categories of memory as rows hold them.
#ifndef PROFD_TESTS_REPORT_MEMORY_CATEGORY_NUMBERS_H_
#define PROFD_TESTS_REPORT_MEMORY_CATEGORY_NUMBERS_H_

#include <cstdint>

#include "proto/wire/event.h"

namespace profd::report {

constexpr uint8_t NumberOf(wire::MemoryCategory category) { return static_cast<uint8_t>(category); }
inline constexpr uint8_t kParameter = NumberOf(wire::MemoryCategory::kParameter);
inline constexpr uint8_t kGradient = NumberOf(wire::MemoryCategory::kGradient);
inline constexpr uint8_t kOptimizerState = NumberOf(wire::MemoryCategory::kOptimizerState);
inline constexpr uint8_t kActivation = NumberOf(wire::MemoryCategory::kActivation);
inline constexpr uint8_t kBuffer = NumberOf(wire::MemoryCategory::kBuffer);

}  // namespace profd::report

#endif  // PROFD_TESTS_REPORT_MEMORY_CATEGORY_NUMBERS_H_
