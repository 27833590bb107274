// CheckTrace holds a trace file, ours or anyone's, against the rules of those who load such files:
// Holistic Trace Analysis (HTA), Perfetto, chrome://tracing and TensorBoard's plugin. It answers
// what a reader would refuse, lose or draw wrong, and where in the file.
//
//   Chrome JSON      an object or a list of events, plain or gzip
//   Perfetto         its protobuf, plain or gzip
//
// What a rule is called, whom it is for, what its breach does and what to do about it stand in one
// table, kCheckRules in check_rules.cc; the same rules hold our own exports in the tests.
//
// Threads: any, one call each.
// Errors:  those that say the file could not be read: NOT_FOUND, PERMISSION_DENIED, INTERNAL (the
//          disk), INVALID_ARGUMENT (it does not begin like any trace). Damage further in is a
//          finding, since it is what was asked for.
// Memory:  at most kMostCheckBytes, whatever the file's size: about 32 bytes per slice, 40 per end
//          of an arrow and 24 per GPU row or call of a Chrome trace; Perfetto's keeps only open
//          slices and ends of arrows. What would take more is left unchecked, which the report
//          says.
#ifndef PROFD_DAEMON_CHECK_TRACE_CHECK_H_
#define PROFD_DAEMON_CHECK_TRACE_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace profd::check {

inline constexpr size_t kMostCheckBytes = size_t{448} << 20;

enum class TraceKind { kChrome, kPerfetto };

enum class Severity {
  kError,    // A reader refuses the file, or loses what is in it.
  kWarning,  // A reader shows something that is not so.
  kNote,     // Worth knowing. A file with notes only is clean.
};

// What never changes about a rule.
struct CheckRule {
  std::string_view id;  // "nesting"; scripts may rely on it.
  Severity severity;
  std::string_view readers;  // "HTA, TensorBoard"
  std::string_view effect;   // What they make of it.
  std::string_view remedy;
};

// How one rule was broken.
struct Finding {
  const CheckRule* rule = nullptr;
  int64_t count = 0;
  // The first few, each a sentence that names the event; cleaned for display.
  std::vector<std::string> examples;
};

struct CheckReport {
  TraceKind kind = TraceKind::kChrome;
  bool compressed = false;
  uint64_t file_bytes = 0;        // As it lies there,
  uint64_t trace_bytes = 0;       // and uncompressed.
  int64_t event_count = 0;        // Or packets.
  std::vector<Finding> findings;  // Errors, then warnings, each in the table's order.
  std::vector<Finding> notes;
  // What was not checked, and why: one sentence each.
  std::vector<std::string> unchecked;

  bool clean() const { return findings.empty(); }
};

struct CheckOptions {
  // The name that readers will go by, which may differ from where the bytes are. Empty: rules
  // about names do not apply.
  std::string name;
  // Called now and then with the bytes of the file read so far; false gives up (CANCELLED).
  std::function<bool(uint64_t)> on_progress;
};

absl::StatusOr<CheckReport> CheckTraceFile(const std::string& path, const CheckOptions& options);
// The same of bytes in memory.
absl::StatusOr<CheckReport> CheckTraceBytes(std::string_view bytes, const CheckOptions& options);

std::string_view NameOf(TraceKind kind);     // "chrome", "perfetto"
std::string_view NameOf(Severity severity);  // "error", "warning", "note"

}  // namespace profd::check

#endif  // PROFD_DAEMON_CHECK_TRACE_CHECK_H_
