// CatalogReserve is disk space for the catalog: a file of fixed size next to it. When the disk is
// full, the file is removed, and the write that frees space or stops captures is tried again.
// Without it a full disk could not be cleared, because a deletion first has to be written to the
// catalog.
//
// Threads: one at a time.
// Errors:  none are returned. A reserve that cannot be taken is tried again at the next Fill().
#ifndef PROFD_DAEMON_STORE_CATALOG_RESERVE_H_
#define PROFD_DAEMON_STORE_CATALOG_RESERVE_H_

#include <cstdint>
#include <filesystem>
#include <utility>

namespace profd::store {

class CatalogReserve {
 public:
  // Enough for some hundred deletions: each writes a few pages to the write-ahead log.
  static constexpr int64_t kCatalogBytes = int64_t{1} << 20;
  // A second reserve, for audit rows of calls that began while there was room.
  static constexpr int64_t kAuditBytes = int64_t{256} << 10;

  // The file may exist already: it outlives the daemon, so that a start on a full disk works.
  CatalogReserve(std::filesystem::path path, int64_t bytes)
      : path_(std::move(path)), bytes_(bytes) {}

  // Takes the space, unless it is held. Returns whether it is held afterwards.
  bool Fill();
  // Gives the space back to the disk. Returns false if there was none.
  bool Release();

 private:
  const std::filesystem::path path_;
  const int64_t bytes_;
  bool full_ = false;  // The file is known to exist; false: Fill() checks.
};

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_CATALOG_RESERVE_H_
