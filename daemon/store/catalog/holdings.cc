#include "daemon/store/catalog/holdings.h"

#include <utility>

#include "daemon/base/status_macros.h"

namespace profd::store {
namespace {

// Numbers of resources are those of HeldResource.
#define PROFD_ADD_HELD(resource, principal, amount)                                           \
  "INSERT INTO held(resource, principal, amount, changed) VALUES(" resource ", " principal    \
  ", " amount ", 1) ON CONFLICT(resource, principal) DO UPDATE SET amount = amount + " amount \
  ", changed = 1;"
#define PROFD_CAPTURE_BYTES(row) "(" row ".file_bytes + " row ".summary_bytes)"

constexpr char kStart[] =
    "PRAGMA temp_store=MEMORY; BEGIN;"
    "CREATE TEMP TABLE held(resource INTEGER NOT NULL, principal TEXT NOT NULL, "
    "amount INTEGER NOT NULL, changed INTEGER NOT NULL, PRIMARY KEY(resource, principal)) "
    "WITHOUT ROWID;"
    "CREATE INDEX temp.held_changed ON held(changed) WHERE changed;"

    // By indexes that have these columns: a large catalog is not read.
    "INSERT INTO held SELECT 0, principal, sum(bytes), 1 FROM ("
    "SELECT principal, sum(summary_bytes) AS bytes FROM captures GROUP BY principal UNION ALL "
    "SELECT principal, sum(file_bytes) FROM captures WHERE file_bytes > 0 GROUP BY principal "
    "UNION ALL SELECT principal, sum(record_bytes) FROM schedules GROUP BY principal) "
    "GROUP BY principal;"
    "INSERT INTO held SELECT 1, principal, count(*), 1 FROM schedules GROUP BY principal;"
    "INSERT INTO held SELECT 2, principal, sum(number), 1 FROM "
    "(SELECT principal, count(*) AS number FROM audit_log GROUP BY kind, principal) "
    "GROUP BY principal;"

    "CREATE TEMP TRIGGER held_new_capture AFTER INSERT ON main.captures BEGIN "
    PROFD_ADD_HELD("0", "NEW.principal", PROFD_CAPTURE_BYTES("NEW"))
    " END;"
    "CREATE TEMP TRIGGER held_changed_capture AFTER UPDATE ON main.captures WHEN "
    "OLD.principal <> NEW.principal OR " PROFD_CAPTURE_BYTES("OLD") " <> "
    PROFD_CAPTURE_BYTES("NEW") " BEGIN "
    PROFD_ADD_HELD("0", "OLD.principal", "-" PROFD_CAPTURE_BYTES("OLD"))
    PROFD_ADD_HELD("0", "NEW.principal", PROFD_CAPTURE_BYTES("NEW"))
    " END;"
    "CREATE TEMP TRIGGER held_removed_capture AFTER DELETE ON main.captures BEGIN "
    PROFD_ADD_HELD("0", "OLD.principal", "-" PROFD_CAPTURE_BYTES("OLD"))
    " END;"
    "CREATE TEMP TRIGGER held_new_schedule AFTER INSERT ON main.schedules BEGIN "
    PROFD_ADD_HELD("0", "NEW.principal", "NEW.record_bytes")
    PROFD_ADD_HELD("1", "NEW.principal", "1")
    " END;"
    "CREATE TEMP TRIGGER held_removed_schedule AFTER DELETE ON main.schedules BEGIN "
    PROFD_ADD_HELD("0", "OLD.principal", "-OLD.record_bytes")
    PROFD_ADD_HELD("1", "OLD.principal", "-1")
    " END;"
    "CREATE TEMP TRIGGER held_new_audit AFTER INSERT ON main.audit_log BEGIN "
    PROFD_ADD_HELD("2", "NEW.principal", "1")
    " END;"
    "CREATE TEMP TRIGGER held_removed_audit AFTER DELETE ON main.audit_log BEGIN "
    PROFD_ADD_HELD("2", "OLD.principal", "-1")
    " END;"
    "COMMIT";

}  // namespace

absl::Status Holdings::Start() { return db_.Exec(kStart); }

absl::StatusOr<std::vector<HeldAmount>> Holdings::TakeChanges() {
  std::vector<HeldAmount> changes;
  {
    StatementLease query = db_.Use("SELECT resource, principal, amount FROM held WHERE changed");
    for (;;) {
      ASSIGN_OR_RETURN(const bool row, query->Step());
      if (!row) break;
      changes.push_back({.resource = static_cast<HeldResource>(query->Int(0)),
                         .principal = query->Text(1),
                         .amount = query->Int(2)});
    }
  }
  if (changes.empty()) return changes;
  // The caller has been given the 0. A row for each principal that ever held something would let
  // the table grow without a limit.
  for (const char* sql : {"DELETE FROM held WHERE changed AND amount = 0",
                          "UPDATE held SET changed = 0 WHERE changed"}) {
    StatementLease update = db_.Use(sql);
    RETURN_IF_ERROR(update->Run());
  }
  return changes;
}

}  // namespace profd::store
