// Queries of the catalog, and their results: plain values.
#ifndef PROFD_DAEMON_STORE_CATALOG_TYPES_H_
#define PROFD_DAEMON_STORE_CATALOG_TYPES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/capture/capture_types.h"
#include "daemon/store/file/seal.h"

namespace profd::store {

// All conditions that are set must hold.
struct CaptureFilter {
  std::vector<CaptureState> states;                         // Any of these; empty: all.
  std::vector<std::pair<std::string, std::string>> labels;  // All of these.
  std::optional<int64_t> pid;                               // Of the target.
  std::optional<int64_t> owner_uid;                         // Of the target.
  std::string name;                                         // The display name, exactly.
  std::string group_id;
  std::string id_prefix;
  std::optional<absl::Time> since;  // Created then or later.
  std::optional<absl::Time> until;  // Created before.
  bool include_deleted = true;      // Include captures whose events were removed.
};

struct CapturePage {
  std::vector<CaptureRecord> captures;  // Newest first.
  std::string next_page_token;          // Empty: there are no more.
};

struct CaptureSummaries {
  std::vector<OpSummaryRow> ops;  // The largest by time on CPU or GPU, at most kMaxCatalogOps.
  std::vector<StepSummaryRow> steps;
  std::vector<DeviceSummaryRow> devices;  // Of captures that recorded a GPU.
  std::string ranks;                      // As EventSummaries::ranks; empty: none is kept.
};

// A capture and the summaries that outlive its events.
struct SummarizedCapture {
  CaptureRecord record;
  CaptureSummaries summaries;
};

// Which summaries are read with a capture; reading fewer is quicker.
struct SummaryParts {
  bool steps = true;
  bool devices = true;
  bool ops = true;  // All.
  // With `ops` false: the operator of this name, and the largest one, which shows whether any are
  // kept.
  std::string operator_name;
  bool ranks = false;
};

// Rows of different kinds do not displace each other, nor those of different principals.
enum class AuditKind {
  kRoutine = 0,
  kRefusal = 1,
  kAdministrative = 2,  // Deletions, the verb `admin`, and actions on data of others.
};

// One line of the audit log.
struct AuditEntry {
  absl::Time time;        // When the call arrived.
  std::string principal;  // PrincipalName() (capture/access.h), "schedule:ID"
  std::string peer;       // "unix:4711", "ipv4:10.0.0.7:41234"; empty: none
  std::string method;     // "CreateCapture"
  std::string resource;   // "captures/01H..."
  std::string outcome;    // "OK", or a status code's name.
  std::string reason;     // Of a refusal, "NOT_ALLOWED"; empty: none.
  absl::Duration duration;
  int64_t bytes = 0;  // Of streams: bytes sent to or by the caller.
  AuditKind kind = AuditKind::kRoutine;
  // In rows that were read: identical calls after it, and the time of the last one.
  int64_t repeats = 0;
  absl::Time last_time;
};
// All conditions that are set must hold.
struct AuditFilter {
  std::optional<absl::Time> since;
  std::string principal;
  std::string method;
  bool refused_only = false;
};
struct AuditPage {
  std::vector<AuditEntry> entries;  // The newest first.
  int64_t next_before = 0;          // `before` of the next page; 0: there are no more.
};

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_CATALOG_TYPES_H_
