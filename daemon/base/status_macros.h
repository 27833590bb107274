// RETURN_IF_ERROR and ASSIGN_OR_RETURN, spelled as Abseil's own status_macros.h does in
// releases newer than Debian 12's, so that this file can be deleted one day.
//
//   RETURN_IF_ERROR(store.Insert(record));
//   ASSIGN_OR_RETURN(const CaptureRecord record, store.Get(id));
#ifndef PROFD_DAEMON_BASE_STATUS_MACROS_H_
#define PROFD_DAEMON_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define RETURN_IF_ERROR(expr)                                           \
  do {                                                                  \
    if (::absl::Status status_ = (expr); !status_.ok()) return status_; \
  } while (false)

#define PROFD_CONCAT_INNER_(a, b) a##b
#define PROFD_CONCAT_(a, b) PROFD_CONCAT_INNER_(a, b)
#define ASSIGN_OR_RETURN(lhs, expr) \
  PROFD_ASSIGN_OR_RETURN_(PROFD_CONCAT_(statusor_, __LINE__), lhs, expr)
#define PROFD_ASSIGN_OR_RETURN_(statusor, lhs, expr)       \
  auto statusor = (expr);                                  \
  if (!statusor.ok()) return std::move(statusor).status(); \
  lhs = *std::move(statusor)

#endif  // PROFD_DAEMON_BASE_STATUS_MACROS_H_
