#include "daemon/ingest/target_registry.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"
#include "daemon/ingest/workload.h"
#include "proto/wire/capture_memory.h"

namespace profd {
namespace {

absl::StatusOr<uint64_t> RoundedBytes(int64_t asked) {
  if (asked <= 0 || static_cast<uint64_t>(asked) > wire::kMaxCaptureMemoryBytes) {
    return absl::InvalidArgumentError(StrCat("memory_bytes is ", asked, "; it must be from ",
                                             wire::kMinCaptureMemoryBytes, " to ",
                                             wire::kMaxCaptureMemoryBytes));
  }
  const uint64_t chunks =
      (static_cast<uint64_t>(asked) + wire::kChunkBytes - 1) / wire::kChunkBytes;
  return std::max(chunks * wire::kChunkBytes, wire::kMinCaptureMemoryBytes);
}

// The job, pod, and containers of profd itself. A process in the same one is not set apart by it.
struct OwnPlace {
  Workload workload;
  std::string root_container;
};
const OwnPlace& Own() {
  static const OwnPlace own = [] {
    std::ifstream file("/proc/self/cgroup");
    const std::string cgroup((std::istreambuf_iterator<char>(file)), {});
    const CgroupFolders folders;
    return OwnPlace{.workload = WorkloadOf(cgroup, &folders),
                    .root_container = RootContainerOf(cgroup, &folders)};
  }();
  return own;
}

std::string_view UnlessOwn(std::string_view text, std::string_view own) {
  return text == own ? std::string_view() : text;
}

}  // namespace

TargetRegistry::MemoryUse TargetRegistry::memory_use() const {
  return {.reserved_bytes = ledger_.TotalUse(quota::Resource::kCaptureMemory),
          .cap_bytes = ledger_.limit(quota::Resource::kCaptureMemory).capacity};
}

TickClock& TargetRegistry::ClockOf(wire::ClockKind kind) {
  absl::MutexLock lock(&mu_);
  std::unique_ptr<TickClock>& clock = clocks_[kind];
  if (clock == nullptr) clock = std::make_unique<TickClock>(kind);
  return *clock;
}

absl::StatusOr<quota::Reservation> TargetRegistry::ReservePlace(const TargetInfo& info,
                                                                std::string_view root_container) {
  const Workload& own = Own().workload;
  const std::string& container = info.workload.container_id;
  const quota::Principal owner =
      quota::LocalPrincipal(info.uid, geteuid(),
                            {.job = UnlessOwn(info.workload.slurm_job, own.slurm_job),
                             .pod = UnlessOwn(info.workload.pod_uid, own.pod_uid),
                             .container = UnlessOwn(root_container, Own().root_container),
                             .in_container = !UnlessOwn(container, own.container_id).empty()});
  return ledger_.Reserve(owner, quota::Resource::kTargets, 1);
}

TargetNumber TargetRegistry::Add(TargetInfo info, TickClock& clock, StatusPageView page,
                                 quota::Reservation place) {
  absl::MutexLock lock(&mu_);
  const TargetNumber number = ++last_number_;
  info.number = number;
  targets_.emplace(number, Target{.info = std::move(info),
                                  .clock = &clock,
                                  .page = std::move(page),
                                  .place = std::move(place),
                                  .live_capture = {}});
  return number;
}

void TargetRegistry::Remove(TargetNumber target) {
  absl::MutexLock lock(&mu_);
  const auto it = targets_.find(target);
  if (it == targets_.end()) return;
  // The process is gone, and with it the mapping for which the memory stayed counted.
  if (it->second.holds_memory) memory_.erase(target);
  targets_.erase(it);
}

bool TargetRegistry::MergeMetadata(TargetNumber target,
                                   const std::map<std::string, std::string>& metadata) {
  absl::MutexLock lock(&mu_);
  const auto it = targets_.find(target);
  if (it == targets_.end()) return false;
  std::map<std::string, std::string>& merged = it->second.info.metadata;
  for (const auto& [key, value] : metadata) {
    if (merged.contains(key) || merged.size() < wire::kMaxMetadataFields) merged[key] = value;
  }
  // Once said, it holds for as long as the process lives.
  const bool asks_now = !it->second.info.opted_out && AsksNotToBeCaptured(metadata);
  it->second.info.opted_out = it->second.info.opted_out || asks_now;
  return asks_now;
}

int64_t TargetRegistry::size() const {
  absl::MutexLock lock(&mu_);
  return static_cast<int64_t>(targets_.size());
}

TargetInfo TargetRegistry::InfoOf(const Target& target) {
  TargetInfo info = target.info;
  info.state = target.live_capture.empty() ? TargetState::kRunning : TargetState::kCapturing;
  target.page.Read(target.clock->NsPerTick(), info);
  return info;
}

std::vector<TargetInfo> TargetRegistry::List() const {
  absl::MutexLock lock(&mu_);
  std::vector<TargetInfo> list;
  list.reserve(targets_.size());
  for (const auto& [number, target] : targets_) list.push_back(InfoOf(target));
  return list;
}

std::optional<TargetInfo> TargetRegistry::Find(TargetNumber target) const {
  absl::MutexLock lock(&mu_);
  const auto it = targets_.find(target);
  if (it == targets_.end()) return std::nullopt;
  return InfoOf(it->second);
}

int64_t TargetRegistry::MedianStepNs(TargetNumber target, int64_t first_step,
                                     int64_t end_step) const {
  absl::MutexLock lock(&mu_);
  const auto it = targets_.find(target);
  if (it == targets_.end()) return 0;
  return it->second.page.MedianStepNs(it->second.clock->NsPerTick(), first_step, end_step);
}

RecentSteps TargetRegistry::GetRecentSteps(TargetNumber target) const {
  absl::MutexLock lock(&mu_);
  const auto it = targets_.find(target);
  if (it == targets_.end()) return {};
  return it->second.page.GetRecentSteps(it->second.clock->NsPerTick());
}

absl::StatusOr<TargetRegistry::Reservation> TargetRegistry::Reserve(TargetNumber target,
                                                                    const ArmRequest& request) {
  absl::StatusOr<uint64_t> bytes = RoundedBytes(request.memory_bytes);
  if (!bytes.ok()) return bytes.status();
  absl::MutexLock lock(&mu_);
  const auto it = targets_.find(target);
  if (it == targets_.end()) {
    return WithReason(absl::NotFoundError(StrCat("target ", target, " is gone")), "NO_SUCH_TARGET");
  }
  Target& found = it->second;
  if (!found.live_capture.empty()) {
    return WithReason(
        absl::FailedPreconditionError(StrCat("process ", found.info.pid, " has a live capture, ",
                                             found.live_capture, "; wait for it or cancel it")),
        "TARGET_BUSY");
  }
  if (found.holds_memory) {
    return WithReason(
        absl::FailedPreconditionError(StrCat("process ", found.info.pid,
                                             " has not answered the end of its last capture; is "
                                             "it stopped (SIGSTOP)? Retry when it runs again")),
        "TARGET_BUSY");
  }
  constexpr auto kMemory = quota::Resource::kCaptureMemory;
  if (request.allow_less_memory) {
    const auto left = static_cast<uint64_t>(ledger_.Available(request.holder, kMemory));
    const uint64_t shrunk = left / wire::kChunkBytes * wire::kChunkBytes;
    if (shrunk >= wire::kMinCaptureMemoryBytes) *bytes = std::min(*bytes, shrunk);
  }
  absl::StatusOr<quota::Reservation> memory =
      ledger_.Reserve(request.holder, kMemory, static_cast<int64_t>(*bytes));
  if (!memory.ok()) return WithReason(memory.status(), "MEMORY_CAP");
  memory_[target] = *std::move(memory);
  found.live_capture = request.capture_id;
  return Reservation{.memory_bytes = *bytes, .clock = found.clock};
}

void TargetRegistry::EndCapture(TargetNumber target, bool held) {
  absl::MutexLock lock(&mu_);
  const auto it = targets_.find(target);
  const bool keeps = held && it != targets_.end();
  if (!keeps) memory_.erase(target);
  if (it == targets_.end()) return;
  it->second.live_capture.clear();
  it->second.holds_memory = keeps;
}

void TargetRegistry::LetGo(TargetNumber target) {
  absl::MutexLock lock(&mu_);
  const auto it = targets_.find(target);
  if (it == targets_.end() || !std::exchange(it->second.holds_memory, false)) return;
  memory_.erase(target);
}

}  // namespace profd
