// CategoryLevels adds up what the blocks of each category took over the window, event by event.
//
// Threads: one.
// Memory:  as much for any number of events.
#ifndef PROFD_DAEMON_REPORT_MEMORY_CATEGORY_LEVELS_H_
#define PROFD_DAEMON_REPORT_MEMORY_CATEGORY_LEVELS_H_

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "daemon/report/memory/timeline.h"

namespace profd::report {

// "unknown" also for a number that is none of wire::MemoryCategory.
std::string_view CategoryName(uint8_t category);

class CategoryLevels {
 public:
  // The window is [0, `end_ns`).
  explicit CategoryLevels(int64_t end_ns) : end_ns_(end_ns) {}

  // A block that was there when the window began. Before all others.
  void AddOlder(uint8_t category, int64_t bytes);
  // Times never go back.
  void Allocate(int64_t time_ns, uint8_t category, int64_t bytes);
  void Free(int64_t time_ns, uint8_t category, int64_t bytes);

  // What blocks of a wire::MemoryCategory take now.
  int64_t BytesOf(uint8_t category) const;

  // Those that had a block; most byte-seconds first. Call once, last.
  std::vector<MemoryCategoryUse> Take();

 private:
  static constexpr size_t kCategories = 8;
  struct Level {
    int64_t bytes = 0;
    int64_t peak_bytes = 0;
    int64_t block_count = 0;
    int64_t until_ns = 0;  // As far as byte_seconds goes.
    double byte_seconds = 0;
  };

  Level& LevelOf(uint8_t category) { return levels_[category < kCategories ? category : 0]; }
  void AdvanceTo(int64_t time_ns, Level& level) const;

  const int64_t end_ns_;
  std::array<Level, kCategories> levels_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_MEMORY_CATEGORY_LEVELS_H_
