#include "daemon/ingest/decode/gpu_inventory.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "absl/strings/str_format.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/ingest/decode/untrusted_values.h"

namespace profd {
namespace {

constexpr size_t kMaxDeviceNameBytes = 128;
constexpr uint32_t kCuptiUnknownError = 999;

// As cupti_activity.h of CUDA 13.3 has them, by number.
constexpr auto kKindNames = std::to_array<std::string_view>({
    "invalid",
    "memcpy",
    "memset",
    "kernel",
    "driver",
    "runtime",
    "event",
    "metric",
    "device",
    "context",
    "concurrent_kernel",
    "name",
    "marker",
    "marker_data",
    "source_locator",
    "global_access",
    "branch",
    "overhead",
    "cdp_kernel",
    "preemption",
    "environment",
    "event_instance",
    "memcpy2",
    "metric_instance",
    "instruction_execution",
    "unified_memory_counter",
    "function",
    "module",
    "device_attribute",
    "shared_access",
    "pc_sampling",
    "pc_sampling_record_info",
    "instruction_correlation",
    "openacc_data",
    "openacc_launch",
    "openacc_other",
    "cuda_event",
    "stream",
    "synchronization",
    "external_correlation",
    "nvlink",
    "instantaneous_event",
    "instantaneous_event_instance",
    "instantaneous_metric",
    "instantaneous_metric_instance",
    "memory",
    "pcie",
    "openmp",
    "internal_launch_api",
    "memory2",
    "memory_pool",
    "graph_trace",
    "jit",
    "device_graph_trace",
    "mem_decompress",
    "confidential_compute_rotation",
    "graph_host_node",
    "compute_engine_ctx_switch",
    "host_launch",
});
// As cupti_result.h of CUDA 13.0 has them, by number.
constexpr auto kResultNames = std::to_array<std::string_view>({
    "CUPTI_SUCCESS",
    "CUPTI_ERROR_INVALID_PARAMETER",
    "CUPTI_ERROR_INVALID_DEVICE",
    "CUPTI_ERROR_INVALID_CONTEXT",
    "CUPTI_ERROR_INVALID_EVENT_DOMAIN_ID",
    "CUPTI_ERROR_INVALID_EVENT_ID",
    "CUPTI_ERROR_INVALID_EVENT_NAME",
    "CUPTI_ERROR_INVALID_OPERATION",
    "CUPTI_ERROR_OUT_OF_MEMORY",
    "CUPTI_ERROR_HARDWARE",
    "CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT",
    "CUPTI_ERROR_API_NOT_IMPLEMENTED",
    "CUPTI_ERROR_MAX_LIMIT_REACHED",
    "CUPTI_ERROR_NOT_READY",
    "CUPTI_ERROR_NOT_COMPATIBLE",
    "CUPTI_ERROR_NOT_INITIALIZED",
    "CUPTI_ERROR_INVALID_METRIC_ID",
    "CUPTI_ERROR_INVALID_METRIC_NAME",
    "CUPTI_ERROR_QUEUE_EMPTY",
    "CUPTI_ERROR_INVALID_HANDLE",
    "CUPTI_ERROR_INVALID_STREAM",
    "CUPTI_ERROR_INVALID_KIND",
    "CUPTI_ERROR_INVALID_EVENT_VALUE",
    "CUPTI_ERROR_DISABLED",
    "CUPTI_ERROR_INVALID_MODULE",
    "CUPTI_ERROR_INVALID_METRIC_VALUE",
    "CUPTI_ERROR_HARDWARE_BUSY",
    "CUPTI_ERROR_NOT_SUPPORTED",
    "CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED",
    "CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE",
    "CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_NON_P2P_DEVICES",
    "CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_WITH_MPS",
    "CUPTI_ERROR_CDP_TRACING_NOT_SUPPORTED",
    "CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED",
    "CUPTI_ERROR_CUDA_COMPILER_NOT_COMPATIBLE",
    "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES",
    "CUPTI_ERROR_OLD_PROFILER_API_INITIALIZED",
    "CUPTI_ERROR_OPENACC_UNDEFINED_ROUTINE",
    "CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED",
    "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
    "CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES",
    "CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED",
    "CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED",
    "CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED",
    "CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED",
    "CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED",
    "CUPTI_ERROR_INVALID_CHIP_NAME",
});

int64_t Saturate(uint64_t count) {
  return static_cast<int64_t>(std::min(count, kMaxUntrustedCount));
}

// "GPU-" and the bytes as UUIDs are written; empty if all are 0.
std::string UuidText(const uint8_t (&uuid)[16]) {
  if (std::all_of(std::begin(uuid), std::end(uuid), [](uint8_t byte) { return byte == 0; })) {
    return "";
  }
  std::string text = "GPU-";
  for (size_t i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    absl::StrAppendFormat(&text, "%02x", uuid[i]);
  }
  return text;
}

// One sentence is shown. What ended the recording comes before the loss of single records.
std::string ProblemOf(const wire::GpuStatusEvent& status) {
  if ((status.flags & wire::kGpuStatusStolen) != 0) {
    return "another profiler took CUPTI, and the capture ended there; run one profiler at a time";
  }
  if ((status.flags & wire::kGpuStatusAbandoned) != 0) {
    return "CUPTI did not answer any more and was given up; what it still held is missing, and "
           "the process cannot record its GPU again until it is restarted";
  }
  if ((status.flags & wire::kGpuStatusFatal) != 0) {
    return "CUPTI met a fatal error while recording: what came after that is missing; restart "
           "the process before its GPU is recorded again";
  }
  if ((status.flags & wire::kGpuStatusExited) != 0) {
    return "the process exited while its GPU was recorded: GPU work that had not ended by then is "
           "missing";
  }
  if ((status.flags & wire::kGpuStatusEndedByCap) != 0) {
    return "recording the GPU stopped at its cap, before the window ended; capture fewer steps, "
           "or raise the cap on GPU records";
  }
  if (status.counts[wire::kGpuStillRunning] != 0) {
    return StrCat(
        status.counts[wire::kGpuStillRunning],
        " GPU activities that the window launched had not begun 7 s after it, and are "
        "missing: the program runs that far ahead of its GPU; capture more steps, so that "
        "they are a smaller share");
  }
  return "";
}

}  // namespace

std::string CuptiKindName(uint32_t kind) {
  return kind < kKindNames.size() ? std::string(kKindNames[kind]) : StrCat("kind ", kind);
}

std::string CuptiResultName(uint32_t result) {
  if (result == wire::kGpuKindGivesNoRecords) return "gives no records";
  if (result == kCuptiUnknownError) return StrCat("CUPTI_ERROR_UNKNOWN (", result, ")");
  if (result >= kResultNames.size()) return StrCat("CUPTI error ", result);
  return StrCat(kResultNames[result], " (", result, ")");
}

void GpuInventory::AddDevice(const wire::DeviceEvent& untrusted, std::string_view untrusted_name) {
  // A device that is already known takes no more room, and its newest description holds.
  if (devices_.size() >= kMaxDevices && !devices_.contains(untrusted.device)) return;
  devices_[untrusted.device] = {
      .number = untrusted.device,
      .name = ForDisplay(untrusted_name, kMaxDeviceNameBytes),
      .uuid = UuidText(untrusted.uuid),
      .memory_bytes = Saturate(untrusted.memory_bytes),
      .compute_major = untrusted.compute_major,
      .compute_minor = untrusted.compute_minor,
      .sm_count = untrusted.sm_count,
      .warp_threads = untrusted.warp_threads,
      .max_threads_per_block = untrusted.max_threads_per_block,
      .max_threads_per_sm = untrusted.max_threads_per_sm,
      .max_blocks_per_sm = untrusted.max_blocks_per_sm,
      .registers_per_block = untrusted.registers_per_block,
      .registers_per_sm = untrusted.registers_per_sm,
      .shared_bytes_per_block = untrusted.shared_bytes_per_block,
      .shared_bytes_per_sm = untrusted.shared_bytes_per_sm,
      .shared_bytes_per_block_optin = untrusted.shared_bytes_per_block_optin};
}

void GpuInventory::AddContext(uint32_t context, uint32_t device) {
  if (contexts_.size() >= kMaxContexts && !contexts_.contains(context)) return;
  contexts_[context] = static_cast<uint16_t>(device);
}

void GpuInventory::AddStream(const wire::StreamEvent& untrusted) {
  const std::pair key(untrusted.context, untrusted.stream);
  if (streams_.size() >= kMaxStreams && !streams_.contains(key)) return;
  // The device is looked up in Describe(): a stream may be announced before its context.
  streams_[key] = {.context = untrusted.context,
                   .stream = untrusted.stream,
                   .device = -1,
                   .priority = untrusted.priority,
                   .flags = untrusted.flags};
}

std::optional<uint16_t> GpuInventory::DeviceOf(uint32_t context) const {
  const auto found = contexts_.find(context);
  if (found == contexts_.end()) return std::nullopt;
  return found->second;
}

int64_t GpuInventory::Count(wire::GpuCount which) const {
  return status_.has_value() ? Saturate(status_->counts[which]) : 0;
}

void GpuInventory::Describe(GpuMode mode, GpuRecord& record) const {
  record.mode = mode;
  for (const auto& [number, device] : devices_) record.devices.push_back(device);
  for (const auto& [key, stream] : streams_) {
    record.streams.push_back(stream);
    if (const auto device = DeviceOf(key.first)) record.streams.back().device = *device;
  }
  if (!status_.has_value()) {
    record.outcome = GpuOutcome::kUnknown;
    record.problem = "the process never said how recording its GPU went";
    return;
  }
  const wire::GpuStatusEvent& status = *status_;
  constexpr uint32_t kLost =
      wire::kGpuStatusStolen | wire::kGpuStatusAbandoned | wire::kGpuStatusFatal;
  record.outcome = GpuOutcome::kRecorded;
  if ((status.flags & kLost) != 0) {
    record.outcome = GpuOutcome::kBroken;
  } else if ((status.flags & wire::kGpuStatusNoCuda) != 0) {
    record.outcome = GpuOutcome::kNoCuda;
    // As if no GPU had been asked for: the process does not use CUDA.
    record.mode = GpuMode::kOff;
  }
  record.problem = ProblemOf(status);
  record.cupti_taken = (status.flags & wire::kGpuStatusStolen) != 0;
  record.cupti_stays = (status.flags & wire::kGpuStatusStays) != 0;
  record.simulated = (status.flags & wire::kGpuStatusSimulated) != 0;
  record.cupti_version = status.cupti_version;
  record.driver_version = status.driver_version;
  record.arm_ns = int64_t{status.arm_ms} * 1'000'000;
  record.clock_error_ns = Saturate(status.clock_error_ns);
  record.clock_step_count = status.clock_step_count;
  record.peak_pool_bytes = Saturate(status.peak_pool_bytes);
  const size_t failures =
      std::min<size_t>(status.kind_result_count, std::size(status.kind_results));
  for (size_t i = 0; i < failures; ++i) {
    const wire::GpuKindResult& failure = status.kind_results[i];
    record.kind_failures.push_back(
        {.kind = CuptiKindName(failure.kind), .result = CuptiResultName(failure.result)});
  }
  record.record_count = Count(wire::kGpuRecords);
  record.stale_count = Count(wire::kGpuStale);
  // The library filters some records itself; the decoder has set the counts of its own.
  record.before_window_count += Count(wire::kGpuBeforeWindow);
  record.after_window_count += Count(wire::kGpuLaterLaunch);
  record.filtered_api_count = Count(wire::kGpuFilteredApi);
}

void GpuInventory::AddDrops(DropCounts& drops) const {
  const auto add = [&](DropReason reason, wire::GpuCount which) {
    drops[static_cast<size_t>(reason)] += Count(which);
  };
  add(DropReason::kUnknownKind, wire::kGpuUnknownKind);
  add(DropReason::kCuptiDropped, wire::kGpuDroppedByCupti);
  add(DropReason::kGpuNoBuffer, wire::kGpuNoBuffer);
  add(DropReason::kGpuLate, wire::kGpuLate);
  add(DropReason::kGpuUntimed, wire::kGpuUntimed);
  add(DropReason::kGpuCorrupt, wire::kGpuCorrupt);
  add(DropReason::kGpuRecordCap, wire::kGpuOverCap);
  add(DropReason::kGpuLostBuffer, wire::kGpuLostBuffers);
  add(DropReason::kGpuStillRunning, wire::kGpuStillRunning);
}

}  // namespace profd
