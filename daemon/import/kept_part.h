// KeptPart is how much of a trace that is cut off can be used. Profilers write the program's events
// first, by thread and time, and then the calls and the work of the GPU, by time. So what the file
// lacks began after the last event that it has, or is of kinds that it has not reached:
//
//   operators   ███ ████ ███ ████ ███        whole
//   calls       █ ██ █ █                     ends here: so does the capture
//   GPU         ██ █                         the file ends here
//
// Launches at the end whose work is missing are after the end, too: those after the last launch
// that has work. Others may lack theirs: profilers write a kernel once it has ended, so a long one
// may be missing while the file has shorter ones that were launched later, on other streams. Those
// count as launches without GPU work, and the GPU looks idle meanwhile. Work that was launched
// before the end belongs to the capture, whenever it ran.
//
// Threads: pure functions.
// Memory:  16 bytes per call, and at most 12 per linked GPU activity and per kept call; each number
//          is at most kMaxCalls. A vector that grows holds its calls twice.
#ifndef PROFD_DAEMON_IMPORT_KEPT_PART_H_
#define PROFD_DAEMON_IMPORT_KEPT_PART_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "daemon/import/trace_file.h"

namespace profd::importer {

struct KeptPart {
  static constexpr size_t kMaxCalls = 4'000'000;

  int64_t end_ns = 0;                      // Of the trace's own time.
  absl::flat_hash_set<uint32_t> launches;  // Correlations of calls that began by then.
};

// Reads all events of a trace that is cut off. nullopt: no event with a time is missing.
// RESOURCE_EXHAUSTED: it has more than kMaxCalls.
absl::StatusOr<std::optional<KeptPart>> FindKeptPart(TraceFile& file,
                                                     const std::function<bool()>& is_cancelled);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_KEPT_PART_H_
