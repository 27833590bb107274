// The resources that principals share, one row each.
//
// How do I add a resource?  An enumerator, its row in resources.cc, and its limit in limits.cc.
// Messages, metrics, and `profctl node --quotas` follow from the row. Numbers never leave the
// process: outside, a resource is its name.
#ifndef PROFD_DAEMON_QUOTA_RESOURCES_H_
#define PROFD_DAEMON_QUOTA_RESOURCES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace profd::quota {

enum class Resource {
  kTargets = 0,         // Registered processes.
  kCaptureMemory,       // Bytes shared with targets.
  kLiveCaptures,        // Captures between CreateCapture and their terminal state.
  kCaptureRequests,     // CreateCapture and PrepareGroup members, per minute.
  kStoredBytes,         // Capture files, and rows of captures and schedules with their names.
  kSchedules,           // Also deleted ones that the catalog still has.
  kImports,             // Uploads in progress.
  kWaitingCalls,        // Accepted calls whose work has not begun.
  kRequestMemory,       // Bytes of large requests that are kept for their calls.
  kAnswerMemory,        // Bytes of large answers until their callers have taken them.
  kReportMilliseconds,  // Run time of reports and exports.
  kAuditRows,
  kConnections,        // To the control socket.
  kRemoteConnections,  // Over TCP, from the first call on. The caller is unknown before.
};
inline constexpr int kResourceCount = 14;

enum class Unit { kCount, kBytes, kMilliseconds };

struct ResourceInfo {
  Resource resource;
  std::string_view name;   // Stable, for metrics and JSON: "capture-memory".
  std::string_view title;  // For people: "capture memory".
  Unit unit;
  // The use outlives the request that made it (files, rows). Then holding some is no sign that
  // its holder wants more, so only requests make a principal active.
  bool durable;
  // Zero: used until released. Otherwise use fades away: a charge counts 1/e after this time, so
  // a constant rate of r per second settles at r * window seconds.
  absl::Duration window;
};

const std::array<ResourceInfo, kResourceCount>& AllResources();
const ResourceInfo& InfoOf(Resource resource);
std::optional<Resource> ResourceFromName(std::string_view name);

// "448 MiB", "37", "12.5 s".
std::string FormatAmount(Resource resource, int64_t amount);

}  // namespace profd::quota

#endif  // PROFD_DAEMON_QUOTA_RESOURCES_H_
