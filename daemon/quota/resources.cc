#include "daemon/quota/resources.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "daemon/base/str_cat.h"

namespace profd::quota {
namespace {

constexpr int64_t kKibibyte = 1 << 10;
constexpr int64_t kMebibyte = 1 << 20;
constexpr int64_t kGibibyte = 1 << 30;

std::string FormatBytes(int64_t bytes) {
  const auto in_units = [bytes](int64_t unit, std::string_view name) {
    if (bytes % unit == 0) return StrCat(bytes / unit, " ", name);
    return absl::StrFormat("%.1f %s", static_cast<double>(bytes) / static_cast<double>(unit),
                           std::string(name));
  };
  if (bytes >= kGibibyte) return in_units(kGibibyte, "GiB");
  if (bytes >= kMebibyte) return in_units(kMebibyte, "MiB");
  if (bytes >= kKibibyte) return in_units(kKibibyte, "KiB");
  return StrCat(bytes, " B");
}

}  // namespace

const std::array<ResourceInfo, kResourceCount>& AllResources() {
  static const auto& resources = *new std::array<ResourceInfo, kResourceCount>{{
      {Resource::kTargets, "targets", "targets", Unit::kCount, false, absl::ZeroDuration()},
      {Resource::kCaptureMemory, "capture-memory", "capture memory", Unit::kBytes, false,
       absl::ZeroDuration()},
      {Resource::kLiveCaptures, "live-captures", "live captures", Unit::kCount, false,
       absl::ZeroDuration()},
      {Resource::kCaptureRequests, "capture-requests", "capture requests per minute", Unit::kCount,
       false, absl::Minutes(1)},
      {Resource::kStoredBytes, "stored-bytes", "storage", Unit::kBytes, true, absl::ZeroDuration()},
      {Resource::kSchedules, "schedules", "schedules", Unit::kCount, true, absl::ZeroDuration()},
      {Resource::kImports, "imports", "imports in progress", Unit::kCount, false,
       absl::ZeroDuration()},
      {Resource::kWaitingCalls, "waiting-calls", "waiting calls", Unit::kCount, false,
       absl::ZeroDuration()},
      {Resource::kRequestMemory, "request-memory", "memory of requests", Unit::kBytes, false,
       absl::ZeroDuration()},
      {Resource::kAnswerMemory, "answer-memory", "memory of answers", Unit::kBytes, false,
       absl::ZeroDuration()},
      {Resource::kReportMilliseconds, "report-milliseconds", "report time per 10 minutes",
       Unit::kMilliseconds, false, absl::Minutes(10)},
      {Resource::kAuditRows, "audit-rows", "audit log rows", Unit::kCount, true,
       absl::ZeroDuration()},
      {Resource::kConnections, "connections", "local connections", Unit::kCount, false,
       absl::ZeroDuration()},
      {Resource::kRemoteConnections, "remote-connections", "remote connections", Unit::kCount,
       false, absl::ZeroDuration()},
  }};
  return resources;
}

const ResourceInfo& InfoOf(Resource resource) {
  return AllResources().at(static_cast<size_t>(resource));
}

std::optional<Resource> ResourceFromName(std::string_view name) {
  const auto it = std::ranges::find(AllResources(), name, &ResourceInfo::name);
  if (it == AllResources().end()) return std::nullopt;
  return it->resource;
}

std::string FormatAmount(Resource resource, int64_t amount) {
  switch (InfoOf(resource).unit) {
    case Unit::kBytes:
      return FormatBytes(amount);
    case Unit::kMilliseconds:
      return absl::StrFormat("%.1f s", static_cast<double>(amount) / 1e3);
    case Unit::kCount:
      break;
  }
  return StrCat(amount);
}

}  // namespace profd::quota
