// Databases that were made to be read wrongly: they end in a status or a count, and are told apart
// by it.
#include <zlib.h>

#include <fstream>
#include <iterator>
#include <string>

#include "daemon/import/nsys/export_file.h"
#include "daemon/import/nsys/nsys_import.h"
#include "daemon/store/file/foreign_database.h"
#include "gmock/gmock.h"
#include "tests/import/nsys/nsys_file.h"

namespace profd::importer {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;
using enum absl::StatusCode;

constexpr std::string_view kColumns =
    "(start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName)";

// A file with a kernel that is right, and these rows of kernels.
std::string WithKernels(const std::string& rows) {
  return StrCat(NsysTables(NsysSchema::k2025), "INSERT INTO StringIds VALUES (2, 'add');",
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL ", kColumns,
                " VALUES (10, 20, 0, 1, 7, 1, ", GlobalPid(41), ", 2)", rows, ";");
}
std::string Kernel(std::string_view start, std::string_view end, std::string_view rest) {
  return StrCat(", (", start, ", ", end, ", ", rest, ", ", GlobalPid(41), ", 2)");
}

std::string BytesOf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

using NsysHostileTest = NsysImportTest;

TEST_F(NsysHostileTest, ImpossibleValuesAreCountedByTheirTable) {
  const std::string rows = StrCat(
      Kernel("NULL", "20", "0, 1, 7, 2"), Kernel("'ten'", "20", "0, 1, 7, 2"),
      Kernel("30", "x'00'", "0, 1, 7, 2"), Kernel("50", "40", "0, 1, 7, 3"),
      Kernel("-9223372036854775807", "9223372036854775807", "0, 1, 7, 4"),
      Kernel("9223372036854775806", "9223372036854775807", "0, 1, 7, 4"),
      Kernel("60", "9223372036854775807", "0, 1, 7, 4"), Kernel("60", "70", "65535, 1, 7, 5"),
      Kernel("60", "70", "-1, 1, 7, 5"), Kernel("60", "70", "1.5, 1, 7, 5"),
      Kernel("80", "90", "0, 1, 7, 4294967296"), Kernel("80", "90", "0, -1, 'seven', 6"));
  CaptureRecord record;
  EXPECT_THAT(LinesOfFile(Make(WithKernels(rows)), &record), SizeIs(4));
  EXPECT_EQ(record.event_count, 4);
  const std::string table = "CUPTI_ACTIVITY_KIND_KERNEL";
  EXPECT_THAT(
      record.imported.not_understood,
      UnorderedElementsAre(
          Pair(table + " without start or end", 3),
          Pair(table + " that ends before it starts, taken as 0", 1),
          Pair(table + " more than a year away", 3), Pair(table + " of an impossible device", 3),
          Pair("arg:" + table + ".start", 1), Pair("arg:" + table + ".end", 1),
          Pair("arg:" + table + ".deviceId", 1), Pair("arg:" + table + ".correlationId", 1),
          Pair("arg:" + table + ".contextId", 1), Pair("arg:" + table + ".streamId", 1)));
}

TEST_F(NsysHostileTest, RowsOfAnUnknownProcessAreOfTheOnlyOne) {
  const std::string unknown = ", (30, 40, 0, 1, 7, 2, NULL, 2)";
  CaptureRecord record;
  EXPECT_THAT(LinesOfFile(Make(WithKernels(unknown)), &record), SizeIs(2));
  const auto captures = ImportFile(
      Make(WithKernels(StrCat(unknown, ", (30, 40, 0, 1, 7, 2, ", GlobalPid(42), ", 2)"))));
  ASSERT_THAT(captures, IsOkAndHolds(SizeIs(2)));
  EXPECT_THAT((*captures)[0].record.imported.not_understood,
              UnorderedElementsAre(Pair("CUPTI_ACTIVITY_KIND_KERNEL of an unknown process", 1)));
}

TEST_F(NsysHostileTest, OnlyOrdinaryTablesAreRead) {
  const std::string tables = NsysTables(NsysSchema::k2025);
  const std::string kernels = WithKernels("");
  // A view, a virtual table, and a generated column in the places of what is read.
  EXPECT_THAT(
      ImportFile(Make("CREATE TABLE a (b); CREATE VIEW StringIds AS SELECT 1 AS id, 'x' AS "
                      "value; CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT 1 AS start")),
      StatusIs(kInvalidArgument, HasSubstr("not an export")));
  CaptureRecord record;
  EXPECT_THAT(LinesOfFile(Make(StrCat(kernels,
                                      "CREATE VIEW OSRT_API AS SELECT 1 AS globalTid;"
                                      "CREATE TRIGGER t INSERT ON StringIds BEGIN "
                                      "DELETE FROM StringIds; END;")),
                          &record),
              SizeIs(1));
  EXPECT_THAT(record.imported.not_understood, testing::IsEmpty());
  EXPECT_THAT(ImportFile(Make(StrCat(
                  "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
                  "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (globalPid INTEGER, start INTEGER, "
                  "end INTEGER GENERATED ALWAYS AS (start + 1), deviceId INTEGER);"
                  "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (globalPid, start, deviceId) VALUES (",
                  GlobalPid(1), ", 1, 0)"))),
              StatusIs(kInvalidArgument, HasSubstr("none of its events")));
}

TEST_F(NsysHostileTest, TablesOfAnyNameAreCountedUnderACleanOne) {
  CaptureRecord record;
  LinesOfFile(Make(WithKernels("") + "CREATE TABLE \"a\"\"; DROP TABLE StringIds; --\x1b[2J\" (b);"
                                     "INSERT INTO \"a\"\"; DROP TABLE StringIds; --\x1b[2J\" "
                                     "VALUES (1);"),
              &record);
  EXPECT_THAT(record.imported.not_understood,
              UnorderedElementsAre(Pair("a\"; DROP TABLE StringIds; --?[2J", 1)));
}

TEST_F(NsysHostileTest, TextsThatCannotBeFoundByNumberAreUnknown) {
  std::string sql = WithKernels("");
  const std::string_view key = "id INTEGER NOT NULL PRIMARY KEY, value";
  sql.replace(sql.find(key), key.size(), "id INTEGER, value");
  EXPECT_THAT(LinesOfFile(Make(sql)), Contains(HasSubstr("(unnamed)")));
}

TEST_F(NsysHostileTest, DamagedFilesEndInAStatus) {
  const std::string whole = BytesOf(Make(WithKernels("")));
  // Cut off anywhere, and overwritten anywhere.
  for (size_t size :
       {size_t{16}, size_t{17}, size_t{100}, size_t{512}, whole.size() / 2, whole.size() - 4096}) {
    const auto captures = ImportFile(Write("cut.sqlite", whole.substr(0, size)));
    EXPECT_THAT(captures.status(),
                AnyOf(StatusIs(kDataLoss, testing::_), StatusIs(kInvalidArgument, testing::_)))
        << size << " " << captures.status();
  }
  for (size_t at = 100; at < whole.size(); at += 397) {
    std::string damaged = whole;
    for (size_t i = at; i < std::min(at + 16, whole.size()); ++i) damaged[i] = '\xA7';
    const auto captures = ImportFile(Write("damaged.sqlite", damaged));
    if (captures.ok()) continue;
    EXPECT_THAT(captures.status(),
                AnyOf(StatusIs(kDataLoss, testing::_), StatusIs(kInvalidArgument, testing::_),
                      StatusIs(kInternal, testing::_), StatusIs(kFailedPrecondition, testing::_),
                      StatusIs(kResourceExhausted, testing::_)))
        << at;
  }
}

// The children of a table's root are the same page, again and again.
TEST_F(NsysHostileTest, ATableWithMoreRowsThanTheFileHasRoomForIsDamaged) {
  std::string rows;
  for (int i = 0; i < 4000; ++i) rows += Kernel("30", "40", "0, 1, 7, 2");
  const std::filesystem::path path = Make("PRAGMA page_size=512;" + WithKernels(rows));
  size_t root = 0;
  {
    TestDatabase database(path);
    root =
        std::stoul(database.Query("SELECT rootpage FROM sqlite_schema WHERE name = "
                                  "'CUPTI_ACTIVITY_KIND_KERNEL'")[0][0]);
  }
  std::string bytes = BytesOf(path);
  const size_t page = (root - 1) * 512;
  ASSERT_EQ(bytes[page], 5) << "an inner page of a table";
  const auto cells = static_cast<uint8_t>(bytes[page + 4]);
  const auto at = [&](size_t i) {
    return page + (static_cast<uint8_t>(bytes[page + 12 + 2 * i]) << 8 |
                   static_cast<uint8_t>(bytes[page + 13 + 2 * i]));
  };
  // A child that is the page itself: a circle.
  for (size_t i = 0; i < cells; ++i) {
    bytes[at(i) + 2] = static_cast<char>(root >> 8);
    bytes[at(i) + 3] = static_cast<char>(root);
  }
  EXPECT_THAT(ImportFile(Write("circle.sqlite", bytes)), StatusIs(kDataLoss, testing::_));
}

TEST_F(NsysHostileTest, ADatabaseWithALogIsNotReadWithoutIt) {
  const std::filesystem::path path = Make("PRAGMA journal_mode=WAL;" + WithKernels(""));
  EXPECT_THAT(ImportFile(path), StatusIs(kFailedPrecondition, HasSubstr("journal_mode")));
}

TEST_F(NsysHostileTest, GzipIsInflatedUpToALimit) {
  const std::string bytes = BytesOf(Make(WithKernels("")));
  const std::filesystem::path path = folder_ / "report.sqlite.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  EXPECT_TRUE(IsSqliteDatabase(path));
  EXPECT_THAT(ImportFile(path), IsOkAndHolds(SizeIs(1)));
  ImportOptions options;
  options.directory = folder_.path();
  EXPECT_THAT(OpenNsysExport(path, options, 4096).status(),
              StatusIs(kResourceExhausted, HasSubstr("gunzip")));
  Write("cut.gz", BytesOf(path).substr(0, 200));
  EXPECT_THAT(ImportFile(folder_ / "cut.gz"), StatusIs(kDataLoss, testing::_));
}

TEST_F(NsysHostileTest, AProcessWithoutAGoodRowIsCountedInAnother) {
  const auto captures =
      ImportFile(Make(WithKernels(StrCat(", (NULL, 40, 0, 1, 7, 2, ", GlobalPid(42), ", 2)"))));
  ASSERT_THAT(captures, IsOkAndHolds(SizeIs(1)));
  EXPECT_EQ(captures->front().record.target.pid, 41);
  EXPECT_THAT(captures->front().record.imported.not_understood,
              UnorderedElementsAre(Pair("CUPTI_ACTIVITY_KIND_KERNEL without start or end", 1)));
}

TEST_F(NsysHostileTest, NothingIsLeftOfAnImportThatFailed) {
  // Process 41 is fine; that with most rows has none that can be kept.
  const std::string row = StrCat(", (NULL, 40, 0, 1, 7, 2, ", GlobalPid(42), ", 2)");
  ASSERT_THAT(ImportFile(Make(WithKernels(row + row))), StatusIs(kInvalidArgument, testing::_));
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    EXPECT_EQ(entry.path().filename(), "report.sqlite");
  }
}

TEST_F(NsysHostileTest, AnImportIsCancelled) {
  ImportOptions options;
  options.directory = folder_.path();
  options.is_cancelled = [] { return true; };
  std::string rows;
  for (int i = 0; i < 2000; ++i) rows += Kernel("30", "40", "0, 1, 7, 2");
  EXPECT_THAT(ImportNsys(Make(WithKernels(rows)), Clock::Real(), options),
              StatusIs(kCancelled, testing::_));
}

}  // namespace
}  // namespace profd::importer
