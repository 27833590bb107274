// A capture file that we did not write, or that was changed since, does no harm: it is
// refused with the right code, or read correctly.
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <fstream>
#include <random>
#include <sstream>

#include "daemon/base/str_cat.h"
#include "daemon/store/file/reader.h"
#include "daemon/store/file/schema.h"
#include "daemon/store/file/writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/sanitized.h"
#include "tests/fakes/status_matchers.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd::store {
namespace {

using absl::StatusCode;
using testing::AnyOf;
using testing::HasSubstr;

std::string Slurp(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
void Spill(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Everything a file says, as text; two files that say the same give the same.
absl::StatusOr<std::string> Describe(const std::filesystem::path& path) {
  auto reader = CaptureReader::Open(path);
  if (!reader.ok()) return reader.status();
  std::string text = (*reader)->record().id;
  for (const std::string& name : (*reader)->names()) StrAppend(&text, "|", name);
  for (const ReaderThread& thread : (*reader)->threads()) {
    StrAppend(&text, "|", thread.os_thread, thread.name);
  }
  for (const StepRecord& step : (*reader)->steps()) {
    StrAppend(&text, "|", step.index, ",", step.start_ns, ",", step.duration_ns);
  }
  auto all = ReadAll(**reader);
  if (!all.ok()) return all.status();
  for (size_t thread = 0; thread < all->ranges.size(); ++thread) {
    for (const RangeRow& row : all->ranges[thread]) {
      StrAppend(&text, "|r", thread, ",", row.start_ns, ",", row.duration_ns, ",", row.name, ",",
                row.depth, ",", int{row.category}, ",", int{row.flags});
    }
  }
  for (size_t thread = 0; thread < all->memory.size(); ++thread) {
    for (const MemoryRow& row : all->memory[thread]) {
      StrAppend(&text, "|m", thread, ",", row.time_ns, ",", row.address, ",", row.bytes);
    }
  }
  for (size_t thread = 0; thread < all->api_calls.size(); ++thread) {
    for (const ApiRow& row : all->api_calls[thread]) {
      StrAppend(&text, "|a", thread, ",", row.start_ns, ",", row.name, ",", row.correlation);
    }
  }
  for (const GpuRow& row : all->gpu) {
    StrAppend(&text, "|g", row.start_ns, ",", row.duration_ns, ",", row.name, ",", row.stream, ",",
              row.correlation, ",", row.grid[0], ",", row.registers_per_thread);
  }
  for (const OperatorInputs& inputs : (*reader)->inputs()) {
    StrAppend(&text, "|i", inputs.dims, inputs.types, inputs.strides);
  }
  for (const std::string& scalars : (*reader)->scalars()) StrAppend(&text, "|s", scalars);
  for (size_t thread = 0; thread < all->operators.size(); ++thread) {
    for (const OperatorRow& row : all->operators[thread]) {
      StrAppend(&text, "|o", thread, ",", row.start_ns, ",", row.sequence, ",", row.inputs, ",",
                row.scalars);
    }
  }
  for (const BlockRow& row : all->blocks) StrAppend(&text, "|b", row.address, ",", row.name);
  return text;
}

class CaptureFileHostileTest : public testing::Test {
 protected:
  void SetUp() override {
    CaptureRecord record = NewRecord(IdOf(1));
    auto writer = CaptureFileWriter::Create(record, clock_, {.directory = folder_.path()});
    ASSERT_THAT(writer, IsOk());
    StepPattern pattern(1, 20);
    ASSERT_THAT(IntroducePattern(pattern, 2, **writer), IsOk());
    std::vector<RangeRow> ranges = pattern.NextRanges();
    ranges.resize(60);
    std::vector<MemoryRow> memory = pattern.Memory();
    memory.resize(10);
    ASSERT_THAT((*writer)->Append(0, ranges), IsOk());
    ASSERT_THAT((*writer)->Append(1, ranges), IsOk());
    ASSERT_THAT((*writer)->Append(1, memory), IsOk());
    const std::vector<StepRow> marks = {{0, 7}, {1'000, 8}};
    ASSERT_THAT((*writer)->Append(0, marks), IsOk());
    GpuPattern gpu(1, 20);
    ASSERT_THAT((*writer)->Append(gpu.NextRows(20)), IsOk());
    ASSERT_THAT((*writer)->Append(1, gpu.ApiCalls()), IsOk());
    ASSERT_THAT(IntroduceInputs(**writer), IsOk());
    ASSERT_THAT((*writer)->Append(1, OperatorsOf(ranges)), IsOk());
    const BlockRow block = {0x1000, 4'096, 3, 1, 0, 0};
    ASSERT_THAT((*writer)->Append(block), IsOk());
    const ArgumentRow argument = {kArgumentOfRange, 0, 5, 2, ArgumentType::kJson, 3};
    ASSERT_THAT((*writer)->Append(argument), IsOk());
    const GpuAnnotationRow annotation = {100, 50, 3, 0, 7, 12};
    ASSERT_THAT((*writer)->Append(annotation), IsOk());
    record =
        FinishedRecord(record, {.start_ns = 0, .end_ns = 1'000, .first_step = 7, .end_step = 8});
    ASSERT_THAT((*writer)->Finish(record, 0), IsOk());
    good_path_ = folder_ / (IdOf(1) + ".profd");
    good_ = Slurp(good_path_);
    const auto said = Describe(good_path_);
    ASSERT_THAT(said, IsOk());
    good_says_ = *said;
  }

  absl::Status Open(std::string_view bytes) {
    Spill(bad_path_, bytes);
    return CaptureReader::Open(bad_path_).status();
  }
  // A copy of the good file after `sql`, with all of SQLite's doors open.
  std::filesystem::path Changed(const std::string& sql) {
    Spill(bad_path_, good_);
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(bad_path_.c_str(), &db), SQLITE_OK);
    char* error = nullptr;
    EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK) << error;
    sqlite3_close(db);
    return bad_path_;
  }
  // As Changed(), with the checksum over the contents made right again.
  std::filesystem::path ChangedAndSigned(const std::string& sql) {
    Changed(StrCat("UPDATE meta SET value = 0 WHERE key = 'sealed';", sql));
    auto db = Database::Open(bad_path_, Database::Mode::kReadWrite);
    EXPECT_THAT(db, IsOk());
    const auto contents = CaptureContents::Load(**db);
    if (contents.ok()) {
      EXPECT_THAT(SetMeta(**db, kMetaCrc, contents->crc), IsOk());
    }
    EXPECT_THAT(SetMeta(**db, kMetaSealed, 1), IsOk());
    return bad_path_;
  }

  TemporaryFolder folder_;
  ManualClock clock_;
  std::filesystem::path good_path_;
  const std::filesystem::path bad_path_ = folder_ / "bad.profd";
  std::string good_;
  std::string good_says_;
};

TEST_F(CaptureFileHostileTest, AFileThatIsNoCaptureIsAnInvalidArgument) {
  EXPECT_THAT(Open(""), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(Open("{\"traceEvents\": []}"), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(Open(std::string(1 << 20, '\0')), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(CaptureReader::Open(folder_.path()), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(CaptureReader::Open("/dev/null"), StatusIs(StatusCode::kInvalidArgument));
}

TEST_F(CaptureFileHostileTest, APipeIsRefusedAndNotWaitedFor) {
  const auto pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(CaptureReader::Open(pipe), StatusIs(StatusCode::kInvalidArgument));
}

TEST_F(CaptureFileHostileTest, AFileThatIsNotThereIsNotFound) {
  EXPECT_THAT(CaptureReader::Open(folder_ / "none.profd"), StatusIs(StatusCode::kNotFound));
}

TEST_F(CaptureFileHostileTest, AnotherProgramsDatabaseIsAnInvalidArgument) {
  const auto path = folder_ / "foreign.db";
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  sqlite3_exec(db, "CREATE TABLE t(x); INSERT INTO t VALUES(1)", nullptr, nullptr, nullptr);
  sqlite3_close(db);
  EXPECT_THAT(CaptureReader::Open(path),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("another program")));
}

TEST_F(CaptureFileHostileTest, ANewerFormatIsAFailedPrecondition) {
  EXPECT_THAT(CaptureReader::Open(Changed(StrCat("PRAGMA user_version = ", kFormatVersion + 1))),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("newer profd")));
}

TEST_F(CaptureFileHostileTest, TablesThatAreNotOursAreDataLoss) {
  for (const char* sql :
       {"CREATE TABLE more(x)", "CREATE VIEW v AS SELECT * FROM meta",
        "CREATE TRIGGER t AFTER INSERT ON meta BEGIN DELETE FROM meta; END", "DROP TABLE drops",
        "ALTER TABLE drops ADD COLUMN x", "DROP INDEX chunk_directory", "DROP TABLE scalars",
        "PRAGMA user_version = 1",
        "DROP TABLE threads; CREATE VIEW threads AS SELECT 0 AS id, 0 AS os_thread, '' AS name"}) {
    EXPECT_THAT(CaptureReader::Open(Changed(sql)), StatusIs(StatusCode::kDataLoss)) << sql;
  }
}

TEST_F(CaptureFileHostileTest, ContentsThatWereChangedAreDataLoss) {
  for (const char* sql :
       {"UPDATE strings SET value = 'other' WHERE id = 3", "DELETE FROM strings WHERE id = 19",
        "INSERT INTO strings VALUES(500, 'x')", "UPDATE threads SET name = 'x' WHERE id = 1",
        "DELETE FROM steps", "UPDATE steps SET duration_ns = 5", "DELETE FROM chunks WHERE id = 1",
        "UPDATE chunks SET rows = rows - 1 WHERE id = 1", "UPDATE chunks SET kind = 2 WHERE id = 1",
        "UPDATE meta SET value = value + 1 WHERE key = 'epoch_offset_ns'",
        "UPDATE meta SET value = replace(value, '4711', '4712') WHERE key = 'record'",
        "UPDATE inputs SET dims = '[[9,9]]' WHERE id = 2", "DELETE FROM scalars WHERE id = 12",
        "INSERT INTO inputs VALUES(500, '', '', '')", "DELETE FROM meta WHERE key = 'record'",
        "DELETE FROM meta WHERE key = 'contents_crc32'"}) {
    EXPECT_THAT(CaptureReader::Open(Changed(sql)), StatusIs(StatusCode::kDataLoss)) << sql;
  }
}

TEST_F(CaptureFileHostileTest, AnUnfinishedFileSaysWhoFinishesIt) {
  EXPECT_THAT(CaptureReader::Open(Changed("UPDATE meta SET value = 0 WHERE key = 'sealed'")),
              StatusIs(StatusCode::kDataLoss, HasSubstr("unfinished")));
}

// Whoever can compute our checksums can still not make us read outside of anything.
TEST_F(CaptureFileHostileTest, LiesWithRightChecksumsAreFoundWhenTheyMatter) {
  for (const char* sql :
       {"DELETE FROM strings WHERE id > 2",
        "DELETE FROM threads WHERE id = 1",
        "INSERT INTO strings VALUES(2000000, 'x')",
        "INSERT INTO strings VALUES(-5, 'x')",
        "INSERT INTO threads(id) VALUES(99999999)",
        "DELETE FROM inputs WHERE id > 2",
        "DELETE FROM scalars",
        "INSERT INTO inputs VALUES(2000000, '', '', '')",
        "INSERT INTO scalars VALUES(-5, '')",
        "UPDATE steps SET duration_ns = -1",
        "UPDATE steps SET start_ns = 9223372036854775807",
        "UPDATE meta SET value = 9223372036854775807 WHERE key = 'epoch_offset_ns'",
        "UPDATE chunks SET rows = 65537 WHERE id = 1",
        "UPDATE chunks SET rows = 5 WHERE id = 1",
        "UPDATE chunks SET begin_ns = end_ns + 1",
        "UPDATE chunks SET data = NULL",
        "UPDATE chunks SET data = 7",
        "UPDATE chunks SET data = 'text'",
        "UPDATE chunks SET data = x''",
        "UPDATE chunks SET data = zeroblob(1000000)",
        "UPDATE chunks SET data = substr(data, 1, length(data) - 1)",
        "UPDATE chunks SET data = data || x'00'",
        "UPDATE chunks SET kind=200 WHERE id=1; UPDATE meta SET value='[' WHERE key='record'"}) {
    EXPECT_THAT(Describe(ChangedAndSigned(sql)), StatusIs(StatusCode::kDataLoss)) << sql;
  }
}

TEST_F(CaptureFileHostileTest, ThreadNamesAreCleaned) {
  const auto path = ChangedAndSigned("UPDATE threads SET name = x'61ff' WHERE id = 0");
  auto reader = CaptureReader::Open(path);
  ASSERT_THAT(reader, IsOk());
  EXPECT_EQ((*reader)->threads()[0].name, "a\xef\xbf\xbd");
}

TEST_F(CaptureFileHostileTest, KindsOfTheFutureAreSkipped) {
  const auto path = ChangedAndSigned("UPDATE chunks SET kind = 200 WHERE kind = 4");
  auto reader = CaptureReader::Open(path);
  ASSERT_THAT(reader, IsOk());
  const auto all = ReadAll(**reader);
  ASSERT_THAT(all, IsOk());
  EXPECT_TRUE(all->memory.empty());
  EXPECT_FALSE(all->ranges.empty());
}

TEST_F(CaptureFileHostileTest, TruncatedOrLongerFilesAreDataLoss) {
  for (const size_t size :
       {good_.size() - 1, good_.size() / 2, size_t{16'384}, size_t{4'096}, size_t{100}}) {
    EXPECT_THAT(Open(std::string_view(good_).substr(0, size)), StatusIs(StatusCode::kDataLoss))
        << size;
  }
  EXPECT_THAT(Open(good_ + "x"), StatusIs(StatusCode::kDataLoss));
}

// Walks over the whole file: every byte that is in use, every 16th of the padding.
TEST_F(CaptureFileHostileTest, AFlippedBitIsNoticedOrDoesNotMatter) {
  Spill(bad_path_, good_);
  const int file = open(bad_path_.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  std::mt19937 random(1);
  int refused = 0;
  size_t stride = 1;
  for (size_t position = 0; position < good_.size(); position += stride) {
    stride = (good_[position] == 0 ? 61 : 7) * (kSanitized ? 5 : 1);
    const auto flipped = static_cast<char>(good_[position] ^ (1 << (random() % 8)));
    ASSERT_EQ(pwrite(file, &flipped, 1, static_cast<off_t>(position)), 1);
    const absl::StatusOr<std::string> said = Describe(bad_path_);
    if (said.ok()) {
      ASSERT_EQ(*said, good_says_) << "at byte " << position;
    } else {
      ++refused;
      // Of the header alone another kind or version of file can be made.
      const bool in_header = position < 100;
      ASSERT_THAT(said, AnyOf(StatusIs(StatusCode::kDataLoss),
                              testing::Conditional(in_header,
                                                   AnyOf(StatusIs(StatusCode::kInvalidArgument),
                                                         StatusIs(StatusCode::kFailedPrecondition)),
                                                   StatusIs(StatusCode::kDataLoss))))
          << "at byte " << position;
    }
    ASSERT_EQ(pwrite(file, &good_[position], 1, static_cast<off_t>(position)), 1);
  }
  close(file);
  EXPECT_GT(refused, 100);
}

TEST_F(CaptureFileHostileTest, PagesSwappedOrOverwrittenDoNoHarm) {
  constexpr size_t kPage = 16'384;
  std::mt19937 random(2);
  const size_t pages = good_.size() / kPage;
  for (int round = 0; round < 200; ++round) {
    std::string bad = good_;
    const size_t from = random() % pages;
    const size_t to = random() % pages;
    if (round % 2 == 0) {
      bad.replace(to * kPage, kPage, good_, from * kPage, kPage);
    } else {
      for (int i = 0; i < 64; ++i) {
        bad[to * kPage + random() % 256] = static_cast<char>(random());
      }
    }
    Spill(bad_path_, bad);
    const absl::StatusOr<std::string> said = Describe(bad_path_);
    if (said.ok()) {
      EXPECT_EQ(*said, good_says_);
    }
  }
}

}  // namespace
}  // namespace profd::store
