// What happened on a GPU comes back from a capture file as it was put in, and a file that lies
// about it is refused.
#include <limits>

#include "daemon/base/str_cat.h"
#include "daemon/store/file/chunk_codec.h"
#include "daemon/store/file/reader.h"
#include "daemon/store/file/schema.h"
#include "tests/store/file/lying_chunk.h"
#include "tests/store/store_fixture.h"

namespace profd::store {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kMostNs = kMaxTimeNs;

// No field has the value of another.
GpuRow FullGpuRow() {
  return {.start_ns = 5'000,
          .duration_ns = 700,
          .kind = GpuRowKind::kKernel,
          .flags = kKnownGpuFlags,
          .device = 3,
          .context = 4,
          .stream = 5,
          .correlation = 6,
          .name = 2,
          .graph_id = 7,
          .graph_node_id = 8,
          .bytes = 9,
          .copy_kind = 10,
          .source_kind = 11,
          .destination_kind = 12,
          .source_device = 13,
          .destination_device = 14,
          .queued_ns = 4'100,
          .submitted_ns = 4'200,
          .grid = {15, 16, 17},
          .block = {18, 19, 20},
          .cluster = {21, 22, 23},
          .registers_per_thread = 24,
          .static_shared_bytes = 25,
          .dynamic_shared_bytes = 26,
          .local_bytes_per_thread = 27};
}

class CaptureFileGpuTest : public StoreFixture {
 protected:
  std::unique_ptr<CaptureFileSink> CreateSink() {
    const CaptureRecord record = NewRecord(id_);
    EXPECT_THAT(store_->InsertCapture(record), IsOk());
    auto sink = store_->CreateFile(record);
    EXPECT_THAT(sink, IsOk());
    EXPECT_THAT((*sink)->AddName(1, "(other)"), IsOk());
    EXPECT_THAT((*sink)->AddName(2, "_Z4gemm"), IsOk());
    return *std::move(sink);
  }
  void Finish(CaptureFileSink& sink, int64_t start_ns = 0) {
    CaptureRecord record = FinishedRecord(NewRecord(id_), {.start_ns = 0, .end_ns = 1});
    ASSERT_THAT(sink.Finish(record, start_ns), IsOk());
    ASSERT_THAT(store_->UpdateCapture(record), IsOk());
  }
  std::unique_ptr<CaptureFileReader> OpenFile() {
    auto reader = CaptureFileReader::Open(File(id_, ".profd"), CaptureFileReader::Accept::kSealed);
    EXPECT_THAT(reader, IsOk());
    return *std::move(reader);
  }
  ReadBack ReadStored() {
    auto all = ReadAll(*OpenFile());
    EXPECT_THAT(all, IsOk());
    return *std::move(all);
  }

  std::string id_ = IdOf(1);
};

TEST_F(CaptureFileGpuTest, GivesBackEveryFieldSinceTheCapturesStart) {
  auto sink = CreateSink();
  const ApiRow call = {1'100, 50, 2, 6, 211, -700, true};
  const GpuRow kernel = FullGpuRow();
  const SyncRow sync = {2'000, 10, 3, kNoGpuDevice, 4, UINT32_MAX, 8, 9};
  const OverheadRow overhead = {3'000, 20, 1 << 16, 4711, 12};
  const CudaEventRow event = {13, 14, 15, 16};
  ASSERT_THAT(sink->Append(1, call), IsOk());
  ASSERT_THAT(sink->Append(kernel), IsOk());
  ASSERT_THAT(sink->Append(sync), IsOk());
  ASSERT_THAT(sink->Append(overhead), IsOk());
  ASSERT_THAT(sink->Append(event), IsOk());
  Finish(*sink, /*start_ns=*/1'000);

  const ReadBack all = ReadStored();
  ApiRow call_since = call;
  call_since.start_ns -= 1'000;
  EXPECT_THAT(all.api_calls, ElementsAre(IsEmpty(), ElementsAre(call_since)));
  GpuRow kernel_since = kernel;
  kernel_since.start_ns -= 1'000;
  kernel_since.queued_ns -= 1'000;
  kernel_since.submitted_ns -= 1'000;
  EXPECT_THAT(all.gpu, ElementsAre(kernel_since));
  SyncRow sync_since = sync;
  sync_since.start_ns -= 1'000;
  EXPECT_THAT(all.syncs, ElementsAre(sync_since));
  OverheadRow overhead_since = overhead;
  overhead_since.start_ns -= 1'000;
  EXPECT_THAT(all.overheads, ElementsAre(overhead_since));
  EXPECT_THAT(all.cuda_events, ElementsAre(event));
}

TEST_F(CaptureFileGpuTest, TimesAtTheEdgesAreKept) {
  auto sink = CreateSink();
  GpuRow early = FullGpuRow();
  early.start_ns = -kMostNs;
  early.duration_ns = kMostNs;
  early.queued_ns = kMostNs;  // Behind its start: kept as it came.
  early.submitted_ns = -kMostNs;
  GpuRow late = FullGpuRow();
  late.start_ns = kMostNs;
  late.duration_ns = 0;
  late.queued_ns = -kMostNs;
  late.submitted_ns = kNoGpuTime;
  ASSERT_THAT(sink->Append(std::vector{early, late}), IsOk());
  Finish(*sink);
  EXPECT_THAT(ReadStored().gpu, ElementsAre(early, late));
}

// Readers of formats 1 and 2 take the number 5 of a decompression for damage, so they must see that
// the file is newer.
TEST_F(CaptureFileGpuTest, AFileHasTheVersionThatItsKindsOfWorkNeed) {
  const auto version_of = [this](int number, GpuRowKind last_kind, bool with_inputs) {
    const std::string id = IdOf(number);
    auto sink = store_->CreateFile(NewRecord(id));
    EXPECT_THAT(sink, IsOk());
    if (with_inputs) {
      EXPECT_THAT((*sink)->AddInputs(1, {"[]", "[]", ""}), IsOk());
    }
    for (int kind = 1; kind <= static_cast<int>(last_kind); ++kind) {
      GpuRow row = FullGpuRow();
      row.kind = static_cast<GpuRowKind>(kind);
      EXPECT_THAT((*sink)->Append(row), IsOk());
    }
    CaptureRecord record = FinishedRecord(NewRecord(id), {.start_ns = 0, .end_ns = 1});
    EXPECT_THAT((*sink)->Finish(record, 1'000), IsOk());
    auto reader = CaptureFileReader::Open(File(id, ".profd"), CaptureFileReader::Accept::kSealed);
    EXPECT_THAT(reader, IsOk());
    auto all = ReadAll(**reader);
    EXPECT_THAT(all, IsOk());
    EXPECT_EQ(all->gpu.size(), static_cast<size_t>(last_kind));
    auto db = Database::Open(File(id, ".profd"), Database::Mode::kImmutableUntrusted);
    EXPECT_THAT(db, IsOk());
    const auto version = (*db)->QueryInt("PRAGMA user_version");
    EXPECT_THAT(version, IsOk());
    return version.value_or(-1);
  };
  static_assert(kGpuKinds.back().file_version <= kFormatVersion);
  EXPECT_EQ(version_of(1, GpuRowKind::kGraphLaunch, /*with_inputs=*/false), 1);
  EXPECT_EQ(version_of(2, GpuRowKind::kGraphLaunch, /*with_inputs=*/true), 2);
  EXPECT_EQ(version_of(3, GpuRowKind::kMemDecompress, /*with_inputs=*/false), 3);
  EXPECT_EQ(version_of(4, GpuRowKind::kMemDecompress, /*with_inputs=*/true), 3);
}

// Recovery, and profd of an earlier version, find such a file if the daemon dies.
TEST_F(CaptureFileGpuTest, AnUnfinishedFileHasTheVersionThatItsRowsNeedFromTheirCommitOn) {
  const std::string id = IdOf(1);
  const auto version = [&] {
    auto db = Database::Open(File(id, ".part"), Database::Mode::kImmutableUntrusted);
    EXPECT_THAT(db, IsOk());
    return (*db)->QueryInt("PRAGMA user_version").value_or(-1);
  };
  auto sink = store_->CreateFile(NewRecord(id));
  ASSERT_THAT(sink, IsOk());
  GpuRow row = FullGpuRow();
  // One more than a chunk: the first chunk is committed.
  const std::vector<GpuRow> kernels(kMaxChunkRows, row);
  ASSERT_THAT((*sink)->Append(kernels), IsOk());
  row.kind = GpuRowKind::kMemDecompress;
  EXPECT_EQ(version(), 1);
  ASSERT_THAT((*sink)->Append(row), IsOk());
  sink->reset();
  EXPECT_EQ(version(), 3);
  EXPECT_THAT(CheckCaptureFileHeader(File(id, ".part")), IsOk());
}

TEST_F(CaptureFileGpuTest, RowsThatNoFileCanHoldAreRefused) {
  const auto changed = [](auto change) {
    GpuRow row = FullGpuRow();
    change(row);
    return row;
  };
  const std::vector<GpuRow> bad = {
      changed([](GpuRow& row) { row.start_ns = kMostNs + 1; }),
      changed([](GpuRow& row) { row.duration_ns = -1; }),
      changed([](GpuRow& row) { row.duration_ns = kMostNs; }),
      changed([](GpuRow& row) { row.kind = GpuRowKind{0}; }),
      changed([](GpuRow& row) { row.kind = GpuRowKind{kGpuKinds.size() + 1}; }),
      changed([](GpuRow& row) { row.flags = 0x80; }),
      changed([](GpuRow& row) { row.queued_ns = kNoGpuTime + 1; }),
      changed([](GpuRow& row) { row.submitted_ns = kMostNs + 1; }),
  };
  int number = 1;
  for (const GpuRow& row : bad) {
    auto sink = store_->CreateFile(NewRecord(IdOf(++number)));
    ASSERT_THAT(sink, IsOk());
    EXPECT_THAT((*sink)->Append(row), StatusIs(StatusCode::kInternal)) << number;
    (*sink)->Discard();
  }
}

TEST_F(CaptureFileGpuTest, GroupsOfColumnsThatNobodyAskedForStayEmpty) {
  auto sink = CreateSink();
  const GpuRow row = FullGpuRow();
  ASSERT_THAT(sink->Append(row), IsOk());
  Finish(*sink);
  auto reader = OpenFile();
  for (uint32_t columns = 0; columns <= kGpuAllColumns; ++columns) {
    int batches = 0;
    ASSERT_THAT(reader->ForEach<GpuRow>(columns, {},
                                        [&](const GpuBatch& batch) {
                                          const auto size = [columns](uint32_t group) {
                                            return SizeIs((columns & group) != 0 ? 1 : 0);
                                          };
                                          ++batches;
                                          EXPECT_EQ(batch.size, 1u);
                                          EXPECT_THAT(batch.start_ns, size(kGpuTime));
                                          EXPECT_THAT(batch.duration_ns, size(kGpuTime));
                                          EXPECT_THAT(batch.kind, size(kGpuWhat));
                                          EXPECT_THAT(batch.bytes, size(kGpuWhat));
                                          EXPECT_THAT(batch.device, size(kGpuWhere));
                                          EXPECT_THAT(batch.stream, size(kGpuWhere));
                                          EXPECT_THAT(batch.correlation, size(kGpuCause));
                                          EXPECT_THAT(batch.graph_node_id, size(kGpuCause));
                                          EXPECT_THAT(batch.copy_kind, size(kGpuCopy));
                                          EXPECT_THAT(batch.destination_device, size(kGpuCopy));
                                          EXPECT_THAT(batch.queued_ns, size(kGpuLaunch));
                                          EXPECT_THAT(batch.local_bytes_per_thread,
                                                      size(kGpuLaunch));
                                          if ((columns & kGpuLaunch) != 0) {
                                            EXPECT_EQ(batch.queued_ns[0], row.queued_ns);
                                          }
                                          return absl::OkStatus();
                                        }),
                IsOk());
    EXPECT_EQ(batches, 1) << columns;
  }
}

TEST_F(CaptureFileGpuTest, ManyRowsFillChunksAndAreCountedWithoutReadingThem) {
  auto sink = CreateSink();
  GpuPattern pattern(1, 3);
  std::vector<GpuRow> rows;
  std::vector<ApiRow> calls;
  while (rows.size() < 150'000) {
    const std::vector<GpuRow>& batch = pattern.NextRows(3'000);
    ASSERT_THAT(sink->Append(batch), IsOk());
    ASSERT_THAT(sink->Append(0, pattern.ApiCalls()), IsOk());
    rows.insert(rows.end(), batch.begin(), batch.end());
    calls.insert(calls.end(), pattern.ApiCalls().begin(), pattern.ApiCalls().end());
  }
  Finish(*sink);
  EXPECT_EQ(OpenFile()->gpu_row_count(), static_cast<int64_t>(rows.size()));
  const ReadBack all = ReadStored();
  EXPECT_TRUE(all.gpu == rows);
  ASSERT_THAT(all.api_calls, SizeIs(1));
  EXPECT_TRUE(all.api_calls[0] == calls);
}

TEST_F(CaptureFileGpuTest, BatchesOutsideOfTheTimeAskedForAreLeftOut) {
  auto sink = CreateSink();
  const GpuRow row = FullGpuRow();  // 5,000 to 5,700 ns
  ASSERT_THAT(sink->Append(row), IsOk());
  Finish(*sink);
  auto reader = OpenFile();
  const auto count = [&reader](const TimeFilter& filter) {
    size_t rows = 0;
    EXPECT_THAT(reader->ForEach<GpuRow>(kGpuTime, filter,
                                        [&rows](const GpuBatch& batch) {
                                          rows += batch.size;
                                          return absl::OkStatus();
                                        }),
                IsOk());
    return rows;
  };
  EXPECT_EQ(count({.begin_ns = 5'600, .end_ns = 6'000}), 1u);
  EXPECT_EQ(count({.begin_ns = 5'701, .end_ns = 6'000}), 0u);
  EXPECT_EQ(count({.begin_ns = 0, .end_ns = 5'000}), 0u);
}

TEST_F(CaptureFileGpuTest, AFileWithoutThreadsHoldsGpuRows) {
  auto sink = CreateSink();
  const GpuRow row = FullGpuRow();
  ASSERT_THAT(sink->Append(row), IsOk());
  Finish(*sink);
  auto reader = OpenFile();
  EXPECT_THAT(reader->threads(), IsEmpty());
  EXPECT_EQ(reader->gpu_row_count(), 1);
}

TEST_F(CaptureFileGpuTest, AnUnfinishedFileIsRecoveredWithItsGpuRows) {
  CaptureRecord record = NewRecord(id_);
  record.state = CaptureState::kRecording;
  ASSERT_THAT(store_->InsertCapture(record), IsOk());
  {
    auto sink = store_->CreateFile(record);
    ASSERT_THAT(sink, IsOk());
    ASSERT_THAT((*sink)->AddName(2, "_Z4gemm"), IsOk());
    const ApiRow call = {1'000, 50, 2, 6, 211, 0, false};
    GpuRow kernel = FullGpuRow();  // Ends long after the call: no part of the time covered.
    const CudaEventRow event = {6, 1, 7, 1};
    ASSERT_THAT((*sink)->Append(0, call), IsOk());
    ASSERT_THAT((*sink)->Append(kernel), IsOk());
    ASSERT_THAT((*sink)->Append(event), IsOk());
  }
  Reopen();
  const CaptureRecord found = Get(id_);
  EXPECT_EQ(found.state, CaptureState::kPartial);
  EXPECT_EQ(found.event_count, 3);
  EXPECT_EQ(found.covered_ns, 50);
  const ReadBack all = ReadStored();
  ASSERT_THAT(all.gpu, SizeIs(1));
  EXPECT_EQ(all.gpu[0].start_ns, 4'000);
  EXPECT_THAT(all.cuda_events, SizeIs(1));
}

TEST_F(CaptureFileGpuTest, WithGpuRowsAloneTheirTimeIsTheWindow) {
  CaptureRecord record = NewRecord(id_);
  record.state = CaptureState::kRecording;
  ASSERT_THAT(store_->InsertCapture(record), IsOk());
  {
    auto sink = store_->CreateFile(record);
    ASSERT_THAT(sink, IsOk());
    const GpuRow kernel = FullGpuRow();
    ASSERT_THAT((*sink)->Append(kernel), IsOk());
  }
  Reopen();
  EXPECT_EQ(Get(id_).covered_ns, 700);
}

// ---- files that lie, with every checksum right ----

class CaptureFileGpuHostileTest : public CaptureFileGpuTest {
 protected:
  // A sealed file with `table` as its only chunk.
  template <typename Table>
  void WriteFile(const Table& table) {
    auto sink = CreateSink();
    const RangeRow range = {0, 1, 1, 0, 0, 0};
    ASSERT_THAT(sink->Append(0, range), IsOk());
    Finish(*sink);
    ReplaceFirstChunk(File(id_, ".profd"), table);
  }
  absl::Status ReadLies() { return ReadAll(*OpenFile()).status(); }
};

EventTable<GpuRow> OneGpuRow() {
  EventTable<GpuRow> table;
  const GpuRow row = FullGpuRow();
  table.Append({&row, 1});
  return table;
}

TEST_F(CaptureFileGpuHostileTest, AHonestChunkWrittenThisWayIsRead) {
  WriteFile(OneGpuRow());
  EXPECT_THAT(ReadLies(), IsOk());
  EXPECT_THAT(ReadStored().gpu, ElementsAre(FullGpuRow()));
}

TEST_F(CaptureFileGpuHostileTest, FlagsWithoutAMeaningAreMasked) {
  EventTable<GpuRow> table = OneGpuRow();
  table.columns.flags[0] = 0xff;
  WriteFile(table);
  const ReadBack all = ReadStored();
  ASSERT_THAT(all.gpu, SizeIs(1));
  EXPECT_EQ(all.gpu[0].flags, kKnownGpuFlags);
}

TEST_F(CaptureFileGpuHostileTest, LiesInGpuRowsAreDataLoss) {
  const struct {
    const char* what;
    void (*tell)(EventTable<GpuRow>&);
  } lies[] = {
      {"kind 0", [](EventTable<GpuRow>& table) { table.columns.kind[0] = 0; }},
      {"a kind to come",
       [](EventTable<GpuRow>& table) { table.columns.kind[0] = kGpuKinds.size() + 1; }},
      {"a name that is not there", [](EventTable<GpuRow>& table) { table.columns.name[0] = 3; }},
      {"a negative duration", [](EventTable<GpuRow>& table) { table.columns.duration_ns[0] = -1; }},
      {"an end behind all time",
       [](EventTable<GpuRow>& table) {
         table.columns.start_ns[0] = kMaxTimeNs;
         table.columns.duration_ns[0] = std::numeric_limits<int64_t>::max();
       }},
      {"a queue time long before",
       [](EventTable<GpuRow>& table) { table.columns.queued_ns[0] -= 3 * kMaxTimeNs; }},
      {"a submit time outside of all time",
       [](EventTable<GpuRow>& table) { table.columns.submitted_ns[0] = -kMaxTimeNs - 1; }},
  };
  int number = 1;
  for (const auto& lie : lies) {
    id_ = IdOf(++number);
    EventTable<GpuRow> table = OneGpuRow();
    lie.tell(table);
    WriteFile(table);
    EXPECT_THAT(ReadLies(), StatusIs(StatusCode::kDataLoss)) << lie.what;
  }
}

template <typename Row>
EventTable<Row> TableOf(const Row& row) {
  EventTable<Row> table;
  table.Append({&row, 1});
  return table;
}

TEST_F(CaptureFileGpuHostileTest, ApiCallsOfUnknownNamesAreDataLoss) {
  auto table = TableOf(ApiRow{1'000, 50, 3, 6, 211, 0, false});
  SetThread(0, table);
  WriteFile(table);
  EXPECT_THAT(ReadLies(), StatusIs(StatusCode::kDataLoss));
}
TEST_F(CaptureFileGpuHostileTest, ApiCallsOfUnknownThreadsAreDataLoss) {
  auto table = TableOf(ApiRow{1'000, 50, 2, 6, 211, 0, false});
  SetThread(1, table);
  WriteFile(table);
  EXPECT_THAT(ReadLies(), StatusIs(StatusCode::kDataLoss));
}
TEST_F(CaptureFileGpuHostileTest, ApiCallsOfNoApiAreDataLoss) {
  auto table = TableOf(ApiRow{1'000, 50, 2, 6, 211, 0, false});
  SetThread(0, table);
  table.columns.is_driver[0] = 2;
  WriteFile(table);
  EXPECT_THAT(ReadLies(), StatusIs(StatusCode::kDataLoss));
}
TEST_F(CaptureFileGpuHostileTest, SynchronisationsThatEndBeforeTheyBeginAreDataLoss) {
  auto table = TableOf(SyncRow{1'000, 50, 1, 0, 1, 7, 1, 0});
  table.columns.duration_ns[0] = -50;
  WriteFile(table);
  EXPECT_THAT(ReadLies(), StatusIs(StatusCode::kDataLoss));
}
TEST_F(CaptureFileGpuHostileTest, OverheadsOfImpossibleLengthAreDataLoss) {
  auto table = TableOf(OverheadRow{1'000, 50, 1, 7, 1});
  table.columns.duration_ns[0] = std::numeric_limits<int64_t>::max();
  WriteFile(table);
  EXPECT_THAT(ReadLies(), StatusIs(StatusCode::kDataLoss));
}

}  // namespace
}  // namespace profd::store
