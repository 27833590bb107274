#include "daemon/import/nsys/description.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/capture/event_kinds.h"

namespace profd::importer {
namespace {

using Row = store::ForeignDatabase::Row;

constexpr size_t kMaxProcessName = 255;
constexpr size_t kMaxGpuName = 255;
constexpr size_t kMaxVersion = 64;
constexpr size_t kMaxGpus = 1024;

// 0 where it is unknown or negative.
int64_t SizeOf(const Row& row, size_t column) {
  return std::max<int64_t>(row.Int(column).value_or(0), 0);
}

// The GPUs of the file by their id there.
absl::StatusOr<std::map<int64_t, GpuDevice>> GpusOf(NsysSource& source) {
  constexpr std::array<std::string_view, 14> kColumns = {"id",
                                                         "name",
                                                         "totalMemory",
                                                         "computeMajor",
                                                         "computeMinor",
                                                         "smCount",
                                                         "threadsPerWarp",
                                                         "maxThreadsPerBlock",
                                                         "maxWarpsPerSm",
                                                         "maxBlocksPerSm",
                                                         "maxRegistersPerBlock",
                                                         "maxRegistersPerSm",
                                                         "maxShmemPerBlock",
                                                         "maxShmemPerSm"};
  constexpr std::array<std::string_view, 3> kMoreColumns = {"id", "maxShmemPerBlockOptin",
                                                            "cuDevice"};
  std::map<int64_t, GpuDevice> gpus;
  RETURN_IF_ERROR(source.database().ForEach("TARGET_INFO_GPU", kColumns, [&](const Row& row) {
    const std::optional<int64_t> id = row.Int(0);
    if (!id.has_value() || gpus.size() >= kMaxGpus) return absl::OkStatus();
    GpuDevice gpu;
    gpu.number = *id;
    gpu.name = ForDisplay(row.Text(1).value_or(""), kMaxGpuName);
    gpu.memory_bytes = SizeOf(row, 2);
    gpu.compute_major = SizeOf(row, 3);
    gpu.compute_minor = SizeOf(row, 4);
    gpu.sm_count = SizeOf(row, 5);
    gpu.warp_threads = SizeOf(row, 6);
    gpu.max_threads_per_block = SizeOf(row, 7);
    if (__builtin_mul_overflow(SizeOf(row, 8), gpu.warp_threads, &gpu.max_threads_per_sm)) {
      gpu.max_threads_per_sm = 0;
    }
    gpu.max_blocks_per_sm = SizeOf(row, 9);
    gpu.registers_per_block = SizeOf(row, 10);
    gpu.registers_per_sm = SizeOf(row, 11);
    gpu.shared_bytes_per_block = SizeOf(row, 12);
    gpu.shared_bytes_per_sm = SizeOf(row, 13);
    gpus.insert_or_assign(*id, std::move(gpu));
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(source.database().ForEach("TARGET_INFO_GPU", kMoreColumns, [&](const Row& row) {
    const auto gpu = gpus.find(row.Int(0).value_or(-1));
    if (gpu == gpus.end()) return absl::OkStatus();
    gpu->second.shared_bytes_per_block_optin = SizeOf(row, 1);
    gpu->second.number = row.Int(2).value_or(gpu->second.number);
    return absl::OkStatus();
  }));
  return gpus;
}

// Its numbers of GPUs are the process's own: CUDA_VISIBLE_DEVICES changes them.
absl::StatusOr<std::vector<GpuDevice>> DevicesOf(NsysSource& source, ProcessKey process) {
  constexpr std::array<std::string_view, 3> kColumns = {"gpuId", "cudaId", "pid"};
  ASSIGN_OR_RETURN(const auto gpus, GpusOf(source));
  std::map<int64_t, GpuDevice> devices;  // By number.
  if (!source.database().tables().contains("TARGET_INFO_CUDA_DEVICE")) {
    for (const auto& [id, gpu] : gpus) devices.emplace(gpu.number, gpu);
  }
  RETURN_IF_ERROR(
      source.database().ForEach("TARGET_INFO_CUDA_DEVICE", kColumns, [&](const Row& row) {
        const auto gpu = gpus.find(row.Int(0).value_or(-1));
        const std::optional<int64_t> number = row.Int(1);
        if (gpu == gpus.end() || !number.has_value() || row.Int(2) != PidOf(process)) {
          return absl::OkStatus();
        }
        GpuDevice device = gpu->second;
        device.number = *number;
        devices.insert_or_assign(*number, std::move(device));
        return absl::OkStatus();
      }));
  std::vector<GpuDevice> list;
  for (auto& [number, device] : devices) {
    if (number >= 0 && number < kNoGpuDevice && list.size() < kMaxGpus) {
      list.push_back(std::move(device));
    }
  }
  return list;
}

// "/usr/bin/python3" is "python3": paths name users.
std::string WithoutFolder(std::string_view name) {
  const size_t slash = name.find_last_of("/\\");
  if (slash != std::string_view::npos) name.remove_prefix(slash + 1);
  return ForDisplay(name, kMaxProcessName);
}

}  // namespace

absl::StatusOr<int64_t> BaseUnixNs(NsysSource& source) {
  ASSIGN_OR_RETURN(const std::string normalized, source.ExportNote("EXPORT_PARAM_TIME_NORMALIZE"));
  // `--ts-normalize`: times are Unix times.
  if (normalized == "true") return 0;
  // Newer releases count from another moment, and say where the start is.
  constexpr std::array<std::string_view, 2> kColumns = {"utcEpochNs", "systemClockNs"};
  int64_t base_ns = 0;
  RETURN_IF_ERROR(
      source.database().ForEach("TARGET_INFO_SESSION_START_TIME", kColumns, [&](const Row& row) {
        const int64_t start_ns = row.Int(0).value_or(0);
        if (__builtin_sub_overflow(start_ns, row.Int(1).value_or(0), &base_ns)) base_ns = 0;
        return absl::OkStatus();
      }));
  return base_ns;
}

absl::Status DescribeProcess(NsysSource& source, ProcessKey process, CaptureRecord& record) {
  constexpr std::array<std::string_view, 2> kColumns = {"globalPid", "name"};
  record.target.pid = PidOf(process);
  RETURN_IF_ERROR(source.database().ForEach("PROCESSES", kColumns, [&](const Row& row) {
    const std::optional<int64_t> id = row.Int(0);
    if (id.has_value() && ProcessOf(*id) == process) {
      record.target.command = WithoutFolder(row.Text(1).value_or(""));
    }
    return absl::OkStatus();
  }));
  ASSIGN_OR_RETURN(record.gpu.devices, DevicesOf(source, process));
  ASSIGN_OR_RETURN(const std::string version, source.ExportNote("EXPORT_PRODUCT_VERSION"));
  record.imported.producer = "Nsight Systems";
  if (!version.empty()) StrAppend(&record.imported.producer, " ", ForDisplay(version, kMaxVersion));
  return absl::OkStatus();
}

absl::Status DescribeStreams(NsysSource& source, ProcessKey process,
                             std::vector<GpuStream>& streams) {
  constexpr std::array<std::string_view, 5> kColumns = {"processId", "contextId", "streamId",
                                                        "priority", "flag"};
  constexpr int64_t kMostFlag = 3;
  std::map<std::pair<int64_t, int64_t>, std::vector<GpuStream*>> by_id;
  for (GpuStream& stream : streams) by_id[{stream.context, stream.stream}].push_back(&stream);
  return source.database().ForEach("TARGET_INFO_CUDA_STREAM", kColumns, [&](const Row& row) {
    if (row.Int(0) != PidOf(process)) return absl::OkStatus();
    const auto found = by_id.find({row.Int(1).value_or(-1), row.Int(2).value_or(-1)});
    if (found == by_id.end()) return absl::OkStatus();
    const int64_t priority = row.Int(3).value_or(0);
    const int64_t flags = row.Int(4).value_or(0);
    for (GpuStream* const stream : found->second) {
      // Negative ones are written as if they had no sign.
      if (std::in_range<uint32_t>(priority)) {
        stream->priority = static_cast<int32_t>(static_cast<uint32_t>(priority));
      }
      if (flags >= 0 && flags <= kMostFlag) stream->flags = flags;
    }
    return absl::OkStatus();
  });
}

}  // namespace profd::importer
