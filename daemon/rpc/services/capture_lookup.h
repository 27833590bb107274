// From a capture's name, as a caller gives it, to the capture.
//
// Threads: any; the calls wait for the manager and the disk.
// Errors:  INVALID_ARGUMENT for what is no name, or the start of several ids; NOT_FOUND also
//          for what belongs to others.
#ifndef PROFD_DAEMON_RPC_SERVICES_CAPTURE_LOOKUP_H_
#define PROFD_DAEMON_RPC_SERVICES_CAPTURE_LOOKUP_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/capture/capture_manager.h"
#include "daemon/rpc/admission/admission.h"
#include "daemon/store/capture_store.h"

namespace profd::rpc {

// The only owner (uid) whose captures the caller may see, for filters of the store. nullopt: there
// may be several, so each capture has to be checked.
std::optional<int64_t> VisibleOwner(const Caller& caller);

// The whole ID of what a resource name, or one with the beginning of an ID, names. A whole one is
// not looked up: the capture need not exist.
absl::StatusOr<std::string> FindCaptureId(store::CaptureStore& store, const Caller& caller,
                                          std::string_view name);

absl::StatusOr<CaptureRecord> FindCapture(CaptureManager& manager, store::CaptureStore& store,
                                          const Caller& caller, std::string_view name);

// Also FAILED_PRECONDITION (CAPTURE_LIVE), and NOT_FOUND (NO_EVENTS) if none were recorded
// or they were removed.
absl::StatusOr<CaptureRecord> FindStoredCapture(CaptureManager& manager, store::CaptureStore& store,
                                                const Caller& caller, std::string_view name);

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVICES_CAPTURE_LOOKUP_H_
