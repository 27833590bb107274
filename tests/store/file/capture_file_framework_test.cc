// What a framework tells of its operators comes back from a capture file as it was put in, and a
// file that lies about it is refused.
#include <array>
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

// No field has the value of another.
constexpr OperatorRow kOperator = {.start_ns = 5'000,
                                   .depth = 3,
                                   .scope = 1,
                                   .sequence = 41,
                                   .forward_thread = uint64_t{1} << 40,
                                   .torch_thread = 7,
                                   .inputs = 2,
                                   .scalars = 1,
                                   .stack = 9};
constexpr StackRow kStack = {.caller = 8,
                             .file = 1,
                             .function = 2,
                             .line = 120,
                             .first_line = 100,
                             .module = uint64_t{0xfe} << 56,
                             .class_name = 1,
                             .is_cut = true};
constexpr ModuleRow kModule = {
    .address = uint64_t{0xfe} << 56, .root = 0x7f0000002000, .path = 2, .class_name = 1};
constexpr TensorUseRow kUse = {
    .time_ns = 5'000, .address = 0x7f0000001000, .depth = 3, .scope = 1, .input = 255};
constexpr NoteRow kNote = {.time_ns = 5'100, .kind = 2, .subject = 1, .text = 2, .value = -9};
constexpr BlockRow kBlock = {.address = uint64_t{0xff} << 56,
                             .bytes = 4'096,
                             .name = 2,
                             .category = 7,
                             .device_type = 1,
                             .device_index = 3};

constexpr ArgumentRow kArgument = {.of = kArgumentOfRange,
                                   .of_thread = 7,
                                   .row = 0xffff'ffff,
                                   .key = 1,
                                   .type = ArgumentType::kJson,
                                   .value = 2};
constexpr GpuAnnotationRow kAnnotation = {.start_ns = 5'000,
                                          .duration_ns = 200,
                                          .name = 2,
                                          .device = 1,
                                          .stream = 7,
                                          .external_id = INT64_MIN};

class CaptureFileFrameworkTest : public StoreFixture {
 protected:
  std::unique_ptr<CaptureFileSink> CreateSink() {
    const CaptureRecord record = NewRecord(id_);
    EXPECT_THAT(store_->InsertCapture(record), IsOk());
    auto sink = store_->CreateFile(record);
    EXPECT_THAT(sink, IsOk());
    EXPECT_THAT((*sink)->AddName(1, "model.py:19 in forward"), IsOk());
    EXPECT_THAT((*sink)->AddName(2, "layers.0.weight"), IsOk());
    return *std::move(sink);
  }
  static void AddInputs(CaptureSink& sink) {
    ASSERT_THAT(sink.AddInputs(1, {.dims = "[[2,3]]", .types = R"(["float"])", .strides = ""}),
                IsOk());
    ASSERT_THAT(sink.AddInputs(2, {.dims = "[[[2]],[]]",
                                   .types = R"(["TensorList","Scalar"])",
                                   .strides = "[[[1]],[]]"}),
                IsOk());
    ASSERT_THAT(sink.AddScalars(1, R"(["","0.5"])"), IsOk());
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
  int64_t StoredVersion() {
    auto db = Database::Open(File(id_, ".profd"), Database::Mode::kImmutableUntrusted);
    EXPECT_THAT(db, IsOk());
    StatementLease version = (*db)->Use("PRAGMA user_version");
    EXPECT_THAT(version->Step(), IsOkAndHolds(true));
    return version->Int(0);
  }

  std::string id_ = IdOf(1);
};

TEST_F(CaptureFileFrameworkTest, GivesBackEveryFieldSinceTheCapturesStart) {
  auto sink = CreateSink();
  AddInputs(*sink);
  const NoteRow timeless = {
      .time_ns = kNoNoteTime, .kind = 600, .subject = 0, .text = 0, .value = INT64_MIN};
  const NoteRow notes[] = {kNote, timeless};
  ASSERT_THAT(sink->Append(1, kOperator), IsOk());
  ASSERT_THAT(sink->Append(1, kUse), IsOk());
  ASSERT_THAT(sink->Append(0, notes), IsOk());
  ASSERT_THAT(sink->Append(kBlock), IsOk());
  ASSERT_THAT(sink->Append(kStack), IsOk());
  ASSERT_THAT(sink->Append(kModule), IsOk());
  Finish(*sink, /*start_ns=*/1'000);

  const ReadBack all = ReadStored();
  OperatorRow operator_since = kOperator;
  operator_since.start_ns -= 1'000;
  EXPECT_THAT(all.operators, ElementsAre(IsEmpty(), ElementsAre(operator_since)));
  TensorUseRow use_since = kUse;
  use_since.time_ns -= 1'000;
  EXPECT_THAT(all.tensor_uses, ElementsAre(IsEmpty(), ElementsAre(use_since)));
  NoteRow note_since = kNote;
  note_since.time_ns -= 1'000;
  EXPECT_THAT(all.notes, ElementsAre(ElementsAre(note_since, timeless)));
  EXPECT_THAT(all.blocks, ElementsAre(kBlock));
  EXPECT_THAT(all.stacks, ElementsAre(kStack));
  EXPECT_THAT(all.modules, ElementsAre(kModule));
}

TEST_F(CaptureFileFrameworkTest, WithoutStacksOperatorsHaveTheColumnsThatTheyAlwaysHad) {
  const auto column_count = [this] {
    auto db = Database::Open(File(id_, ".profd"), Database::Mode::kImmutableUntrusted);
    EXPECT_THAT(db, IsOk());
    StatementLease chunk = (*db)->Use("SELECT hex(substr(data, 8, 1)) FROM chunks WHERE kind = 11");
    EXPECT_THAT(chunk->Step(), IsOkAndHolds(true));
    return chunk->Text(0);
  };
  OperatorRow row = kOperator;
  row.inputs = row.scalars = row.stack = 0;
  {
    auto sink = CreateSink();
    ASSERT_THAT(sink->Append(0, row), IsOk());
    Finish(*sink);
  }
  EXPECT_EQ(column_count(), "09");
  EXPECT_THAT(ReadStored().operators, ElementsAre(ElementsAre(row)));

  id_ = IdOf(2);
  row.stack = 1;
  {
    auto sink = CreateSink();
    ASSERT_THAT(sink->Append(0, row), IsOk());
    Finish(*sink);
  }
  EXPECT_EQ(column_count(), "0A");
  EXPECT_THAT(ReadStored().operators, ElementsAre(ElementsAre(row)));
}

TEST(ChunkLayoutTest, AChunkWithoutColumnsIsDamagedAlsoWithARightChecksum) {
  const ChunkSummary summary = {RowKind::kRange, 1, {0, 1}};
  std::string chunk(kChunkHeaderBytes + 4, '\0');
  const std::array<size_t, 1> columns = {chunk.size()};
  chunk_internal::WriteHeader(summary, columns, chunk);
  EXPECT_THAT(ChunkLayout::Parse(chunk, chunk.size()), IsOk());
  chunk.resize(kChunkHeaderBytes);
  chunk_internal::WriteHeader(summary, {}, chunk);
  EXPECT_THAT(ChunkLayout::Parse(chunk, chunk.size()),
              StatusIs(StatusCode::kDataLoss, testing::HasSubstr("no columns")));
}

TEST_F(CaptureFileFrameworkTest, RowsOfImportedTracesAreNeitherEventsNorFrameworkRows) {
  auto sink = CreateSink();
  const ArgumentRow number = {.of = 0,
                              .of_thread = 0,
                              .row = 0,
                              .key = 2,
                              .type = ArgumentType::kInteger,
                              .value = INT64_MIN};
  const ArgumentRow arguments[] = {kArgument, number};
  ASSERT_THAT(sink->Append(arguments), IsOk());
  ASSERT_THAT(sink->Append(kAnnotation), IsOk());
  Finish(*sink, /*start_ns=*/1'000);

  const ReadBack all = ReadStored();
  EXPECT_THAT(all.arguments, ElementsAre(kArgument, number));
  GpuAnnotationRow since = kAnnotation;
  since.start_ns -= 1'000;
  EXPECT_THAT(all.gpu_annotations, ElementsAre(since));
  EXPECT_EQ(OpenFile()->framework_row_count(), 0);
  EXPECT_EQ(OpenFile()->gpu_row_count(), 0);
  // Whoever cannot read them skips them.
  EXPECT_EQ(StoredVersion(), 1);
}

TEST_F(CaptureFileFrameworkTest, AnArgumentOfNoNameIsRefused) {
  auto sink = CreateSink();
  ArgumentRow argument = kArgument;
  argument.value = -1;
  EXPECT_THAT(sink->Append(argument), StatusIs(StatusCode::kInternal));
}

TEST_F(CaptureFileFrameworkTest, GivesBackInputsByTheirIds) {
  auto sink = CreateSink();
  AddInputs(*sink);
  Finish(*sink);
  auto reader = OpenFile();
  EXPECT_THAT(reader->inputs(),
              ElementsAre(OperatorInputs(),
                          OperatorInputs{.dims = "[[2,3]]", .types = R"(["float"])", .strides = ""},
                          OperatorInputs{.dims = "[[[2]],[]]",
                                         .types = R"(["TensorList","Scalar"])",
                                         .strides = "[[[1]],[]]"}));
  EXPECT_THAT(reader->scalars(), ElementsAre("", R"(["","0.5"])"));
  EXPECT_EQ(reader->framework_row_count(), 0);
}

TEST_F(CaptureFileFrameworkTest, OnlyInputsMakeAFileOfTheSecondVersion) {
  auto sink = CreateSink();
  OperatorRow bare = kOperator;
  bare.inputs = 0;
  bare.scalars = 0;
  ASSERT_THAT(sink->Append(0, bare), IsOk());
  Finish(*sink);
  EXPECT_EQ(StoredVersion(), 1);
  EXPECT_THAT(ReadStored().operators, ElementsAre(ElementsAre(bare)));
  EXPECT_THAT(OpenFile()->inputs(), SizeIs(1));

  id_ = IdOf(2);
  sink = CreateSink();
  AddInputs(*sink);
  Finish(*sink);
  EXPECT_EQ(StoredVersion(), 2);
}

TEST_F(CaptureFileFrameworkTest, CountsItsRowsByTheDirectory) {
  auto sink = CreateSink();
  AddInputs(*sink);
  const RangeRow range = {5'000, 10, 1, 3, 1, 0};
  ASSERT_THAT(sink->Append(0, range), IsOk());
  ASSERT_THAT(sink->Append(0, kOperator), IsOk());
  ASSERT_THAT(sink->Append(0, kUse), IsOk());
  ASSERT_THAT(sink->Append(0, kNote), IsOk());
  ASSERT_THAT(sink->Append(kBlock), IsOk());
  Finish(*sink);
  EXPECT_EQ(OpenFile()->framework_row_count(), 4);
}

TEST_F(CaptureFileFrameworkTest, OperatorsOfManyChunksComeBackInTheOrderOfTheirRanges) {
  auto sink = CreateSink();
  ASSERT_THAT(IntroduceInputs(*sink), IsOk());
  StepPattern pattern(7, 20);
  std::vector<OperatorRow> rows;
  while (rows.size() < 2 * kMaxChunkRows) {
    const std::vector<RangeRow>& ranges = pattern.NextRanges();
    const std::vector<OperatorRow> operators = OperatorsOf(ranges);
    ASSERT_THAT(sink->Append(0, ranges), IsOk());
    ASSERT_THAT(sink->Append(0, operators), IsOk());
    rows.insert(rows.end(), operators.begin(), operators.end());
  }
  Finish(*sink);
  const ReadBack all = ReadStored();
  ASSERT_THAT(all.operators, SizeIs(1));
  EXPECT_TRUE(all.operators[0] == rows);
}

TEST_F(CaptureFileFrameworkTest, AnOperatorOfInputsThatWereNotAddedIsRefused) {
  auto sink = CreateSink();
  AddInputs(*sink);
  OperatorRow row = kOperator;
  row.inputs = 3;
  EXPECT_THAT(sink->Append(0, row), StatusIs(StatusCode::kInternal));
  EXPECT_THAT(sink->Append(0, kOperator), StatusIs(StatusCode::kInternal));
}

TEST_F(CaptureFileFrameworkTest, IdsOfInputsHaveBounds) {
  EXPECT_THAT(CreateSink()->AddInputs(0, {}), StatusIs(StatusCode::kInternal));
  id_ = IdOf(2);
  EXPECT_THAT(CreateSink()->AddScalars(kMaxOperatorInputs + 1, "[]"),
              StatusIs(StatusCode::kInternal));
}

TEST_F(CaptureFileFrameworkTest, InputsBehindTheByteCapAreRefusedAndTheRestIsKept) {
  CaptureRecord record = NewRecord(id_);
  record.spec.max_bytes = 1 << 20;
  ASSERT_THAT(store_->InsertCapture(record), IsOk());
  auto sink = store_->CreateFile(record);
  ASSERT_THAT(sink, IsOk());
  AddInputs(**sink);
  ASSERT_THAT((*sink)->Append(0, kOperator), IsOk());
  const std::string much(1 << 20, ' ');
  EXPECT_THAT((*sink)->AddScalars(2, much), StatusIs(StatusCode::kOutOfRange));
  Finish(**sink);
  EXPECT_THAT(ReadStored().operators, ElementsAre(ElementsAre(kOperator)));
  EXPECT_THAT(OpenFile()->scalars(), SizeIs(2));
}

TEST_F(CaptureFileFrameworkTest, AnUnfinishedFileIsRecoveredWithItsOperators) {
  CaptureRecord record = NewRecord(id_);
  record.state = CaptureState::kRecording;
  ASSERT_THAT(store_->InsertCapture(record), IsOk());
  {
    auto sink = store_->CreateFile(record);
    ASSERT_THAT(sink, IsOk());
    ASSERT_THAT(AppendTwoSteps(**sink), IsOk());
    AddInputs(**sink);
    // Far behind the ranges: no part of the time covered.
    ASSERT_THAT((*sink)->Append(0, kOperator), IsOk());
    ASSERT_THAT((*sink)->Append(kBlock), IsOk());
  }
  Reopen();
  const CaptureRecord found = Get(id_);
  EXPECT_EQ(found.state, CaptureState::kPartial);
  EXPECT_EQ(found.event_count, 5);
  EXPECT_EQ(found.covered_ns, 2'000);
  const ReadBack all = ReadStored();
  EXPECT_THAT(all.operators, ElementsAre(ElementsAre(kOperator)));
  EXPECT_THAT(all.blocks, ElementsAre(kBlock));
  EXPECT_THAT(OpenFile()->inputs(), SizeIs(3));
}

TEST_F(CaptureFileFrameworkTest, OperatorsWithoutAnEventAreNoCapture) {
  CaptureRecord record = NewRecord(id_);
  record.state = CaptureState::kRecording;
  ASSERT_THAT(store_->InsertCapture(record), IsOk());
  {
    auto sink = store_->CreateFile(record);
    ASSERT_THAT(sink, IsOk());
    ASSERT_THAT((*sink)->Append(0, kNote), IsOk());
  }
  Reopen();
  EXPECT_EQ(Get(id_).state, CaptureState::kFailed);
}

// ---- files that lie, with every checksum right ----

class CaptureFileFrameworkHostileTest : public CaptureFileFrameworkTest {
 protected:
  // A sealed file with `table` as its only chunk.
  template <typename Table>
  void WriteFile(const Table& table) {
    auto sink = CreateSink();
    AddInputs(*sink);
    const RangeRow range = {0, 1, 1, 0, 0, 0};
    ASSERT_THAT(sink->Append(0, range), IsOk());
    Finish(*sink);
    ReplaceFirstChunk(File(id_, ".profd"), table);
  }
  template <typename Row>
  static EventTable<Row> TableOf(const Row& row) {
    EventTable<Row> table;
    table.Append({&row, 1});
    SetThread(0, table);
    return table;
  }
  // Each of `lies` about `row` is found when it is read.
  template <typename Row, size_t kCount>
  void ExpectFound(const Row& row, void (*const (&lies)[kCount])(EventTable<Row>&)) {
    WriteFile(TableOf(row));
    EXPECT_THAT(ReadAll(*OpenFile()), IsOk());
    for (size_t i = 0; i < kCount; ++i) {
      id_ = IdOf(++number_);
      auto table = TableOf(row);
      lies[i](table);
      WriteFile(table);
      EXPECT_THAT(ReadAll(*OpenFile()), StatusIs(StatusCode::kDataLoss)) << "lie " << i;
    }
  }

 private:
  int number_ = 1;
};

TEST_F(CaptureFileFrameworkHostileTest, LiesInOperatorsAreDataLoss) {
  void (*const lies[])(EventTable<OperatorRow>&) = {
      [](EventTable<OperatorRow>& table) { table.columns.start_ns[0] = kMaxTimeNs + 1; },
      [](EventTable<OperatorRow>& table) { table.columns.depth[0] = kMaxDepth; },
      [](EventTable<OperatorRow>& table) { table.columns.sequence[0] = -2; },
      [](EventTable<OperatorRow>& table) { table.columns.inputs[0] = 3; },
      [](EventTable<OperatorRow>& table) {
        table.columns.scalars[0] = std::numeric_limits<uint32_t>::max();
      },
      [](EventTable<OperatorRow>& table) { table.thread[0] = 1; },
  };
  ExpectFound(kOperator, lies);
}

TEST_F(CaptureFileFrameworkHostileTest, LiesInTensorUsesAreDataLoss) {
  void (*const lies[])(EventTable<TensorUseRow>&) = {
      [](EventTable<TensorUseRow>& table) { table.columns.time_ns[0] = -kMaxTimeNs - 1; },
      [](EventTable<TensorUseRow>& table) { table.columns.depth[0] = 0xffff; },
      [](EventTable<TensorUseRow>& table) { table.thread[0] = 1; },
  };
  ExpectFound(kUse, lies);
}

TEST_F(CaptureFileFrameworkHostileTest, LiesInNotesAreDataLoss) {
  void (*const lies[])(EventTable<NoteRow>&) = {
      [](EventTable<NoteRow>& table) { table.columns.time_ns[0] = kNoNoteTime + 1; },
      [](EventTable<NoteRow>& table) { table.columns.subject[0] = 3; },
      [](EventTable<NoteRow>& table) { table.columns.text[0] = 3; },
      [](EventTable<NoteRow>& table) { table.thread[0] = 1; },
  };
  ExpectFound(kNote, lies);
}

TEST_F(CaptureFileFrameworkHostileTest, LiesInBlocksAreDataLoss) {
  void (*const lies[])(EventTable<BlockRow>&) = {
      [](EventTable<BlockRow>& table) { table.columns.name[0] = 3; },
      [](EventTable<BlockRow>& table) { table.columns.bytes[0] = -1; },
  };
  ExpectFound(kBlock, lies);
}

TEST_F(CaptureFileFrameworkHostileTest, LiesInArgumentsAreDataLoss) {
  void (*const lies[])(EventTable<ArgumentRow>&) = {
      [](EventTable<ArgumentRow>& table) { table.columns.key[0] = 3; },
      [](EventTable<ArgumentRow>& table) { table.columns.value[0] = 3; },
      [](EventTable<ArgumentRow>& table) { table.columns.value[0] = -1; },
      [](EventTable<ArgumentRow>& table) { table.columns.type[0] = 5; },
  };
  ExpectFound(kArgument, lies);
}

TEST_F(CaptureFileFrameworkHostileTest, LiesInGpuAnnotationsAreDataLoss) {
  void (*const lies[])(EventTable<GpuAnnotationRow>&) = {
      [](EventTable<GpuAnnotationRow>& table) { table.columns.name[0] = 3; },
      [](EventTable<GpuAnnotationRow>& table) { table.columns.duration_ns[0] = -1; },
      [](EventTable<GpuAnnotationRow>& table) { table.columns.start_ns[0] = kMaxTimeNs; },
  };
  ExpectFound(kAnnotation, lies);
}

}  // namespace
}  // namespace profd::store
