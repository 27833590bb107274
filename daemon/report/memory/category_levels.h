// CategoryLevels adds up the blocks of each category over the window, event by event.
//
// Threads: one.
// Memory:  constant, for any number of events.
#ifndef PROFD_DAEMON_REPORT_MEMORY_CATEGORY_LEVELS_H_
#define PROFD_DAEMON_REPORT_MEMORY_CATEGORY_LEVELS_H_

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "daemon/report/memory/timeline.h"

namespace profd::report {

// Returns "unknown" also for a number outside wire::MemoryCategory.
std::string_view CategoryName(uint8_t category);

class CategoryLevels {
 public:
  // The window is [0, `end_ns`).
  explicit CategoryLevels(int64_t end_ns) : end_ns_(end_ns) {}

  // Adds a block that existed when the window began. Call before all other functions.
  void AddOlder(uint8_t category, int64_t bytes);
  // Times must not decrease from call to call.
  void Allocate(int64_t time_ns, uint8_t category, int64_t bytes);
  void Free(int64_t time_ns, uint8_t category, int64_t bytes);

  // Returns the bytes of all live blocks of a wire::MemoryCategory.
  int64_t BytesOf(uint8_t category) const;

  // Returns the categories that had a block; most byte-seconds first. Call once, last.
  std::vector<MemoryCategoryUse> Take();

 private:
  static constexpr size_t kCategories = 8;
  struct Level {
    int64_t bytes = 0;
    int64_t peak_bytes = 0;
    int64_t block_count = 0;
    int64_t until_ns = 0;  // byte_seconds covers the time before this.
    double byte_seconds = 0;
  };

  Level& LevelOf(uint8_t category) { return levels_[category < kCategories ? category : 0]; }
  void AdvanceTo(int64_t time_ns, Level& level) const;

  const int64_t end_ns_;
  std::array<Level, kCategories> levels_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_MEMORY_CATEGORY_LEVELS_H_
