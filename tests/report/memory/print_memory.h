// How tests print what reports of memory are made of.
#ifndef PROFD_TESTS_REPORT_MEMORY_PRINT_MEMORY_H_
#define PROFD_TESTS_REPORT_MEMORY_PRINT_MEMORY_H_

#include <ostream>

#include "daemon/report/memory/timeline.h"

namespace profd::report {

inline void PrintTo(const MemoryPoint& point, std::ostream* out) {
  *out << "{" << point.time_ns << ", " << point.allocated_bytes << "}";
}
inline void PrintTo(const MemoryShare& share, std::ostream* out) {
  *out << "{" << share.name << ", " << share.bytes << ", " << share.blocks << "}";
}

}  // namespace profd::report

#endif  // PROFD_TESTS_REPORT_MEMORY_PRINT_MEMORY_H_
