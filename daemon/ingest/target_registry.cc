#include "daemon/ingest/target_registry.h"

#include <algorithm>
#include <utility>

#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"
#include "daemon/ingest/workload.h"
#include "proto/wire/capture_memory.h"

namespace profd {
namespace {

constexpr int64_t kMiB = 1 << 20;

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

}  // namespace

void TargetRegistry::SetMemoryCap(int64_t bytes) {
  absl::MutexLock lock(&mu_);
  memory_cap_bytes_ = bytes;
}

TargetRegistry::MemoryUse TargetRegistry::memory_use() const {
  absl::MutexLock lock(&mu_);
  return {.reserved_bytes = static_cast<int64_t>(reserved_bytes_), .cap_bytes = memory_cap_bytes_};
}

TickClock& TargetRegistry::ClockOf(wire::ClockKind kind) {
  absl::MutexLock lock(&mu_);
  std::unique_ptr<TickClock>& clock = clocks_[kind];
  if (clock == nullptr) clock = std::make_unique<TickClock>(kind);
  return *clock;
}

TargetNumber TargetRegistry::Add(TargetInfo info, TickClock& clock, StatusPageView page) {
  absl::MutexLock lock(&mu_);
  const TargetNumber number = ++last_number_;
  info.number = number;
  targets_.emplace(number, Target{.info = std::move(info),
                                  .clock = &clock,
                                  .page = std::move(page),
                                  .live_capture = {},
                                  .held_bytes = 0});
  return number;
}

void TargetRegistry::Remove(TargetNumber target) {
  absl::MutexLock lock(&mu_);
  const auto it = targets_.find(target);
  if (it == targets_.end()) return;
  reserved_bytes_ -= it->second.held_bytes;
  targets_.erase(it);
}

void TargetRegistry::MergeMetadata(TargetNumber target,
                                   const std::map<std::string, std::string>& metadata) {
  absl::MutexLock lock(&mu_);
  const auto it = targets_.find(target);
  if (it == targets_.end()) return;
  std::map<std::string, std::string>& merged = it->second.info.metadata;
  for (const auto& [key, value] : metadata) {
    if (merged.contains(key) || merged.size() < wire::kMaxMetadataFields) merged[key] = value;
  }
  // Once said, it holds for as long as the process lives.
  it->second.info.opted_out = it->second.info.opted_out || AsksNotToBeCaptured(metadata);
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
  if (found.held_bytes != 0) {
    return WithReason(
        absl::FailedPreconditionError(StrCat("process ", found.info.pid,
                                             " has not answered the end of its last capture; is "
                                             "it stopped (SIGSTOP)? Retry when it runs again")),
        "TARGET_BUSY");
  }
  const auto cap = static_cast<uint64_t>(std::max<int64_t>(0, memory_cap_bytes_));
  const uint64_t left = cap > reserved_bytes_ ? cap - reserved_bytes_ : 0;
  if (*bytes > left) {
    const uint64_t shrunk = left / wire::kChunkBytes * wire::kChunkBytes;
    if (!request.allow_less_memory || shrunk < wire::kMinCaptureMemoryBytes) {
      return WithReason(
          absl::ResourceExhaustedError(StrCat(
              "the capture asks for ", *bytes / kMiB, " MiB of capture memory and ", left / kMiB,
              " of this node's ", cap / kMiB, " MiB are left; retry later, or ask for less")),
          "MEMORY_CAP");
    }
    *bytes = shrunk;
  }
  reserved_bytes_ += *bytes;
  found.live_capture = request.capture_id;
  return Reservation{.memory_bytes = *bytes, .clock = found.clock};
}

void TargetRegistry::EndCapture(TargetNumber target, uint64_t memory_bytes, bool held) {
  absl::MutexLock lock(&mu_);
  const auto it = targets_.find(target);
  const bool keeps = held && it != targets_.end();
  if (!keeps) reserved_bytes_ -= memory_bytes;
  if (it == targets_.end()) return;
  it->second.live_capture.clear();
  if (keeps) it->second.held_bytes = memory_bytes;
}

void TargetRegistry::LetGo(TargetNumber target) {
  absl::MutexLock lock(&mu_);
  const auto it = targets_.find(target);
  if (it == targets_.end()) return;
  reserved_bytes_ -= std::exchange(it->second.held_bytes, 0);
}

}  // namespace profd
