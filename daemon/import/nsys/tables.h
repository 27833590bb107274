// The tables of an export of Nsight Systems whose rows are imported.
//
// How do I import another table?  Add a line below, and a function in gpu_rows.cc or nvtx_rows.cc
// that events.cc calls. The rows of tables without a line count as not imported, unless the table
// describes other tables (survey.cc).
#ifndef PROFD_DAEMON_IMPORT_NSYS_TABLES_H_
#define PROFD_DAEMON_IMPORT_NSYS_TABLES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace profd::importer {

inline constexpr std::string_view kKernelTable = "CUPTI_ACTIVITY_KIND_KERNEL";
inline constexpr std::string_view kCopyTable = "CUPTI_ACTIVITY_KIND_MEMCPY";
inline constexpr std::string_view kMemsetTable = "CUPTI_ACTIVITY_KIND_MEMSET";
inline constexpr std::string_view kGraphTable = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
inline constexpr std::string_view kRuntimeTable = "CUPTI_ACTIVITY_KIND_RUNTIME";
inline constexpr std::string_view kDriverTable = "CUPTI_ACTIVITY_KIND_DRIVER";
inline constexpr std::string_view kSyncTable = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
inline constexpr std::string_view kCudaEventTable = "CUPTI_ACTIVITY_KIND_CUDA_EVENT";
inline constexpr std::string_view kOverheadTable = "CUPTI_ACTIVITY_KIND_OVERHEAD";
inline constexpr std::string_view kProfilerOverheadTable = "PROFILER_OVERHEAD";
inline constexpr std::string_view kMemoryTable = "CUDA_GPU_MEMORY_USAGE_EVENTS";
inline constexpr std::string_view kNvtxTable = "NVTX_EVENTS";

struct ImportedTable {
  std::string_view name;
  std::string_view id_column;  // Has the process or the thread of a row.
  bool is_gpu_work = false;
};
inline constexpr std::array<ImportedTable, 12> kImportedTables = {{
    {kKernelTable, "globalPid", true},
    {kCopyTable, "globalPid", true},
    {kMemsetTable, "globalPid", true},
    {kGraphTable, "globalPid", true},
    {kRuntimeTable, "globalTid"},
    {kDriverTable, "globalTid"},
    {kSyncTable, "globalPid"},
    {kCudaEventTable, "globalPid"},
    {kOverheadTable, "globalTid"},
    {kProfilerOverheadTable, "globalTid"},
    {kMemoryTable, "globalPid"},
    {kNvtxTable, "globalTid"},
}};

// "NVTX_EVENTS" of "NVTX_EVENTS_V2", as a table may be called whose columns were changed; else
// `table`.
constexpr std::string_view WithoutVersion(std::string_view table) {
  const size_t suffix = table.rfind("_V");
  if (suffix == std::string_view::npos || suffix + 2 == table.size()) return table;
  for (const char c : table.substr(suffix + 2)) {
    if (c < '0' || c > '9') return table;
  }
  return table.substr(0, suffix);
}

// Numbers of NVTX_EVENTS.eventType, which are the same in all schemas.
enum class NvtxType : int64_t {
  kMark = 34,
  kThreadName = 39,
  kPushPopRange = 59,
  kStartEndRange = 60,
  kTextMark = 65,  // From NVTXT files.
  kTextPushPopRange = 70,
  kTextStartEndRange = 71,
  kDomain = 75,
};
constexpr bool IsNvtxMark(int64_t type) {
  return type == static_cast<int64_t>(NvtxType::kMark) ||
         type == static_cast<int64_t>(NvtxType::kTextMark);
}
constexpr bool IsNvtxRange(int64_t type) {
  return type == static_cast<int64_t>(NvtxType::kPushPopRange) ||
         type == static_cast<int64_t>(NvtxType::kStartEndRange) ||
         type == static_cast<int64_t>(NvtxType::kTextPushPopRange) ||
         type == static_cast<int64_t>(NvtxType::kTextStartEndRange);
}
// Of nvtxRangeStart() and nvtxRangeEnd(): they need not nest.
constexpr bool IsNvtxSpan(int64_t type) {
  return type == static_cast<int64_t>(NvtxType::kStartEndRange) ||
         type == static_cast<int64_t>(NvtxType::kTextStartEndRange);
}
constexpr bool IsNvtxEvent(int64_t type) { return IsNvtxMark(type) || IsNvtxRange(type); }

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_NSYS_TABLES_H_
