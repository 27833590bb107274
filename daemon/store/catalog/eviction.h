// Plans which captures lose their events when room is needed. Pure functions: CaptureStore reads
// the holders from the catalog, and removes the planned files.
//
// The rules, in this order:
//   1. The requester's own captures, the oldest first.
//   2. The oldest of the largest other holder, repeatedly, as long as it holds more than the
//      requester. Root may take from any holder.
// Pinned and live captures are never removed; those of root only for root. If a plan cannot free
// enough, nothing is removed.
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

// The files of one principal in the store.
struct StorageHolder {
  std::string principal;
  int64_t file_bytes = 0;            // Of all its captures, including pinned and live ones.
  std::vector<EvictableFile> files;  // The oldest first.
};

// The request that needs room.
struct EvictionRequest {
  std::string_view principal;
  std::string_view capture_id;  // Of the capture that needs it; empty: no single one does.
  int64_t bytes = 0;            // To free.
  // The operator lowered the cap: the largest holder loses files first, root last, and as much as
  // possible is freed.
  bool by_operator = false;
};

// Returns the captures to remove, in order. nullopt: removing all permitted files is not enough.
std::optional<std::vector<EvictableFile>> PlanEviction(const EvictionRequest& request,
                                                       std::vector<StorageHolder> holders);

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_CATALOG_EVICTION_H_
