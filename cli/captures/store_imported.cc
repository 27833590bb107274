#include "cli/captures/store_imported.h"

#include <memory>

#include "cli/base/errors.h"
#include "cli/captures/local_store.h"
#include "cli/client/daemon_client.h"
#include "daemon/base/clock.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/ulid.h"

namespace profd::cli {

absl::StatusOr<StoredImport> StoreImported(Invocation& invocation, Interrupts& interrupts,
                                           const std::string& path,
                                           absl::FunctionRef<void(int64_t, int64_t)> on_bytes) {
  ASSIGN_OR_RETURN(const std::unique_ptr<LocalStore> store, LocalStore::FindOrMake(invocation));
  if (store != nullptr) {
    absl::StatusOr<CaptureView> view = store->Import(path, on_bytes);
    if (!view.ok()) return LocalFailure(view.status());
    return StoredImport{.id = view->record.id, .group_id = view->record.group_id};
  }
  ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
  interrupts.OnInterrupt([daemon] { daemon->Abort(); });
  const absl::StatusOr<CaptureView> view =
      daemon->ImportCapture(path, NewUlid(Clock::Real().Now()), on_bytes);
  interrupts.OnInterrupt(nullptr);
  RETURN_IF_ERROR(view.status());
  return StoredImport{.id = view->record.id, .group_id = view->record.group_id};
}

}  // namespace profd::cli
