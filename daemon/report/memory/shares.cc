#include "daemon/report/memory/shares.h"

#include <algorithm>

#include "daemon/report/index/wrapping_math.h"

namespace profd::report {

void MemoryShares::Add(std::string_view name, int64_t bytes, int64_t blocks) {
  Share& share = shares_[std::string(name)];
  share.bytes = Sum(share.bytes, bytes);
  share.blocks += blocks;
}

std::vector<MemoryShare> MemoryShares::LargestFirst() const {
  std::vector<MemoryShare> sorted;
  sorted.reserve(shares_.size());
  for (const auto& [name, share] : shares_) sorted.push_back({name, share.bytes, share.blocks});
  std::sort(sorted.begin(), sorted.end(), [](const MemoryShare& a, const MemoryShare& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.name < b.name;
  });
  return sorted;
}

}  // namespace profd::report
