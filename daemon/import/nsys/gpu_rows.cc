// What NsysEvents makes of CUDA's tables.
#include <algorithm>
#include <array>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/import/nsys/events.h"
#include "daemon/import/nsys/tables.h"
#include "daemon/report/index/gpu_names.h"
#include "proto/wire/event.h"

namespace profd::importer {
namespace {

// What "no stream" and "no event" is in an export.
constexpr int64_t kNone = 0xFFFFFFFF;
constexpr int64_t kDriverClass = 1;  // RUNTIME.eventClass of calls of the driver; 0: the runtime's.
constexpr uint8_t kUnifiedCopy = 255;

template <typename Kind>
using Words = std::pair<std::string_view, Kind>;

// CUpti_ActivityMemcpyKind, by how the names of ENUM_CUDA_MEMCPY_OPER end.
constexpr std::array<Words<uint8_t>, 13> kCopyWords = {{{"_KIND_HTOD", 1},
                                                        {"_KIND_DTOH", 2},
                                                        {"_KIND_HTOA", 3},
                                                        {"_KIND_ATOH", 4},
                                                        {"_KIND_ATOA", 5},
                                                        {"_KIND_ATOD", 6},
                                                        {"_KIND_DTOA", 7},
                                                        {"_KIND_DTOD", 8},
                                                        {"_KIND_HTOH", 9},
                                                        {"_KIND_PTOP", 10},
                                                        {"_UVM_HTOD", kUnifiedCopy},
                                                        {"_UVM_DTOH", kUnifiedCopy},
                                                        {"_UVM_DTOD", kUnifiedCopy}}};
// CUpti_ActivityMemoryKind, by those of ENUM_CUDA_MEM_KIND.
constexpr std::array<Words<uint8_t>, 7> kMemoryWords = {{{"_KIND_PAGEABLE", 1},
                                                         {"_KIND_PINNED", 2},
                                                         {"_KIND_DEVICE", 3},
                                                         {"_KIND_ARRAY", 4},
                                                         {"_KIND_MANAGED", 5},
                                                         {"_KIND_DEVICE_STATIC", 6},
                                                         {"_KIND_MANAGED_STATIC", 7}}};
constexpr uint8_t kPageable = 1;
constexpr uint8_t kPinned = 2;
// CUpti_ActivitySynchronizationType, by those of ENUM_CUPTI_SYNC_TYPE.
constexpr std::array<Words<uint32_t>, 4> kSyncWords = {
    {{"_EVENT_SYNCHRONIZE", report::kEventSync},
     {"_STREAM_WAIT_EVENT", report::kStreamWaitEvent},
     {"_STREAM_SYNCHRONIZE", report::kStreamSync},
     {"_CONTEXT_SYNCHRONIZE", report::kContextSync}}};
// CUpti_ActivityOverheadKind, by those of ENUM_CUPTI_OVERHEAD_TYPE.
constexpr std::array<Words<uint32_t>, 8> kOverheadWords = {
    {{"_UNKNOWN", 0},
     {"_DRIVER_COMPILER", 1},
     {"_CUPTI_BUFFER_FLUSH", 1 << 16},
     {"_CUPTI_INSTRUMENTATION", 2 << 16},
     {"_CUPTI_RESOURCE", 3 << 16},
     {"_RUNTIME_TRIGGERED_MODULE_LOADING", 4 << 16},
     {"_LAZY_FUNCTION_LOADING", 5 << 16},
     {"_COMMAND_BUFFER_FULL", 6 << 16}}};
// The same, by what PROFILER_OVERHEAD calls those of CUPTI.
constexpr std::array<Words<uint32_t>, 3> kProfilerOverheadNames = {
    {{"CUPTI Buffer flush", 1 << 16},
     {"CUPTI Instrumentation", 2 << 16},
     {"CUPTI Resource Management", 3 << 16}}};
constexpr std::array<Words<bool>, 2> kMemoryOperationWords = {
    {{"_OPR_ALLOCATION", false}, {"_OPR_DEALLOCATION", true}}};
// What a call that waits waits for.
constexpr std::array<Words<uint32_t>, 9> kWaitingCalls = {
    {{"cudaEventSynchronize", report::kEventSync},
     {"cuEventSynchronize", report::kEventSync},
     {"cudaStreamWaitEvent", report::kStreamWaitEvent},
     {"cuStreamWaitEvent", report::kStreamWaitEvent},
     {"cudaStreamSynchronize", report::kStreamSync},
     {"cuStreamSynchronize", report::kStreamSync},
     {"cudaDeviceSynchronize", report::kContextSync},
     {"cudaThreadSynchronize", report::kContextSync},
     {"cuCtxSynchronize", report::kContextSync}}};

// The kinds of an ENUM_* table, by its numbers.
template <typename Kind, size_t kCount>
absl::Status ReadKindsOf(NsysSource& source, std::string_view table,
                         const std::array<Words<Kind>, kCount>& words,
                         std::map<int64_t, Kind>& kinds) {
  ASSIGN_OR_RETURN(const auto names, source.NamesOf(table));
  for (const auto& [number, name] : names) {
    for (const Words<Kind>& word : words) {
      if (name.ends_with(word.first)) kinds[number] = word.second;
    }
  }
  return absl::OkStatus();
}

template <typename Kind>
Kind KindOf(const std::map<int64_t, Kind>& kinds, const NsysFields& fields, size_t column,
            Kind otherwise) {
  const std::optional<int64_t> number = fields.Int(column);
  if (!number.has_value()) return otherwise;
  const auto found = kinds.find(*number);
  return found == kinds.end() ? otherwise : found->second;
}

template <typename Kind, size_t kCount>
Kind KindOfName(const std::array<Words<Kind>, kCount>& words, std::string_view name,
                Kind otherwise) {
  for (const Words<Kind>& word : words) {
    if (name == word.first) return word.second;
  }
  return otherwise;
}

bool EndsInDigits(std::string_view text, size_t& before) {
  before = text.find_last_not_of("0123456789");
  before = before == std::string_view::npos ? 0 : before + 1;
  return text.size() - before >= 4;
}

// Without what CUPTI adds, "_v7000" and "_ptsz". "cuMemcpyHtoD_v2" is the function's own name.
std::string_view ApiNameOf(std::string_view name) {
  size_t before = 0;
  if (EndsInDigits(name, before) && name.substr(0, before).ends_with("_v")) {
    name = name.substr(0, before - 2);
  }
  for (const std::string_view suffix : {"_ptsz", "_ptds"}) {
    if (name.size() > suffix.size() && name.ends_with(suffix)) name.remove_suffix(suffix.size());
  }
  return name;
}

}  // namespace

absl::Status NsysEvents::ReadKinds() {
  RETURN_IF_ERROR(ReadKindsOf(source_, "ENUM_CUDA_MEMCPY_OPER", kCopyWords, copy_kinds_));
  RETURN_IF_ERROR(ReadKindsOf(source_, "ENUM_CUDA_MEM_KIND", kMemoryWords, memory_kinds_));
  RETURN_IF_ERROR(ReadKindsOf(source_, "ENUM_CUPTI_SYNC_TYPE", kSyncWords, sync_kinds_));
  RETURN_IF_ERROR(
      ReadKindsOf(source_, "ENUM_CUPTI_OVERHEAD_TYPE", kOverheadWords, overhead_kinds_));
  return ReadKindsOf(source_, "ENUM_CUDA_DEV_MEM_EVENT_OPER", kMemoryOperationWords, frees_memory_);
}

absl::Status NsysEvents::AddCalls(std::string_view table) {
  constexpr std::array<std::string_view, 7> kColumns = {
      "globalTid", "start", "end", "eventClass", "correlationId", "nameId", "returnValue"};
  enum : size_t { kClass = 3, kCorrelation, kName, kResult };
  const auto name_of = [this](int64_t id) -> absl::StatusOr<ApiName> {
    if (const auto found = api_names_.find(id); found != api_names_.end()) return found->second;
    ASSIGN_OR_RETURN(const std::optional<std::string> text, source_.TextOf(id));
    ApiName api;
    if (!text.has_value()) {
      ASSIGN_OR_RETURN(api.name, NameOf(std::nullopt));
    } else {
      const std::string_view name = ApiNameOf(*text);
      ASSIGN_OR_RETURN(api.name, builder_.NameId(name));
      api.sync_kind = KindOfName(kWaitingCalls, name, uint32_t{0});
    }
    if (api_names_.size() < NameTable::kMaxIds) api_names_.emplace(id, api);
    return api;
  };
  return ForEach(table, kColumns, [&](const Fields& fields) -> absl::Status {
    const std::optional<Times> times = TimesOf(fields, table);
    if (!times.has_value()) return absl::OkStatus();
    const std::optional<uint32_t> thread = ThreadOf(fields, table);
    if (!thread.has_value()) return absl::OkStatus();
    ApiName api;
    const std::optional<int64_t> name = fields.Int(kName);
    if (name.has_value()) {
      ASSIGN_OR_RETURN(api, name_of(*name));
    } else {
      ASSIGN_OR_RETURN(api.name, NameOf(std::nullopt));
    }
    const auto correlation = fields.As<uint32_t>(kCorrelation, 0);
    if (correlation != 0 && api.sync_kind != 0) waiting_calls_[correlation] = api.sync_kind;
    const bool is_driver = table == kDriverTable || fields.Int(kClass) == kDriverClass;
    return Note(table, builder_.AddRow(*thread, ApiRow{.start_ns = times->start_ns,
                                                       .duration_ns = times->duration_ns,
                                                       .name = api.name,
                                                       .correlation = correlation,
                                                       .cbid = 0,
                                                       .result = fields.As<int32_t>(kResult, 0),
                                                       .is_driver = is_driver}));
  });
}

std::optional<GpuRow> NsysEvents::WorkOf(const Fields& fields, std::string_view table,
                                         GpuRowKind kind) {
  enum : size_t { kDevice = 3, kContext, kStream, kCorrelation };
  const std::optional<Times> times = TimesOf(fields, table);
  if (!times.has_value()) return std::nullopt;
  const std::optional<int64_t> device = fields.Int(kDevice);
  if (!device.has_value() || !std::in_range<uint16_t>(*device) || *device == kNoGpuDevice) {
    Count(table, "of an impossible device");
    return std::nullopt;
  }
  // What is left out is zero.
  return GpuRow{.start_ns = times->start_ns,
                .duration_ns = times->duration_ns,
                .kind = kind,
                .device = static_cast<uint16_t>(*device),
                .context = fields.As<uint32_t>(kContext, 0),
                .stream = fields.As<uint32_t>(kStream, 0),
                .correlation = fields.As<uint32_t>(kCorrelation, 0),
                .source_device = kNoGpuDevice,
                .destination_device = kNoGpuDevice,
                .queued_ns = kNoGpuTime,
                .submitted_ns = kNoGpuTime};
}

absl::Status NsysEvents::AddWork(std::string_view table, GpuRow row) {
  context_devices_.try_emplace(row.context, row.device);
  return Note(table, builder_.AddRow(row));
}

absl::Status NsysEvents::AddKernels() {
  constexpr std::array<std::string_view, 25> kColumns = {"globalPid",
                                                         "start",
                                                         "end",
                                                         "deviceId",
                                                         "contextId",
                                                         "streamId",
                                                         "correlationId",
                                                         "demangledName",
                                                         "mangledName",
                                                         "shortName",
                                                         "gridX",
                                                         "gridY",
                                                         "gridZ",
                                                         "blockX",
                                                         "blockY",
                                                         "blockZ",
                                                         "clusterX",
                                                         "clusterY",
                                                         "clusterZ",
                                                         "registersPerThread",
                                                         "staticSharedMemory",
                                                         "dynamicSharedMemory",
                                                         "localMemoryPerThread",
                                                         "graphId",
                                                         "graphNodeId"};
  enum : size_t {
    kName = 7,
    kGrid = 10,
    kBlock = 13,
    kCluster = 16,
    kRegisters = 19,
    kStaticShared,
    kDynamicShared,
    kLocal,
    kGraph,
    kGraphNode
  };
  return ForEach(kKernelTable, kColumns, [&](const Fields& fields) -> absl::Status {
    std::optional<GpuRow> row = WorkOf(fields, kKernelTable, GpuRowKind::kKernel);
    if (!row.has_value()) return absl::OkStatus();
    std::optional<int64_t> name;
    for (size_t i = 0; i < 3 && !name.has_value(); ++i) name = fields.Int(kName + i);
    ASSIGN_OR_RETURN(row->name, NameOf(name));
    for (size_t i = 0; i < 3; ++i) {
      row->grid[i] = fields.As<uint32_t>(kGrid + i, 1);
      row->block[i] = fields.As<uint32_t>(kBlock + i, 1);
      row->cluster[i] = fields.As<uint16_t>(kCluster + i, 0);
    }
    row->registers_per_thread = fields.As<uint16_t>(kRegisters, 0);
    row->static_shared_bytes = fields.As<uint32_t>(kStaticShared, 0);
    row->dynamic_shared_bytes = fields.As<uint32_t>(kDynamicShared, 0);
    row->local_bytes_per_thread = fields.As<uint32_t>(kLocal, 0);
    row->graph_id = fields.As<uint32_t>(kGraph, 0);
    row->graph_node_id = static_cast<uint64_t>(fields.Int(kGraphNode).value_or(0));
    return AddWork(kKernelTable, *row);
  });
}

absl::Status NsysEvents::AddCopies() {
  constexpr std::array<std::string_view, 14> kColumns = {
      "globalPid", "start",    "end",     "deviceId", "contextId",   "streamId",    "correlationId",
      "bytes",     "copyKind", "srcKind", "dstKind",  "srcDeviceId", "dstDeviceId", "graphNodeId"};
  enum : size_t { kBytes = 7, kKind, kFrom, kTo, kFromDevice, kToDevice, kGraphNode };
  return ForEach(kCopyTable, kColumns, [&](const Fields& fields) -> absl::Status {
    const uint8_t kind = KindOf(copy_kinds_, fields, kKind, uint8_t{0});
    if (kind == kUnifiedCopy) {
      // Pages that CUDA moves by itself: no stream's work, and of no call.
      Count(kCopyTable, "of unified memory");
      return absl::OkStatus();
    }
    std::optional<GpuRow> row = WorkOf(fields, kCopyTable, GpuRowKind::kMemcpy);
    if (!row.has_value()) return absl::OkStatus();
    if (kind == 0) fields.CountDetail(kKind);
    row->bytes = fields.As<uint64_t>(kBytes, 0);
    row->copy_kind = kind;
    row->source_kind = KindOf(memory_kinds_, fields, kFrom, uint8_t{0});
    row->destination_kind = KindOf(memory_kinds_, fields, kTo, uint8_t{0});
    row->source_device = fields.As<uint16_t>(kFromDevice, kNoGpuDevice);
    row->destination_device = fields.As<uint16_t>(kToDevice, kNoGpuDevice);
    row->graph_node_id = static_cast<uint64_t>(fields.Int(kGraphNode).value_or(0));
    return AddWork(kCopyTable, *row);
  });
}

absl::Status NsysEvents::AddMemsets() {
  constexpr std::array<std::string_view, 10> kColumns = {
      "globalPid", "start",         "end",   "deviceId", "contextId",
      "streamId",  "correlationId", "bytes", "memKind",  "graphNodeId"};
  enum : size_t { kBytes = 7, kKind, kGraphNode };
  return ForEach(kMemsetTable, kColumns, [&](const Fields& fields) -> absl::Status {
    std::optional<GpuRow> row = WorkOf(fields, kMemsetTable, GpuRowKind::kMemset);
    if (!row.has_value()) return absl::OkStatus();
    row->bytes = fields.As<uint64_t>(kBytes, 0);
    row->destination_kind = KindOf(memory_kinds_, fields, kKind, uint8_t{0});
    row->graph_node_id = static_cast<uint64_t>(fields.Int(kGraphNode).value_or(0));
    return AddWork(kMemsetTable, *row);
  });
}

absl::Status NsysEvents::AddGraphs() {
  constexpr std::array<std::string_view, 8> kColumns = {
      "globalPid", "start", "end", "deviceId", "contextId", "streamId", "correlationId", "graphId"};
  constexpr size_t kGraph = 7;
  return ForEach(kGraphTable, kColumns, [&](const Fields& fields) -> absl::Status {
    std::optional<GpuRow> row = WorkOf(fields, kGraphTable, GpuRowKind::kGraphLaunch);
    if (!row.has_value()) return absl::OkStatus();
    row->graph_id = fields.As<uint32_t>(kGraph, 0);
    return AddWork(kGraphTable, *row);
  });
}

absl::Status NsysEvents::AddSyncs() {
  constexpr std::array<std::string_view, 9> kColumns = {"globalPid",     "start",     "end",
                                                        "deviceId",      "contextId", "streamId",
                                                        "correlationId", "syncType",  "eventId"};
  enum : size_t { kDevice = 3, kContext, kStream, kCorrelation, kType, kEvent };
  return ForEach(kSyncTable, kColumns, [&](const Fields& fields) -> absl::Status {
    const std::optional<Times> times = TimesOf(fields, kSyncTable);
    if (!times.has_value()) return absl::OkStatus();
    const auto correlation = fields.As<uint32_t>(kCorrelation, 0);
    uint32_t kind = KindOf(sync_kinds_, fields, kType, uint32_t{0});
    // Some releases number the types otherwise than their own ENUM_CUPTI_SYNC_TYPE says: 2025.1 has
    // cudaStreamSynchronize() as a wait for an event. The call is right.
    const auto call = waiting_calls_.find(correlation);
    if (call != waiting_calls_.end() && call->second != kind) {
      fields.CountDetail(kType);
      kind = call->second;
    }
    if (kind == 0) {
      Count(kSyncTable, "of an unknown type");
      return absl::OkStatus();
    }
    const auto context = fields.As<uint32_t>(kContext, 0);
    // Some releases say device 0 of all.
    const auto device = context_devices_.find(context);
    const bool has_stream = fields.Int(kStream) != kNone;
    const bool has_event = fields.Int(kEvent) != kNone;
    return Note(
        kSyncTable,
        builder_.AddRow(SyncRow{
            .start_ns = times->start_ns,
            .duration_ns = times->duration_ns,
            .kind = kind,
            .device = device != context_devices_.end() ? device->second
                                                       : fields.As<uint16_t>(kDevice, kNoGpuDevice),
            .context = context,
            .stream = has_stream ? fields.As<uint32_t>(kStream, wire::kNoStream) : wire::kNoStream,
            .correlation = correlation,
            .event_id = has_event ? fields.As<uint32_t>(kEvent, 0) : 0}));
  });
}

absl::Status NsysEvents::AddCudaEvents() {
  // They have no time that says when the program recorded them.
  constexpr std::array<std::string_view, 5> kColumns = {"globalPid", "correlationId", "contextId",
                                                        "streamId", "eventId"};
  enum : size_t { kCorrelation = 1, kContext, kStream, kEvent };
  return ForEach(kCudaEventTable, kColumns, [&](const Fields& fields) -> absl::Status {
    const CudaEventRow row = {.correlation = fields.As<uint32_t>(kCorrelation, 0),
                              .context = fields.As<uint32_t>(kContext, 0),
                              .stream = fields.As<uint32_t>(kStream, wire::kNoStream),
                              .event_id = fields.As<uint32_t>(kEvent, 0)};
    ASSIGN_OR_RETURN(const bool is_new, builder_.AddRow(row));
    if (!is_new) Count(kCudaEventTable, "that is there twice");
    return absl::OkStatus();
  });
}

absl::Status NsysEvents::AddOverheads() {
  constexpr std::array<std::string_view, 5> kColumns = {"globalTid", "start", "end",
                                                        "correlationId", "overheadType"};
  enum : size_t { kCorrelation = 3, kType };
  constexpr uint32_t kUnknown = UINT32_MAX;
  return ForEach(kOverheadTable, kColumns, [&](const Fields& fields) -> absl::Status {
    const uint32_t kind = KindOf(overhead_kinds_, fields, kType, kUnknown);
    if (kind == kUnknown) {
      Count(kOverheadTable, "of an unknown type");
      return absl::OkStatus();
    }
    const std::optional<Times> times = TimesOf(fields, kOverheadTable);
    if (!times.has_value()) return absl::OkStatus();
    const int64_t tid = TidOf(fields.Int(kOwner).value_or(0));
    return Note(kOverheadTable,
                builder_.AddRow(OverheadRow{.start_ns = times->start_ns,
                                            .duration_ns = times->duration_ns,
                                            .kind = kind,
                                            .os_thread = static_cast<uint32_t>(tid),
                                            .correlation = fields.As<uint32_t>(kCorrelation, 0)}));
  });
}

// Most of it is Nsight's own, before and after the program's CUDA.
absl::Status NsysEvents::AddProfilerOverheads() {
  constexpr std::array<std::string_view, 4> kColumns = {"globalTid", "start", "end", "nameId"};
  constexpr size_t kName = 3;
  constexpr uint32_t kUnknown = UINT32_MAX;
  return ForEach(kProfilerOverheadTable, kColumns, [&](const Fields& fields) -> absl::Status {
    std::optional<std::string> name;
    if (const std::optional<int64_t> id = fields.Int(kName); id.has_value()) {
      ASSIGN_OR_RETURN(name, source_.TextOf(*id));
    }
    const uint32_t kind = KindOfName(kProfilerOverheadNames, name.value_or(""), kUnknown);
    if (kind == kUnknown) {
      Count(kProfilerOverheadTable, "of Nsight Systems itself");
      return absl::OkStatus();
    }
    const std::optional<Times> times = TimesOf(fields, kProfilerOverheadTable);
    if (!times.has_value()) return absl::OkStatus();
    const int64_t tid = TidOf(fields.Int(kOwner).value_or(0));
    return Note(kProfilerOverheadTable,
                builder_.AddRow(OverheadRow{.start_ns = times->start_ns,
                                            .duration_ns = times->duration_ns,
                                            .kind = kind,
                                            .os_thread = static_cast<uint32_t>(tid),
                                            .correlation = 0}));
  });
}

absl::Status NsysEvents::AddMemory() {
  constexpr std::array<std::string_view, 7> kColumns = {
      "globalPid", "start", "deviceId", "address", "bytes", "memKind", "memoryOperationType"};
  enum : size_t { kDevice = 2, kAddress, kBytes, kKind, kOperation };
  std::optional<uint32_t> thread;
  return ForEach(kMemoryTable, kColumns, [&](const Fields& fields) -> absl::Status {
    const uint8_t kind = KindOf(memory_kinds_, fields, kKind, uint8_t{0});
    const std::optional<int64_t> time = fields.Int(kStart);
    const std::optional<int64_t> bytes = fields.Int(kBytes);
    const std::optional<int64_t> operation = fields.Int(kOperation);
    const auto frees = frees_memory_.find(operation.value_or(-1));
    if (kind == kPageable || kind == kPinned) {
      Count(kMemoryTable, "of the host's memory");
      return absl::OkStatus();
    }
    const std::optional<int64_t> device = fields.Int(kDevice);
    if (!time.has_value() || !bytes.has_value() || *bytes < 0 || frees == frees_memory_.end() ||
        !device.has_value() || !std::in_range<int16_t>(*device)) {
      Count(kMemoryTable, "without a time, size, device, or type");
      return absl::OkStatus();
    }
    if (!thread.has_value()) {
      // As in captures of profd's own: CUPTI does not say the thread.
      builder_.NameThread(PidOf(process_), 0, "CUDA memory");
      thread = builder_.AddThread(PidOf(process_), 0);
    }
    if (!thread.has_value()) {
      Count(kMemoryTable, "of too many threads");
      return absl::OkStatus();
    }
    return Note(
        kMemoryTable,
        builder_.AddRow(
            *thread, MemoryRow{.time_ns = *time,
                               .address = static_cast<uint64_t>(fields.Int(kAddress).value_or(0)),
                               .bytes = *bytes,
                               .total_allocated_bytes = -1,
                               .total_reserved_bytes = -1,
                               .device_type = static_cast<uint8_t>(wire::DeviceType::kCudaDriver),
                               .device_index = static_cast<int16_t>(*device),
                               .category = 0,
                               .is_free = frees->second}));
  });
}

}  // namespace profd::importer
