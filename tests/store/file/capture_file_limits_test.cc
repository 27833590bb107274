// Many threads, odd names, byte caps and full disks: what is taken is kept, what is not is
// counted.
#include <errno.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "daemon/base/str_cat.h"
#include "daemon/store/file/files.h"
#include "daemon/store/file/reader.h"
#include "daemon/store/file/writer.h"
#include "tests/fakes/file_size_limit.h"
#include "tests/store/store_fixture.h"

namespace profd::store {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::Gt;
using testing::IsEmpty;
using testing::SizeIs;

class CaptureFileLimitsTest : public StoreFixture {
 protected:
  std::unique_ptr<CaptureFileSink> CreateSink(const CaptureRecord& record) {
    EXPECT_THAT(store_->InsertCapture(record), IsOk());
    auto sink = store_->CreateFile(record);
    EXPECT_THAT(sink, IsOk());
    return *std::move(sink);
  }
  ReadBack ReadStored(std::string_view id) {
    auto reader = store_->OpenReader(id);
    EXPECT_THAT(reader, IsOk());
    auto all = ReadAll(**reader);
    EXPECT_THAT(all, IsOk());
    return *std::move(all);
  }
  size_t CountChunks(std::string_view id, RowKind kind) {
    auto reader = CaptureFileReader::Open(File(id, ".profd"), CaptureFileReader::Accept::kSealed);
    EXPECT_THAT(reader, IsOk());
    size_t count = 0;
    for (const ChunkEntry& chunk : (*reader)->contents().chunks) {
      count += chunk.summary.kind == kind ? 1 : 0;
    }
    return count;
  }
  void Finish(CaptureFileSink& sink, const CaptureRecord& begun) {
    CaptureRecord record = FinishedRecord(begun, {.start_ns = 0, .end_ns = 1});
    ASSERT_THAT(sink.Finish(record, 0), IsOk());
    ASSERT_THAT(store_->UpdateCapture(record), IsOk());
  }
};

std::vector<RangeRow> Ranges(int64_t from_ns, size_t count) {
  std::vector<RangeRow> rows;
  for (size_t i = 0; i < count; ++i) {
    rows.push_back({.start_ns = from_ns + static_cast<int64_t>(i) * 10,
                    .duration_ns = static_cast<int64_t>(i % 7),
                    .name = static_cast<uint32_t>(1 + i % 3),
                    .depth = static_cast<uint16_t>(i % 5),
                    .category = 0,
                    .flags = 0});
  }
  return rows;
}
bool Same(const RangeRow& a, const RangeRow& b) {
  return a.start_ns == b.start_ns && a.duration_ns == b.duration_ns && a.name == b.name &&
         a.depth == b.depth && a.category == b.category && a.flags == b.flags;
}

TEST_F(CaptureFileLimitsTest, ThousandsOfThreadsShareChunksAndKeepTheirOrder) {
  const CaptureRecord record = NewRecord(IdOf(1));
  auto sink = CreateSink(record);
  constexpr uint32_t kThreads = 5'000;
  constexpr size_t kRounds = 3;
  constexpr size_t kRows = 17;
  for (size_t round = 0; round < kRounds; ++round) {
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
      const auto rows = Ranges(static_cast<int64_t>(round) * 1'000 + thread, kRows);
      ASSERT_THAT(sink->Append(thread, rows), IsOk());
    }
  }
  Finish(*sink, record);

  EXPECT_EQ(CountChunks(record.id, RowKind::kRange), 4u);  // 255,000 rows
  const ReadBack all = ReadStored(record.id);
  ASSERT_THAT(all.ranges, SizeIs(kThreads));
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    ASSERT_THAT(all.ranges[thread], SizeIs(kRounds * kRows));
    for (size_t i = 0; i < kRounds * kRows; ++i) {
      const auto rows = Ranges(static_cast<int64_t>(i / kRows) * 1'000 + thread, kRows);
      ASSERT_TRUE(Same(all.ranges[thread][i], rows[i % kRows]));
    }
  }
}

TEST_F(CaptureFileLimitsTest, BusyThreadsGetChunksOfTheirOwnWhateverTheBatches) {
  const CaptureRecord record = NewRecord(IdOf(1));
  auto sink = CreateSink(record);
  std::mt19937 random(1);
  std::vector<std::vector<RangeRow>> expected(3);
  for (int batch = 0; batch < 120; ++batch) {
    const uint32_t thread = random() % 3;
    const size_t count = batch == 60 ? 150'000 : 1 + random() % 6'000;
    const auto rows = Ranges(static_cast<int64_t>(expected[thread].size()) * 10, count);
    ASSERT_THAT(sink->Append(thread, rows), IsOk());
    expected[thread].insert(expected[thread].end(), rows.begin(), rows.end());
  }
  Finish(*sink, record);
  const ReadBack all = ReadStored(record.id);
  ASSERT_THAT(all.ranges, SizeIs(3));
  for (size_t thread = 0; thread < 3; ++thread) {
    ASSERT_EQ(all.ranges[thread].size(), expected[thread].size());
    for (size_t i = 0; i < expected[thread].size(); ++i) {
      ASSERT_TRUE(Same(all.ranges[thread][i], expected[thread][i])) << i;
    }
  }
}

TEST_F(CaptureFileLimitsTest, VeryManyStepMarksAreKept) {
  const CaptureRecord record = NewRecord(IdOf(1));
  auto sink = CreateSink(record);
  ASSERT_THAT(sink->AddThread({0, 42, "main"}), IsOk());
  constexpr int64_t kMarks = 200'000;
  std::vector<StepRow> rows;
  for (int64_t i = 0; i < kMarks; ++i) {
    rows.push_back({.time_ns = i, .step = i});
    if (rows.size() < 50'000) continue;
    ASSERT_THAT(sink->Append(0, rows), IsOk());
    rows.clear();
  }
  Finish(*sink, record);
  const auto reader =
      CaptureFileReader::Open(File(record.id, ".profd"), CaptureFileReader::Accept::kSealed);
  ASSERT_THAT(reader, IsOk());
  int64_t marks = 0;
  for (const ChunkEntry& chunk : (*reader)->contents().chunks) {
    EXPECT_GT(chunk.summary.rows, 0);
    if (chunk.summary.kind == RowKind::kStepMark) marks += chunk.summary.rows;
  }
  EXPECT_EQ(marks, kMarks);
}

TEST_F(CaptureFileLimitsTest, RowsThatWaitAreWrittenAfterAWhile) {
  const CaptureRecord record = NewRecord(IdOf(1));
  auto sink = CreateSink(record);
  ASSERT_THAT(sink->Append(0, Ranges(0, 10)), IsOk());
  clock_.Advance(CaptureFileWriter::kMaxBufferedTime + absl::Seconds(1));
  ASSERT_THAT(sink->Append(0, Ranges(1'000, 10)), IsOk());
  Finish(*sink, record);
  EXPECT_EQ(CountChunks(record.id, RowKind::kRange), 2u);
  EXPECT_THAT(ReadStored(record.id).ranges, ElementsAre(SizeIs(20)));
}

TEST_F(CaptureFileLimitsTest, BatchesComeByTimeAndByThread) {
  const CaptureRecord record = NewRecord(IdOf(1));
  auto sink = CreateSink(record);
  for (int64_t second = 0; second < 3; ++second) {
    ASSERT_THAT(sink->Append(0, Ranges(second * 1'000'000, 10)), IsOk());
    ASSERT_THAT(sink->Append(1, Ranges(second * 1'000'000, 10)), IsOk());
    clock_.Advance(absl::Seconds(30));
  }
  Finish(*sink, record);
  auto reader = store_->OpenReader(record.id);
  ASSERT_THAT(reader, IsOk());
  std::vector<int64_t> starts;
  const TimeFilter filter = {.begin_ns = 1'000'000, .end_ns = 1'500'000};
  ASSERT_THAT((*reader)->ForEach<RangeRow>(kRangeStart, filter,
                                           [&](const RangeBatch& batch) {
                                             starts.push_back(batch.start_ns[0]);
                                             EXPECT_THAT(batch.name, IsEmpty());
                                             EXPECT_THAT(batch.duration_ns, IsEmpty());
                                             return absl::OkStatus();
                                           }),
              IsOk());
  EXPECT_THAT(starts, ElementsAre(1'000'000, 1'000'000));
}

TEST_F(CaptureFileLimitsTest, AnErrorOfTheCallerEndsTheScan) {
  const CaptureRecord record = StoreCapture(1);
  auto reader = store_->OpenReader(record.id);
  ASSERT_THAT(reader, IsOk());
  EXPECT_THAT(
      (*reader)->ForEach<RangeRow>(
          kRangeAllColumns, {}, [](const RangeBatch&) { return absl::CancelledError("enough"); }),
      StatusIs(StatusCode::kCancelled));
}

TEST_F(CaptureFileLimitsTest, NamesMayBeAnyBytes) {
  const std::vector<std::string> names = {
      "",         std::string("nul\0inside", 10), "\xff\xfe\x80",     "quote\"back\\slash",
      "\x01\x1f", std::string(4096, 'n'),         "\xf0\x9f\x94\xa5", "7"};
  const CaptureRecord record = NewRecord(IdOf(1));
  auto sink = CreateSink(record);
  for (size_t i = 0; i < names.size(); ++i) {
    ASSERT_THAT(sink->AddName(static_cast<uint32_t>(i + 1), names[i]), IsOk());
  }
  ASSERT_THAT(sink->AddThread({0, 1, "first"}), IsOk());
  ASSERT_THAT(sink->AddThread({0, 1, "later"}), IsOk());
  ASSERT_THAT(sink->Append(0, Ranges(0, 3)), IsOk());
  Finish(*sink, record);
  auto reader = store_->OpenReader(record.id);
  ASSERT_THAT(reader, IsOk());
  ASSERT_THAT((*reader)->names(), SizeIs(names.size() + 1));
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ((*reader)->names()[i + 1], names[i]);
  EXPECT_EQ((*reader)->threads()[0].name, "later");
}

TEST_F(CaptureFileLimitsTest, NamesAndThreadsThatWereNeverIntroducedAreEmpty) {
  const CaptureRecord record = NewRecord(IdOf(1));
  auto sink = CreateSink(record);
  RangeRow row = Ranges(0, 1)[0];
  row.name = 900;
  ASSERT_THAT(sink->Append(7, row), IsOk());
  Finish(*sink, record);
  auto reader = store_->OpenReader(record.id);
  ASSERT_THAT(reader, IsOk());
  ASSERT_THAT((*reader)->names(), SizeIs(901));
  EXPECT_EQ((*reader)->names()[900], "");
  ASSERT_THAT((*reader)->threads(), SizeIs(8));
}

TEST_F(CaptureFileLimitsTest, RowsThatAFileCannotHoldAreOurBugAndEndTheCapture) {
  auto sink = CreateSink(NewRecord(IdOf(1)));
  RangeRow row = Ranges(0, 1)[0];
  row.duration_ns = -1;
  EXPECT_THAT(sink->Append(0, row), StatusIs(StatusCode::kInternal));
  EXPECT_THAT(sink->Append(0, Ranges(0, 1)), StatusIs(StatusCode::kInternal));
  sink->Discard();
}

// ---- the byte cap ----

TEST_F(CaptureFileLimitsTest, AtTheByteCapEverythingTakenIsKeptAndTheRestRefused) {
  CaptureRecord record = NewRecord(IdOf(1));
  record.spec.max_bytes = 2 << 20;
  auto sink = CreateSink(record);
  std::mt19937_64 random(1);
  int64_t now_ns = 0;
  size_t taken = 0;
  absl::Status status;
  while (status.ok()) {
    std::vector<RangeRow> rows = Ranges(0, 2'000);
    for (RangeRow& row : rows) {
      row.start_ns = now_ns += static_cast<int64_t>(random() % 100'000);
      row.duration_ns = static_cast<int64_t>(random() % 1'000'000);
    }
    status = sink->Append(0, rows);
    if (status.ok()) taken += rows.size();
  }
  EXPECT_THAT(status, StatusIs(StatusCode::kOutOfRange));
  EXPECT_THAT(sink->Append(0, Ranges(0, 1)), StatusIs(StatusCode::kOutOfRange));
  EXPECT_THAT(sink->AddName(5, "late"), StatusIs(StatusCode::kOutOfRange));
  Finish(*sink, record);
  EXPECT_THAT(ReadStored(record.id).ranges, ElementsAre(SizeIs(taken)));
  const CaptureRecord stored = Get(record.id);
  EXPECT_LE(stored.file_bytes, record.spec.max_bytes);
  EXPECT_GT(stored.file_bytes, record.spec.max_bytes / 2);
  EXPECT_EQ(TotalDrops(stored.drops), 0);
}

// ---- a full disk ----

// Appends noise until the sink refuses; gives how many rows it took.
int64_t FillUp(CaptureSink& sink, absl::Status& status) {
  std::mt19937_64 random(7);
  int64_t now_ns = 0;
  int64_t taken = 0;
  for (int batch = 0; batch < 5'000; ++batch) {
    std::vector<RangeRow> rows = Ranges(0, 4'000);
    for (RangeRow& row : rows) {
      row.start_ns = now_ns += static_cast<int64_t>(random() % 100'000);
      row.duration_ns = static_cast<int64_t>(random() % 1'000'000);
    }
    status = sink.Append(0, rows);
    if (!status.ok()) break;
    taken += static_cast<int64_t>(rows.size());
  }
  return taken;
}

int64_t CountRanges(const ReadBack& all) {
  int64_t count = 0;
  for (const auto& rows : all.ranges) count += static_cast<int64_t>(rows.size());
  return count;
}

TEST_F(CaptureFileLimitsTest, AFullDiskKeepsWhatIsWrittenAndCountsTheRest) {
  const CaptureRecord earlier = StoreCapture(1);
  const CaptureRecord begun = NewRecord(IdOf(2));
  auto sink = CreateSink(begun);
  absl::Status status;
  int64_t taken = 0;
  {
    const FileSizeLimit limit(1 << 20);
    taken = FillUp(*sink, status);
  }
  ASSERT_THAT(status, StatusIs(StatusCode::kResourceExhausted));
  EXPECT_THAT(sink->Append(0, Ranges(0, 1)), StatusIs(StatusCode::kResourceExhausted));

  CaptureRecord record = FinishedRecord(begun, {.start_ns = 0, .end_ns = 1});
  record.event_count = taken;
  ASSERT_THAT(sink->Finish(record, 0), IsOk());
  ASSERT_THAT(store_->UpdateCapture(record), IsOk());
  EXPECT_EQ(record.state, CaptureState::kPartial);
  EXPECT_EQ(record.ended_by, EndedBy::kDiskFull);
  const int64_t lost = record.drops[static_cast<size_t>(DropReason::kDisk)];
  EXPECT_GT(lost, 0);
  EXPECT_GT(record.event_count, 0);
  EXPECT_EQ(record.event_count + lost, taken);
  EXPECT_EQ(CountRanges(ReadStored(begun.id)), record.event_count);
  EXPECT_THAT(store_->OpenReader(earlier.id), IsOk());
}

TEST_F(CaptureFileLimitsTest, WithoutRoomForTheRecordTheNextStartFinishesTheFile) {
  const CaptureRecord begun = NewRecord(IdOf(2));
  auto sink = CreateSink(begun);
  absl::Status status;
  CaptureRecord record = FinishedRecord(begun, {.start_ns = 0, .end_ns = 1});
  {
    const FileSizeLimit limit(1 << 20);
    FillUp(*sink, status);
    ASSERT_THAT(status, StatusIs(StatusCode::kResourceExhausted));
    const FileSizeLimit nothing_more(100'000);
    ASSERT_THAT(sink->Finish(record, 0), StatusIs(StatusCode::kResourceExhausted));
  }
  sink.reset();
  EXPECT_TRUE(Exists(begun.id, ".part"));
  CaptureRecord failed = begun;
  failed.state = CaptureState::kFailed;
  failed.ended_by = EndedBy::kDiskFull;
  failed.error_reason = "DISK_FULL";
  ASSERT_THAT(store_->UpdateCapture(failed), IsOk());

  Reopen();
  const CaptureRecord found = Get(begun.id);
  EXPECT_EQ(found.state, CaptureState::kPartial);
  EXPECT_EQ(found.ended_by, EndedBy::kDiskFull);
  EXPECT_EQ(found.error_reason, "");
  EXPECT_GT(found.event_count, 0);
  EXPECT_EQ(CountRanges(ReadStored(begun.id)), found.event_count);
  EXPECT_FALSE(Exists(begun.id, ".part"));
}

TEST_F(CaptureFileLimitsTest, ADiskWithoutRoomRefusesTheCaptureAndKeepsNothingOfIt) {
  const FileSizeLimit limit(1 << 20);
  EXPECT_THAT(store_->CreateFile(NewRecord(IdOf(1))), StatusIs(StatusCode::kResourceExhausted));
  EXPECT_FALSE(Exists(IdOf(1), ".reserve"));
  EXPECT_FALSE(Exists(IdOf(1), ".part"));
}

TEST_F(CaptureFileLimitsTest, AFileIsPrivateAndHasItsDiskSpaceBeforeItsFirstRow) {
  const mode_t before = umask(0);
  auto sink = CreateSink(NewRecord(IdOf(1)));
  umask(before);
  struct stat info {};
  ASSERT_EQ(stat(File(IdOf(1), ".part").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_EQ(info.st_uid, geteuid());
  EXPECT_EQ(info.st_size, 0);
  const int64_t tables_bytes = sink->approx_bytes();
  EXPECT_GT(tables_bytes, 0);
  if (info.st_blocks == 0) GTEST_SKIP() << "this file system reserves no space beyond the end";
  EXPECT_GE(info.st_blocks * 512, tables_bytes);
  ASSERT_THAT(sink->AddName(1, "forward"), IsOk());
  ASSERT_EQ(stat(File(IdOf(1), ".part").c_str(), &info), 0);
  EXPECT_EQ(info.st_size, tables_bytes);
  sink->Discard();
  EXPECT_FALSE(Exists(IdOf(1), ".part"));
}

TEST_F(CaptureFileLimitsTest, ADiskThatFillsUpBeforeTheFirstRowEndsTheCapture) {
  const CaptureRecord begun = NewRecord(IdOf(1));
  auto sink = CreateSink(begun);
  {
    const FileSizeLimit limit(100'000);
    EXPECT_THAT(sink->AddName(1, "forward"), StatusIs(StatusCode::kResourceExhausted));
    EXPECT_EQ(FileBytes(File(begun.id, ".part")).value_or(-1), 0);
  }
  EXPECT_THAT(sink->Append(0, Ranges(0, 1)), StatusIs(StatusCode::kResourceExhausted));
  // The record still goes into the file, from the reserve.
  CaptureRecord record = FinishedRecord(begun, {.start_ns = 0, .end_ns = 1});
  record.event_count = 0;
  EXPECT_THAT(sink->Finish(record, 0), IsOk());
  EXPECT_EQ(CountRanges(ReadStored(begun.id)), 0);
}

TEST_F(CaptureFileLimitsTest, ARowWithoutAThreadBeginsTheFileToo) {
  const CaptureRecord begun = NewRecord(IdOf(1));
  auto sink = CreateSink(begun);
  const GpuRow row = {.start_ns = 1, .duration_ns = 1, .kind = GpuRowKind::kMemset};
  {
    const FileSizeLimit limit(100'000);
    EXPECT_THAT(sink->Append(std::vector{row}), StatusIs(StatusCode::kResourceExhausted));
  }
  sink->Discard();
  sink = CreateSink(NewRecord(IdOf(2)));
  ASSERT_THAT(sink->Append(std::vector{row}), IsOk());
  EXPECT_EQ(FileBytes(File(IdOf(2), ".part")).value_or(-1), sink->approx_bytes());
}

TEST_F(CaptureFileLimitsTest, AFileThatCannotBeFinishedIsNotTriedAgain) {
  const CaptureRecord begun = NewRecord(IdOf(1));
  auto sink = CreateSink(begun);
  CaptureRecord record = FinishedRecord(begun, {.start_ns = 0, .end_ns = 1});
  {
    const FileSizeLimit limit(100'000);
    EXPECT_THAT(sink->Finish(record, 0), StatusIs(StatusCode::kResourceExhausted));
  }
  EXPECT_THAT(sink->Finish(record, 0), StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_THAT(sink->Append(0, Ranges(0, 1)), StatusIs(StatusCode::kResourceExhausted));
  sink.reset();
  EXPECT_EQ(FileBytes(File(begun.id, ".part")).value_or(-1), 0);
}

TEST_F(CaptureFileLimitsTest, OnlyAnEmptyFileCountsWithWhatIsReservedForIt) {
  const std::filesystem::path path = File(IdOf(1), ".part");
  ASSERT_THAT(ReserveNewFile(path, 1 << 20), IsOk());
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  if (info.st_blocks == 0) GTEST_SKIP() << "this file system reserves no space beyond the end";
  EXPECT_GE(FileOrDiskBytes(path).value_or(0), 1 << 20);
  ASSERT_THAT(FillFile(path, std::string(5'000, 'x')), IsOk());
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_GE(info.st_blocks * 512, 1 << 20);
  EXPECT_EQ(FileOrDiskBytes(path).value_or(0), 5'000);
  ASSERT_THAT(FillFile(path, "short"), IsOk());
  EXPECT_EQ(FileOrDiskBytes(path).value_or(0), 5);
}

TEST_F(CaptureFileLimitsTest, AFolderThatIsGoneBeforeTheFirstRowIsAnErrorOfTheSink) {
  const CaptureRecord begun = NewRecord(IdOf(1));
  auto sink = CreateSink(begun);
  std::filesystem::remove_all(File(begun.id, ".part").parent_path());
  EXPECT_THAT(sink->AddName(1, "forward"), StatusIs(StatusCode::kNotFound));
  CaptureRecord record = FinishedRecord(begun, {.start_ns = 0, .end_ns = 1});
  EXPECT_THAT(sink->Finish(record, 0), StatusIs(StatusCode::kNotFound));
  sink->Discard();
}

TEST_F(CaptureFileLimitsTest, AFileThatIsThereAlreadyIsNotOverwritten) {
  auto sink = CreateSink(NewRecord(IdOf(1)));
  EXPECT_FALSE(store_->CreateFile(NewRecord(IdOf(1))).ok());
  EXPECT_TRUE(Exists(IdOf(1), ".part"));
  sink->Discard();
}

// A small file system of its own, for as long as it lives.
class SmallDisk {
 public:
  SmallDisk(const std::filesystem::path& at, const char* options) : at_(at) {
    std::filesystem::create_directories(at);
    error_ = mount("tmpfs", at.c_str(), "tmpfs", 0, options) == 0 ? 0 : errno;
  }
  ~SmallDisk() {
    if (error_ == 0) umount2(at_.c_str(), MNT_DETACH);
  }
  int error() const { return error_; }

 private:
  const std::filesystem::path at_;
  int error_;
};

TEST_F(CaptureFileLimitsTest, AFullFileSystemKeepsTheCaptureAndTheOnesBefore) {
  store_.reset();
  const SmallDisk disk(folder_ / "data", "size=8m,mode=0700");
  if (disk.error() != 0) GTEST_SKIP() << "no tmpfs can be mounted here: " << strerror(disk.error());
  Reopen();
  const CaptureRecord earlier = StoreCapture(1);
  const CaptureRecord begun = NewRecord(IdOf(2));
  auto sink = CreateSink(begun);
  absl::Status status;
  const int64_t taken = FillUp(*sink, status);
  ASSERT_THAT(status, StatusIs(StatusCode::kResourceExhausted));

  CaptureRecord record = FinishedRecord(begun, {.start_ns = 0, .end_ns = 1});
  record.event_count = taken;
  ASSERT_THAT(sink->Finish(record, 0), IsOk());
  ASSERT_THAT(store_->UpdateCapture(record), IsOk());
  EXPECT_EQ(CountRanges(ReadStored(begun.id)), record.event_count);
  EXPECT_EQ(record.event_count + record.drops[static_cast<size_t>(DropReason::kDisk)], taken);
  EXPECT_EQ(ReadStored(earlier.id).ranges.size(), 1u);

  // Deleting makes the room that the next capture needs.
  ASSERT_THAT(store_->DeleteCapture(begun.id), IsOk());
  StoreCapture(3);
  Reopen();
  EXPECT_THAT(store_->OpenReader(IdOf(3)), IsOk());
  store_.reset();
}

}  // namespace
}  // namespace profd::store
