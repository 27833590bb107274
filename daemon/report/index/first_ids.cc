#include "daemon/report/index/first_ids.h"

#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace profd::report {

std::vector<uint32_t> FirstIds(std::span<const std::string> names) {
  // The keys are views of `names`, which outlives the table.
  absl::flat_hash_map<std::string_view, uint32_t> first_of;
  std::vector<uint32_t> first_ids;
  first_ids.reserve(names.size());
  for (const std::string& name : names) {
    const auto id = static_cast<uint32_t>(first_ids.size());
    first_ids.push_back(first_of.try_emplace(name, id).first->second);
  }
  return first_ids;
}

}  // namespace profd::report
