#include "daemon/quota/limits.h"

#include <algorithm>

namespace profd::quota {
namespace {

constexpr int64_t kKiB = 1 << 10;
constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kGiB = 1 << 30;

constexpr int64_t kReserveShare = 8;                  // Root's reserve: one part in eight.
constexpr int64_t kFloorShare = 4;                    // For newcomers: one of what is shared.
constexpr int64_t kDefaultCaptureMemory = 64 * kMiB;  // Of one capture, CaptureSpec.
constexpr int64_t kMaxSharedCaptureMemory = 512 * kMiB;

constexpr int64_t kCaptureRequestsPerMinute = 1200;
constexpr int64_t kCaptureRequestsPerMinuteOfOne = 300;
constexpr int64_t kWaitingCallsOfOne = 32;
constexpr int64_t kReportMillisecondsPerWindow = 600'000;
constexpr int64_t kAuditRows = 200'000;
constexpr int64_t kAuditRowsOfOne = 45'000;
constexpr int64_t kRemoteConnections = 1024;
constexpr int64_t kRemoteConnectionsOfOne = 128;
constexpr int64_t kDefaultStorage = 20 * kGiB;

int64_t ReserveOf(Resource resource, int64_t capacity) {
  switch (resource) {
    case Resource::kStoredBytes:
    case Resource::kAuditRows:
    case Resource::kRemoteConnections:
      return 0;
    default:
      break;
  }
  // A third of the whole is half of what the others get.
  if (resource == Resource::kCaptureMemory) return std::min(kDefaultCaptureMemory, capacity / 3);
  return std::min(capacity, std::max<int64_t>(1, capacity / kReserveShare));
}

// `share` of the memory, at `each` bytes.
int64_t Fit(int64_t share, int64_t each, int64_t least, int64_t most) {
  return std::clamp(share / each, least, most);
}

int64_t CaptureMemoryFor(int64_t memory) {
  const int64_t shared = std::min(memory / 4, kMaxSharedCaptureMemory);
  return shared + std::min(kDefaultCaptureMemory, shared / 2);
}

}  // namespace

Limit LimitOf(Resource resource, int64_t capacity) {
  Limit limit{.capacity = capacity, .reserve = ReserveOf(resource, capacity)};
  const int64_t shared = capacity - limit.reserve;
  switch (resource) {
    // They may be held for hours.
    case Resource::kTargets:
    case Resource::kCaptureMemory:
    case Resource::kRequestMemory:
    case Resource::kAnswerMemory:
      limit.floor = shared / kFloorShare;
      break;
    case Resource::kCaptureRequests:
      limit.per_principal = kCaptureRequestsPerMinuteOfOne;
      break;
    case Resource::kSchedules:  // They stay until they are deleted: no other's turn comes.
      limit.per_principal = std::max<int64_t>(1, capacity / 2);
      break;
    case Resource::kWaitingCalls:
      limit.per_principal = kWaitingCallsOfOne;
      break;
    case Resource::kAuditRows:
      limit.per_principal = kAuditRowsOfOne;
      break;
    case Resource::kRemoteConnections:
      limit.per_principal = kRemoteConnectionsOfOne;
      break;
    default:
      break;
  }
  if (limit.per_principal > 0) limit.per_account = std::max(limit.per_principal, shared / 2);
  return limit;
}

Limits Limits::ForMemory(int64_t memory_bytes) {
  const int64_t memory = std::max<int64_t>(memory_bytes, kMiB);
  Limits limits;
  limits.SetCapacity(Resource::kTargets, Fit(memory / 8, 64 * kKiB, 64, 1024));
  limits.SetCapacity(Resource::kCaptureMemory, CaptureMemoryFor(memory));
  limits.SetCapacity(Resource::kLiveCaptures, Fit(memory / 8, 3 * kMiB, 4, 80));
  limits.SetCapacity(Resource::kCaptureRequests, kCaptureRequestsPerMinute);
  limits.SetCapacity(Resource::kStoredBytes, kDefaultStorage);
  limits.SetCapacity(Resource::kSchedules, Fit(memory / 16, 128 * kKiB, 32, 256));
  limits.SetCapacity(Resource::kImports, Fit(memory / 8, 8 * kMiB, 2, 8));
  limits.SetCapacity(Resource::kWaitingCalls, Fit(memory / 4, 512 * kKiB, 64, 1024));
  limits.SetCapacity(Resource::kRequestMemory, std::clamp(memory / 16, 16 * kMiB, 128 * kMiB));
  limits.SetCapacity(Resource::kAnswerMemory, std::clamp(memory / 2, 64 * kMiB, 512 * kMiB));
  limits.SetCapacity(Resource::kReportMilliseconds, kReportMillisecondsPerWindow);
  limits.SetCapacity(Resource::kAuditRows, kAuditRows);
  limits.SetCapacity(Resource::kConnections, Fit(memory / 8, 64 * kKiB, 64, 1024));
  limits.SetCapacity(Resource::kRemoteConnections, kRemoteConnections);
  return limits;
}

}  // namespace profd::quota
