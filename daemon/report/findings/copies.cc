#include "daemon/report/findings/copies.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "daemon/base/str_cat.h"
#include "daemon/report/index/waiting_calls.h"

namespace profd::report {
namespace {

// CUpti_ActivityMemcpyKind, CUpti_ActivityMemoryKind
constexpr uint8_t kUnknownCopy = 0;
constexpr uint8_t kHostToDevice = 1;
constexpr uint8_t kDeviceToHost = 2;
constexpr uint8_t kPeerToPeer = 10;
constexpr uint8_t kPageable = 1;
constexpr uint8_t kPinned = 2;

// What copies of pinned memory reach at least, where the link is not known: PCIe 3.
constexpr double kModestGbPerS = 12;
constexpr double kReachedShare = 0.8;  // Of the link, by large copies of pinned memory.

bool IsMemcpyCall(std::string_view name) { return name.find("Memcpy") != std::string_view::npos; }
bool IsAsync(std::string_view name) { return name.find("Async") != std::string_view::npos; }

}  // namespace

double LinkBandwidthOf(const GpuDevice* device) {
  if (device == nullptr) return 0;
  // PCIe of 16 lanes, by the generation of the data centre's GPUs: 3, 4, 5, 5.
  constexpr std::array<std::pair<int64_t, double>, 4> kByMajor = {
      {{7, 15.75}, {8, 31.5}, {9, 63}, {10, 63}}};
  for (const auto& [major, gb_per_s] : kByMajor) {
    if (device->compute_major == major && device->compute_minor == 0) return gb_per_s;
  }
  return 0;
}

CopyPass::CopyPass(FactSources& sources, const GpuDevice* device, CopyFacts& facts)
    : sources_(sources), facts_(facts) {
  facts_.link_gb_per_s = sources.thresholds.link_gb_per_s > 0 ? sources.thresholds.link_gb_per_s
                                                              : LinkBandwidthOf(device);
}

// A number of FactSources::Name(); 0: none.
uint32_t CopyPass::OpOf(const GpuAttribution::Call* call) const {
  return call == nullptr || call->path == RangePaths::kNone
             ? 0
             : sources_.first_ids[sources_.attribution.paths()[call->path].name];
}

void CopyPass::Add(const GpuBatch& batch, size_t i, const GpuAttribution::Call* call) {
  const auto kind = static_cast<GpuRowKind>(batch.kind[i]);
  facts_.memory_work_ns += batch.duration_ns[i];
  if (IsDecompression(kind)) {
    facts_.decompression_ns += batch.duration_ns[i];
    decompression_.Add(
        {.name = static_cast<uint32_t>(kind),
         .detail = OpOf(call),
         .duration_ns = batch.duration_ns[i],
         .bytes = static_cast<int64_t>(std::min<uint64_t>(batch.bytes[i], INT64_MAX)),
         .start_ns = batch.start_ns[i]});
  } else if (kind == GpuRowKind::kMemcpy) {
    AddCopy(batch, i, call);
  }
}

void CopyPass::AddCopy(const GpuBatch& batch, size_t i, const GpuAttribution::Call* call) {
  const uint8_t direction = batch.copy_kind[i];
  if (direction == kPeerToPeer) facts_.between_gpus_ns += batch.duration_ns[i];
  if (direction == kUnknownCopy) facts_.unknown_copy_ns += batch.duration_ns[i];
  if (direction != kHostToDevice && direction != kDeviceToHost) return;
  ++facts_.host_copy_count;
  (direction == kHostToDevice ? facts_.to_device_ns : facts_.to_host_ns) += batch.duration_ns[i];
  const auto bytes = static_cast<int64_t>(std::min<uint64_t>(batch.bytes[i], INT64_MAX));
  EvidenceSums::Item item = {
      .name = kinds_.Of(uint32_t{direction} << 16 | uint32_t{batch.source_kind[i]} << 8 |
                        batch.destination_kind[i]),
      .detail = OpOf(call),
      .duration_ns = batch.duration_ns[i],
      .bytes = bytes,
      .start_ns = batch.start_ns[i]};
  const uint8_t host_memory =
      direction == kHostToDevice ? batch.source_kind[i] : batch.destination_kind[i];
  const std::string_view api = call == nullptr ? std::string_view() : sources_.Name(call->name);
  const bool async = call == nullptr ? (batch.flags[i] & kGpuAsync) != 0 : IsAsync(api);
  if (static_cast<double>(bytes) >= sources_.thresholds.copy_smallest_bytes) {
    if (async && host_memory == kPageable) {
      if (direction == kDeviceToHost) facts_.pageable_to_host_ns += item.duration_ns;
      if (call != nullptr && WaitsFor(*call)) {
        facts_.pageable_waited_ns += item.duration_ns;
        if (call->path != RangePaths::kNone) facts_.pageable_waited_in_op_ns += item.duration_ns;
      }
      AddPageable(item, bytes);
    }
    if (call != nullptr && IsMemcpyCall(api) && !async &&
        sources_.launchers.IsProgramHeldUpBy(*call)) {
      item.duration_ns = call->end_ns - call->start_ns;
      item.start_ns = call->start_ns;
      facts_.blocking_ns += item.duration_ns;
      if (direction == kDeviceToHost) facts_.blocking_to_host_ns += item.duration_ns;
      if (host_memory == kPinned) facts_.blocking_pinned_ns += item.duration_ns;
      blocking_.Add(item);
    }
  }
  if (host_memory == kPinned &&
      static_cast<double>(bytes) >= sources_.thresholds.link_smallest_bytes) {
    item.duration_ns = batch.duration_ns[i];
    item.start_ns = batch.start_ns[i];
    AddPinned(item, bytes);
  }
}

// Whether the next call waits for the GPU, in the same operator if one is known: so does PyTorch
// unless a copy is non_blocking. Calls come by thread, by start.
bool CopyPass::WaitsFor(const GpuAttribution::Call& copy) const {
  const std::span<const GpuAttribution::Call> calls = sources_.attribution.calls();
  for (size_t i = static_cast<size_t>(&copy - calls.data()) + 1; i < calls.size(); ++i) {
    const GpuAttribution::Call& next = calls[i];
    if (next.thread != copy.thread) return false;
    if (next.start_ns < copy.end_ns) continue;  // The driver's, inside of the runtime's.
    return next.path == copy.path && next.range_start_ns == copy.range_start_ns &&
           WaitsForGpu(sources_.Name(next.name));
  }
  return false;
}

void CopyPass::AddPageable(const EvidenceSums::Item& item, int64_t bytes) {
  facts_.pageable_ns += item.duration_ns;
  const double gb_per_s =
      facts_.link_gb_per_s > 0 ? kReachedShare * facts_.link_gb_per_s : kModestGbPerS;
  const auto pinned_ns = static_cast<int64_t>(static_cast<double>(bytes) / gb_per_s);
  facts_.pageable_saving_ns += std::max<int64_t>(0, item.duration_ns - pinned_ns);
  pageable_.Add(item);
}

void CopyPass::AddPinned(const EvidenceSums::Item& item, int64_t bytes) {
  facts_.link_bytes += bytes;
  facts_.link_ns += item.duration_ns;
  const double gb_per_s =
      static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(item.duration_ns, 1));
  if (gb_per_s < sources_.thresholds.link_share * facts_.link_gb_per_s) slow_.Add(item);
}

void CopyPass::Finish() {
  const auto describe = [&](uint32_t kind, uint32_t op, Evidence& row) {
    const uint32_t key = kinds_.keys()[kind];
    row.name = CopyName(key >> 16, key >> 8 & 0xff, key & 0xff);
    if (op != 0) row.detail = StrCat("in ", sources_.Name(op));
  };
  facts_.pageable = pageable_.Take(EvidenceKind::kCopy, describe);
  facts_.blocking = blocking_.Take(EvidenceKind::kCopy, describe);
  facts_.slow = slow_.Take(EvidenceKind::kCopy, describe);
  facts_.decompression =
      decompression_.Take(EvidenceKind::kCopy, [&](uint32_t kind, uint32_t op, Evidence& row) {
        row.name = GpuKindOf(static_cast<GpuRowKind>(kind)).title;
        if (op != 0) row.detail = StrCat("in ", sources_.Name(op));
      });
}

}  // namespace profd::report
