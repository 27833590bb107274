// MemoryShares adds up blocks by a name: a category, an operator, or a module.
//
// Threads: one.
// Memory:  80 bytes and the name, per name.
#ifndef PROFD_DAEMON_REPORT_MEMORY_SHARES_H_
#define PROFD_DAEMON_REPORT_MEMORY_SHARES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/report/memory/timeline.h"

namespace profd::report {

class MemoryShares {
 public:
  void Add(std::string_view name, int64_t bytes, int64_t blocks = 1);
  // Equal shares are sorted by name.
  std::vector<MemoryShare> LargestFirst() const;

 private:
  struct Share {
    int64_t bytes = 0;
    int64_t blocks = 0;
  };
  absl::flat_hash_map<std::string, Share> shares_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_MEMORY_SHARES_H_
