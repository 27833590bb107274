#include "tests/import/nsys/nsys_file.h"

#include <sqlite3.h>

#include "daemon/import/nsys/nsys_import.h"

namespace profd::importer {

TestDatabase::TestDatabase(const std::filesystem::path& path) {
  EXPECT_EQ(sqlite3_open(path.c_str(), &db_), SQLITE_OK);
  Run("PRAGMA synchronous=OFF");
}
TestDatabase::~TestDatabase() { sqlite3_close(db_); }

void TestDatabase::Run(const std::string& sql) {
  char* message = nullptr;
  EXPECT_EQ(sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, &message), SQLITE_OK)
      << (message == nullptr ? "" : message) << " in " << sql;
  sqlite3_free(message);
}

std::vector<std::vector<std::string>> TestDatabase::Query(const std::string& sql) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [](void* to, int count, char** values, char**) {
    std::vector<std::string> row;
    for (int i = 0; i < count; ++i) row.emplace_back(values[i] == nullptr ? "" : values[i]);
    static_cast<std::vector<std::vector<std::string>>*>(to)->push_back(std::move(row));
    return 0;
  };
  EXPECT_EQ(sqlite3_exec(db_, sql.c_str(), add, &rows, nullptr), SQLITE_OK)
      << sqlite3_errmsg(db_) << " in " << sql;
  return rows;
}

std::string NsysTables(NsysSchema schema) {
  const bool is_new = schema == NsysSchema::k2025;
  const auto only_new = [is_new](std::string_view columns) {
    return is_new ? std::string(columns) : std::string();
  };
  return StrCat(
      R"(CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
         CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
         CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER)",
      only_new(", systemClockNs INTEGER"), R"();
         CREATE TABLE TARGET_INFO_GPU (id INTEGER NOT NULL, name TEXT, totalMemory INTEGER,
           smCount INTEGER, computeMajor INTEGER, computeMinor INTEGER, threadsPerWarp INTEGER,
           maxWarpsPerSm INTEGER, uuid TEXT, busLocation TEXT);
         CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER NOT NULL,
           pid INTEGER NOT NULL);
         CREATE TABLE TARGET_INFO_CUDA_STREAM (streamId INTEGER, processId INTEGER,
           contextId INTEGER, priority INTEGER, flag INTEGER);
         CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
         CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);
         CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER,
           eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER,
           returnValue INTEGER, callchainId INTEGER);
         CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
           contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
           demangledName INTEGER, shortName INTEGER, registersPerThread INTEGER, gridX INTEGER,
           gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER,
           staticSharedMemory INTEGER, dynamicSharedMemory INTEGER, localMemoryPerThread INTEGER)",
      only_new(", mangledName INTEGER, graphNodeId INTEGER, graphId INTEGER, clusterX INTEGER, "
               "clusterY INTEGER, clusterZ INTEGER"),
      R"();
         CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER,
           contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
           bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER, srcDeviceId INTEGER,
           dstDeviceId INTEGER)",
      only_new(", graphNodeId INTEGER, copyCount INTEGER"), R"();
         CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER, deviceId INTEGER,
           contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
           value INTEGER, bytes INTEGER)",
      only_new(", memKind INTEGER"), R"();
         CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER,
           deviceId INTEGER, graphId INTEGER, contextId INTEGER, streamId INTEGER,
           correlationId INTEGER, globalPid INTEGER);
         CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER,
           deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER,
           globalPid INTEGER, syncType INTEGER, eventId INTEGER);
         CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (deviceId INTEGER, contextId INTEGER,
           streamId INTEGER, correlationId INTEGER, globalPid INTEGER, eventId INTEGER);
         CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER, globalPid INTEGER,
           deviceId INTEGER, contextId INTEGER, address INTEGER, bytes INTEGER, memKind INTEGER,
           memoryOperationType INTEGER);
         CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, rangeId INTEGER,
           category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER,
           textId INTEGER, domainId INTEGER, uint64Value INTEGER, int64Value INTEGER,
           doubleValue REAL, jsonText TEXT);
         CREATE TABLE PROFILER_OVERHEAD (start INTEGER, end INTEGER, globalTid INTEGER,
           nameId INTEGER, returnValue INTEGER);)",
      only_new(R"(
         CREATE TABLE CUPTI_ACTIVITY_KIND_OVERHEAD (start INTEGER, end INTEGER, globalTid INTEGER,
           correlationId INTEGER, nameId INTEGER, overheadType INTEGER);
         CREATE TABLE ENUM_CUPTI_OVERHEAD_TYPE (id INTEGER PRIMARY KEY, name TEXT, label TEXT);
         INSERT INTO ENUM_CUPTI_OVERHEAD_TYPE VALUES (3, 'OVERHEAD_CUPTI_BUFFER_FLUSH', ''),
           (8, 'OVERHEAD_COMMAND_BUFFER_FULL', '');)"),
      R"(
         CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER PRIMARY KEY, name TEXT, label TEXT);
         INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (0, 'CUDA_MEMCPY_KIND_UNKNOWN', ''),
           (1, 'CUDA_MEMCPY_KIND_HTOD', ''), (2, 'CUDA_MEMCPY_KIND_DTOH', ''),
           (8, 'CUDA_MEMCPY_KIND_DTOD', ''), (10, 'CUDA_MEMCPY_KIND_PTOP', ''),
           (11, 'CUDA_MEMCPY_KIND_UVM_HTOD', '');
         CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER PRIMARY KEY, name TEXT, label TEXT);
         INSERT INTO ENUM_CUDA_MEM_KIND VALUES (0, 'CUDA_MEMOPR_MEMORY_KIND_PAGEABLE', ''),
           (1, 'CUDA_MEMOPR_MEMORY_KIND_PINNED', ''), (2, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE', '');
         CREATE TABLE ENUM_CUPTI_SYNC_TYPE (id INTEGER PRIMARY KEY, name TEXT, label TEXT);
         INSERT INTO ENUM_CUPTI_SYNC_TYPE VALUES
           (1, 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE', ''),
           (2, 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT', ''),
           (3, 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE', ''),
           (4, 'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE', '');
         CREATE TABLE ENUM_CUDA_DEV_MEM_EVENT_OPER (id INTEGER PRIMARY KEY, name TEXT, label TEXT);
         INSERT INTO ENUM_CUDA_DEV_MEM_EVENT_OPER VALUES
           (0, 'CUDA_DEV_MEM_EVENT_OPR_ALLOCATION', ''),
           (1, 'CUDA_DEV_MEM_EVENT_OPR_DEALLOCATION', '');)");
}

std::filesystem::path NsysImportTest::Make(const std::string& sql, std::string_view name) {
  const std::filesystem::path path = folder_ / name;
  std::filesystem::remove(path);
  TestDatabase(path).Run(sql);
  return path;
}

absl::StatusOr<std::vector<ImportedCapture>> NsysImportTest::ImportFile(
    const std::filesystem::path& path, const std::string& group_id) {
  return ImportNsys(path, Clock::Real(),
                    {.directory = folder_.path(),
                     .id = "",
                     .group_id = group_id,
                     .on_progress = nullptr,
                     .is_cancelled = nullptr});
}

std::vector<std::string> NsysImportTest::LinesOfFile(const std::filesystem::path& path,
                                                     CaptureRecord* record) {
  const auto captures = ImportFile(path);
  EXPECT_THAT(captures, IsOk());
  if (!captures.ok()) return {};
  EXPECT_EQ(captures->size(), 1u);
  if (record != nullptr) *record = captures->front().record;
  const auto reader = Open(captures->front().file);
  return reader == nullptr ? std::vector<std::string>() : LinesOf(*reader);
}

}  // namespace profd::importer
