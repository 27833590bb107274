#include "daemon/report/memory/category_levels.h"

#include <algorithm>
#include <string>

#include "daemon/report/index/wrapping_math.h"
#include "proto/wire/event.h"

namespace profd::report {
namespace {

// By the number of wire::MemoryCategory.
constexpr std::array<std::string_view, wire::kMaxMemoryCategory + 1> kNames = {
    "unknown",    "parameter", "gradient",  "optimizer_state",
    "activation", "input",     "temporary", "buffer"};

}  // namespace

std::string_view CategoryName(uint8_t category) {
  return category < kNames.size() ? kNames[category] : kNames[0];
}

void CategoryLevels::AddOlder(uint8_t category, int64_t bytes) { Allocate(0, category, bytes); }

void CategoryLevels::Allocate(int64_t time_ns, uint8_t category, int64_t bytes) {
  Level& level = LevelOf(category);
  AdvanceTo(time_ns, level);
  ++level.block_count;
  level.bytes = Sum(level.bytes, bytes);
  level.peak_bytes = std::max(level.peak_bytes, level.bytes);
}

void CategoryLevels::Free(int64_t time_ns, uint8_t category, int64_t bytes) {
  Level& level = LevelOf(category);
  AdvanceTo(time_ns, level);
  level.bytes = Difference(level.bytes, bytes);
}

void CategoryLevels::AdvanceTo(int64_t time_ns, Level& level) const {
  const int64_t until_ns = std::min(time_ns, end_ns_);
  if (until_ns <= level.until_ns) return;
  level.byte_seconds +=
      static_cast<double>(level.bytes) * static_cast<double>(until_ns - level.until_ns) / 1e9;
  level.until_ns = until_ns;
}

int64_t CategoryLevels::BytesOf(uint8_t category) const {
  return category < kCategories ? levels_[category].bytes : 0;
}

std::vector<MemoryCategoryUse> CategoryLevels::Take() {
  std::vector<MemoryCategoryUse> uses;
  for (uint8_t category = 0; category < kCategories; ++category) {
    Level& level = levels_[category];
    AdvanceTo(end_ns_, level);
    if (level.block_count == 0) continue;
    uses.push_back({.name = std::string(CategoryName(category)),
                    .peak_bytes = level.peak_bytes,
                    .byte_seconds = level.byte_seconds,
                    .block_count = level.block_count});
  }
  std::stable_sort(uses.begin(), uses.end(),
                   [](const MemoryCategoryUse& a, const MemoryCategoryUse& b) {
                     return a.byte_seconds > b.byte_seconds;
                   });
  return uses;
}

}  // namespace profd::report
