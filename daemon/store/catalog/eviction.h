// Which captures lose their events when room is needed. Pure functions: CaptureStore asks the
// catalog who holds what, and removes what is planned here.
//
// The rules, in this order:
//   1. The requester's own captures, the oldest first.
//   2. The oldest of the largest other holder, again and again, as long as it holds more than the
//      requester. Root may take from anyone.
// Pinned and live captures never go. Root's go only for root. A plan that does not free enough is
// no plan: nothing is removed in vain.
//
// Threads: any.
#ifndef PROFD_DAEMON_STORE_CATALOG_EVICTION_H_
#define PROFD_DAEMON_STORE_CATALOG_EVICTION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace profd::store {

// A finished, unpinned capture.
struct EvictableFile {
  std::string id;
  int64_t bytes = 0;
};

// What one principal has in the store, as files.
struct StorageHolder {
  std::string principal;
  int64_t file_bytes = 0;            // Of all its captures, also pinned and live ones.
  std::vector<EvictableFile> files;  // The oldest first.
};

// For whom room is made.
struct EvictionRequest {
  std::string_view principal;
  int64_t bytes = 0;  // To free.
  // The operator's cap shrank and nobody asks for room: whoever holds most gives first, root last,
  // and as much as there is.
  bool by_operator = false;
};

// The captures to remove, in order. nullopt: what may be removed is not enough.
std::optional<std::vector<std::string>> PlanEviction(const EvictionRequest& request,
                                                     std::vector<StorageHolder> holders);

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_CATALOG_EVICTION_H_
