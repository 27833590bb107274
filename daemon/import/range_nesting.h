// How the ranges of one thread nest, by torch.profiler's rule, and in which order a capture has
// them.
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_IMPORT_RANGE_NESTING_H_
#define PROFD_DAEMON_IMPORT_RANGE_NESTING_H_

#include <cstdint>
#include <vector>

namespace profd::importer {

struct ImportedRange {
  int64_t start_ns;
  int64_t duration_ns;
  uint32_t name;
  uint32_t op;        // Index of what is known of the operator, plus 1; 0: nothing
  uint32_t order;     // Of ranges with equal times, the outer one's is less.
  uint32_t position;  // How many ranges of the thread came before it.
  uint16_t depth;     // Made by Nest().
  uint8_t category;   // wire::RangeCategory
  uint8_t flags;

  int64_t end_ns() const { return start_ns + duration_ns; }
};
static_assert(sizeof(ImportedRange) == 40);

struct LostRanges {
  int64_t python_count = 0;  // Frames of Python.
  int64_t other_count = 0;
};

// Sorts the ranges by their end, each after all it encloses, and sets their depths. Those that are
// nested deeper than a capture may have are taken out.
LostRanges Nest(std::vector<ImportedRange>& ranges);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_RANGE_NESTING_H_
