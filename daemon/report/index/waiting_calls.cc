#include "daemon/report/index/waiting_calls.h"

#include <algorithm>
#include <array>
#include <span>

#include "daemon/base/status_macros.h"
#include "daemon/report/index/end_of.h"

namespace profd::report {
namespace {

// CUpti_ActivityMemcpyKind, CUpti_ActivityMemoryKind
constexpr uint8_t kToDevice = 1;
constexpr uint8_t kToHost = 2;
constexpr uint8_t kPinnedMemory = 2;
constexpr uint64_t kMostStagedBytes = 64 << 10;

// "cuda" or "hip" of the runtime, "cu" of the driver; empty: none of them.
std::string_view WithoutPrefix(std::string_view name) {
  for (const std::string_view prefix : {"cuda", "hip", "cu"}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return {};
}

// Whether `call`, in any of its versions ("_v2", "_ptsz"), is one of `calls`.
bool IsOneOf(std::span<const std::string_view> calls, std::string_view call) {
  return std::ranges::any_of(calls, [&](std::string_view known) {
    return call.starts_with(known) && (call.size() == known.size() || call[known.size()] == '_');
  });
}

bool MayBlock(const GpuBatch& batch, size_t i) {
  if (static_cast<GpuRowKind>(batch.kind[i]) != GpuRowKind::kMemcpy) return false;
  if (batch.copy_kind[i] == kToHost) return batch.destination_kind[i] != kPinnedMemory;
  return batch.copy_kind[i] == kToDevice && batch.source_kind[i] != kPinnedMemory &&
         batch.bytes[i] > kMostStagedBytes;
}

// Of the runtimes of other accelerators: Moore Threads, Meta, Huawei, Habana, and Intel.
bool WaitsForOtherDevice(std::string_view name) {
  constexpr std::array<std::string_view, 6> kRuntimes = {"musa",  "mu",  "mtia",
                                                         "aclrt", "syn", "ze"};
  constexpr std::array<std::string_view, 4> kWaits = {"urEventWait", "urQueueFinish",
                                                      "piEventsWait", "piQueueFinish"};
  const bool is_known = std::ranges::any_of(
      kRuntimes, [&](std::string_view prefix) { return name.starts_with(prefix); });
  return (is_known && name.find("Synchronize") != std::string_view::npos) ||
         std::ranges::find(kWaits, name) != kWaits.end();
}

}  // namespace

bool IsAllocatorCall(std::string_view name) {
  constexpr std::array<std::string_view, 17> kCalls = {
      "Malloc",        "MallocPitch",       "MallocManaged",
      "Malloc3D",      "MallocHost",        "HostMalloc",
      "HostAlloc",     "HostFree",          "Free",
      "FreeHost",      "MemAlloc",          "MemFree",
      "MemAllocPitch", "MemAllocManaged",   "MemAllocHost",
      "MemFreeHost",   "ExtMallocWithFlags"};
  return IsOneOf(kCalls, WithoutPrefix(name));
}

bool IsAllocationCall(std::string_view name) {
  // They map and page-lock memory, or take it from pools.
  constexpr std::array<std::string_view, 18> kCalls = {
      "MemCreate",           "MemRelease",        "MemMap",         "MemUnmap",
      "MemSetAccess",        "MemAddressReserve", "MemAddressFree", "MallocAsync",
      "MallocFromPoolAsync", "FreeAsync",         "MemAllocAsync",  "MemAllocFromPoolAsync",
      "MemFreeAsync",        "MemPoolTrimTo",     "HostRegister",   "HostUnregister",
      "MemHostRegister",     "MemHostUnregister",
  };
  return IsAllocatorCall(name) || IsOneOf(kCalls, WithoutPrefix(name));
}

bool StopsGpu(std::string_view name) {
  constexpr std::array<std::string_view, 7> kCalls = {
      "Free",        "FreeHost",       "HostFree",         "MemFree",
      "MemFreeHost", "HostUnregister", "MemHostUnregister"};
  return IsOneOf(kCalls, WithoutPrefix(name));
}

bool IsSyncCall(std::string_view name) {
  if (WaitsForOtherDevice(name)) return true;
  const std::string_view call = WithoutPrefix(name);
  if (call.empty()) return false;
  if (call.find("Synchronize") != std::string_view::npos) return true;
  // Copies that return when they are done: cudaMemcpy, cudaMemcpy2D, cuMemcpyDtoH_v2.
  if (call.starts_with("Memcpy") && call.find("Async") == std::string_view::npos) return true;
  return IsAllocatorCall(name);
}

bool WaitsForGpu(std::string_view name) { return IsSyncCall(name) && !IsAllocatorCall(name); }

absl::StatusOr<std::vector<bool>> FindBlockingCopies(store::CaptureReader& reader,
                                                     const GpuAttribution& attribution) {
  std::vector<bool> blocking(attribution.calls().size());
  if (blocking.empty()) return blocking;
  constexpr uint32_t kColumns = kGpuTime | kGpuWhat | kGpuCause | kGpuCopy;
  RETURN_IF_ERROR(reader.ForEach<GpuRow>(kColumns, {}, [&](const GpuBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      if (!MayBlock(batch, i)) continue;
      const GpuAttribution::Call* call = attribution.Find(batch.correlation[i]);
      // A graph's launch has copies, too, and waits for none of them.
      if (call == nullptr || reader.names()[call->name].find("Memcpy") == std::string::npos) {
        continue;
      }
      const bool waited = batch.start_ns[i] >= call->start_ns &&
                          EndOf(batch.start_ns[i], batch.duration_ns[i]) <= call->end_ns;
      if (waited) blocking[static_cast<size_t>(call - attribution.calls().data())] = true;
    }
    return absl::OkStatus();
  }));
  return blocking;
}

}  // namespace profd::report
