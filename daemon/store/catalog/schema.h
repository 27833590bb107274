// The catalog's tables, and the migration of older catalogs. The top of schema.cc describes how to
// add a migration.
//
// Threads: one at a time per Database.
#ifndef PROFD_DAEMON_STORE_CATALOG_SCHEMA_H_
#define PROFD_DAEMON_STORE_CATALOG_SCHEMA_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "daemon/store/file/sqlite_db.h"

namespace profd::store {

inline constexpr int64_t kCatalogApplicationId = 0x50464c47;  // "PFLG"

struct Migration {
  int64_t version;  // Of the catalog after it: 1, 2, 3, ...
  const char* sql;
};
std::span<const Migration> CatalogMigrations();

// Runs the `migrations` that `db` still needs, each with its version in one transaction.
// FAILED_PRECONDITION if a newer profd wrote it, DATA_LOSS if it belongs to another program.
absl::Status MigrateCatalog(Database& db, std::span<const Migration> migrations);

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_CATALOG_SCHEMA_H_
