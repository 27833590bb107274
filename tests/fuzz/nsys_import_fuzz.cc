// Bytes as an export of Nsight Systems. A first byte that is odd changes bytes of a well-formed
// database, so that less has to be guessed: each four that follow are a place (three) and a value.
// What is imported reads back.
#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "daemon/base/clock.h"
#include "daemon/import/nsys/nsys_import.h"
#include "daemon/store/file/capture_reader.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/store/file/capture_file_builder.h"

namespace {

// A row or more in every table that is imported, on small pages, so that most bytes matter.
constexpr const char* kNsysDatabase = R"(
  PRAGMA page_size = 512;
  CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
  INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'add(int)'),
    (3, 'cudaStreamSynchronize_v3020'), (4, 'CUPTI Buffer flush');
  CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId,
    correlationId, globalPid, demangledName, gridX);
  INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (20, 50, 0, 1, 7, 1, 281476838981632, 2, 9);
  CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, contextId, streamId,
    correlationId, globalPid, bytes, copyKind, srcKind, dstKind);
  INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (60, 70, 0, 1, 7, 2, 281476838981632, 64, 1, 1, 2);
  CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, eventClass, globalTid, correlationId,
    nameId, returnValue);
  INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (10, 15, 0, 281476838981743, 1, 1, 0),
    (75, 95, 0, 281476838981743, 3, 3, 0);
  CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start, end, deviceId, contextId, streamId,
    correlationId, globalPid, syncType, eventId);
  INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (80, 90, 0, 1, 7, 3, 281476838981632, 3, 1);
  CREATE TABLE NVTX_EVENTS (start, end, eventType, text, textId, globalTid, domainId);
  INSERT INTO NVTX_EVENTS VALUES (1, 99, 59, 'aten::mm, seq = 1, op_id = 2, sizes = [[1]]', NULL,
    281476838981743, 0), (5, NULL, 60, NULL, 2, 281476838981743, 3),
    (6, NULL, 34, 'mark', NULL, 281476838981743, 0), (0, NULL, 75, 'D', NULL, 281476838981743, 3);
  CREATE TABLE PROFILER_OVERHEAD (start, end, globalTid, nameId);
  INSERT INTO PROFILER_OVERHEAD VALUES (2, 3, 281476838981743, 4);
  CREATE TABLE TARGET_INFO_GPU (id, name, totalMemory, cuDevice);
  INSERT INTO TARGET_INFO_GPU VALUES (0, 'GPU', 1, 0);
  CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER PRIMARY KEY, name);
  INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (1, 'CUDA_MEMCPY_KIND_HTOD');
  CREATE TABLE OSRT_API (start, end, globalTid);
  INSERT INTO OSRT_API VALUES (1, 2, 281476838981743);)";

std::string NsysDatabase(const std::filesystem::path& path) {
  sqlite3* db = nullptr;
  sqlite3_open(path.c_str(), &db);
  sqlite3_exec(db, kNsysDatabase, nullptr, nullptr, nullptr);
  sqlite3_close(db);
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

PROFD_FUZZ_TARGET(FuzzNsysImport)(std::span<const uint8_t> data) {
  const auto require = [](bool holds) {
    if (!holds) __builtin_trap();
  };
  static const profd::store::TemporaryFolder folder;
  static const std::string whole = NsysDatabase(folder / "whole.sqlite");
  const std::filesystem::path path = folder / "report.sqlite";
  std::string bytes;
  if (!data.empty() && data[0] % 2 == 1) {
    bytes = whole;
    for (size_t i = 1; i + 3 < data.size(); i += 4) {
      const size_t place = size_t{data[i]} << 16 | size_t{data[i + 1]} << 8 | data[i + 2];
      bytes[place % bytes.size()] = static_cast<char>(data[i + 3]);
    }
  } else if (!data.empty()) {
    bytes.assign(reinterpret_cast<const char*>(data.data()) + 1, data.size() - 1);
  }
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  const auto captures = profd::importer::ImportNsys(path, profd::Clock::Real(),
                                                    {.directory = folder.path(),
                                                     .id = "",
                                                     .group_id = "",
                                                     .on_progress = nullptr,
                                                     .is_cancelled = nullptr});
  // Without changes it is good.
  require(captures.ok() || bytes != whole);
  if (!captures.ok()) return;
  for (const auto& capture : *captures) {
    require(profd::store::CaptureReader::Open(capture.file).ok());
    std::error_code error;
    std::filesystem::remove(capture.file, error);
  }
}
