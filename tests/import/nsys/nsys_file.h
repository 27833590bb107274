// Databases as Nsight Systems exports them, made by tests; and the captures made of them.
#ifndef PROFD_TESTS_IMPORT_NSYS_NSYS_FILE_H_
#define PROFD_TESTS_IMPORT_NSYS_NSYS_FILE_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/import/import_fixture.h"

struct sqlite3;

namespace profd::importer {

// An SQLite database that a test writes or reads with SQL.
class TestDatabase {
 public:
  explicit TestDatabase(const std::filesystem::path& path);
  ~TestDatabase();
  TestDatabase(const TestDatabase&) = delete;
  TestDatabase& operator=(const TestDatabase&) = delete;

  void Run(const std::string& sql);
  // Rows of texts; NULL is "".
  std::vector<std::vector<std::string>> Query(const std::string& sql);

 private:
  sqlite3* db_ = nullptr;
};

enum class NsysSchema { k2023, k2025 };

// The tables of a schema, empty, and the ENUM_* tables: the statements that make them.
std::string NsysTables(NsysSchema schema);

// As Nsight Systems makes them of a process and one of its threads.
constexpr int64_t GlobalPid(int64_t pid) { return (int64_t{1} << 48) + (pid << 24); }
constexpr int64_t GlobalTid(int64_t pid, int64_t tid) { return GlobalPid(pid) + tid; }

class NsysImportTest : public ImportTest {
 protected:
  // A file with these statements run in it.
  std::filesystem::path Make(const std::string& sql, std::string_view name = "report.sqlite");
  absl::StatusOr<std::vector<ImportedCapture>> ImportFile(const std::filesystem::path& path,
                                                          const std::string& group_id = "");
  // Of a file that becomes one capture. Empty after a failure.
  std::vector<std::string> LinesOfFile(const std::filesystem::path& path,
                                       CaptureRecord* record = nullptr);
};

}  // namespace profd::importer

#endif  // PROFD_TESTS_IMPORT_NSYS_NSYS_FILE_H_
