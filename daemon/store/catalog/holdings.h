// Holdings counts what the rows of each principal take, for its quotas. Temporary triggers of the
// daemon's connection keep the counts: they are exact however the rows change, and a change that is
// rolled back is rolled back here.
//
//   stored bytes   files of captures, and the records of captures and schedules with their names.
//                  Not: windows of schedules, labels, indexes, and files that are being written
//   schedules      with deleted ones
//   audit rows     of all kinds
//
// Threads: one at a time, with the catalog's connection.
// Errors:  as Database.
#ifndef PROFD_DAEMON_STORE_CATALOG_HOLDINGS_H_
#define PROFD_DAEMON_STORE_CATALOG_HOLDINGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/store/file/sqlite_db.h"

namespace profd::store {

enum class HeldResource {
  kStoredBytes = 0,
  kSchedules = 1,
  kAuditRows = 2,
};

struct HeldAmount {
  HeldResource resource{};
  std::string principal;  // As PrincipalName() gives it.
  int64_t amount = 0;
};

class Holdings {
 public:
  explicit Holdings(Database& db) : db_(db) {}

  // Counts what there is, and makes the triggers. Call once, after migrations.
  absl::Status Start();
  // Returns what has changed since the last call; at first, everything.
  absl::StatusOr<std::vector<HeldAmount>> TakeChanges();

 private:
  Database& db_;
};

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_CATALOG_HOLDINGS_H_
