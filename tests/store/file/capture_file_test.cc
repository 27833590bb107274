// A capture file gives back what was put in, whatever the order and the number of threads.
#include <sys/stat.h>

#include <cmath>
#include <limits>

#include "daemon/base/str_cat.h"
#include "daemon/capture/quality.h"
#include "daemon/store/file/files.h"
#include "daemon/store/file/reader.h"
#include "daemon/store/file/writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/status_matchers.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class CaptureFileTest : public testing::Test {
 protected:
  std::unique_ptr<CaptureFileWriter> Create(const CaptureRecord& record) {
    auto writer = CaptureFileWriter::Create(
        record, clock_,
        {.directory = folder_.path(),
         .on_sealed = [this](const SealedCapture& sealed) { sealed_ = sealed; }});
    EXPECT_THAT(writer, IsOk());
    return *std::move(writer);
  }
  std::unique_ptr<CaptureReader> OpenFile(std::string_view id) {
    auto reader = CaptureReader::Open(folder_ / StrCat(id, ".profd"));
    EXPECT_THAT(reader, IsOk());
    return *std::move(reader);
  }
  ReadBack ReadFile(CaptureReader& reader) {
    auto all = ReadAll(reader);
    EXPECT_THAT(all, IsOk());
    return *std::move(all);
  }
  bool Exists(std::string_view name) { return std::filesystem::exists(folder_ / name); }

  TemporaryFolder folder_;
  ManualClock clock_;
  SealedCapture sealed_;
  const std::string id_ = IdOf(1);
};

TEST_F(CaptureFileTest, TheSealStoresTheGradeInTheFile) {
  auto made = CaptureFileWriter::Create(
      NewRecord(id_), clock_,
      {.directory = folder_.path(), .check_events = CheckerOf([](CaptureReader& reader) {
                                      EXPECT_EQ(reader.names().size(), 2u);
                                      return EventChecks{.gpu_row_count = 100,
                                                         .inversion_count = 50};
                                    })});
  ASSERT_THAT(made, IsOk());
  ASSERT_THAT((*made)->AddName(1, "forward"), IsOk());
  CaptureRecord record = FinishedRecord(
      NewRecord(id_), {.start_ns = 0, .end_ns = 500, .first_step = 1, .end_step = 3});
  ASSERT_EQ(QualityGrade(record), "A");
  ASSERT_THAT((*made)->Finish(record, 0), IsOk());
  EXPECT_EQ(record.graded.grade, "C") << "half of the GPU's work begins before its launch";
  const CaptureRecord stored = OpenFile(id_)->record();
  EXPECT_EQ(stored.graded, record.graded);
  EXPECT_EQ(QualityGrade(stored), "C");
}

TEST_F(CaptureFileTest, WithoutItsEventsACaptureIsGradedByItsRecord) {
  auto made = CaptureFileWriter::Create(
      NewRecord(id_), clock_,
      {.directory = folder_.path(), .check_events = [](const std::filesystem::path&) {
         return absl::StatusOr<EventChecks>(OverBudget("the quality check", 17, 16, "launches"));
       }});
  ASSERT_THAT(made, IsOk());
  CaptureRecord record = FinishedRecord(
      NewRecord(id_), {.start_ns = 0, .end_ns = 500, .first_step = 1, .end_step = 3});
  ASSERT_THAT((*made)->Finish(record, 0), IsOk());
  const CaptureRecord stored = OpenFile(id_)->record();
  EXPECT_EQ(stored.graded.grade, "A");
  EXPECT_EQ(stored.state, CaptureState::kComplete);
  EXPECT_EQ(stored.error_reason, "OVER_BUDGET");
  EXPECT_EQ(stored.error_message,
            "left out: the quality check needs 17 launches, the budget is 16 launches");
}

TEST_F(CaptureFileTest, WhatIsLeftOutDoesNotReplaceTheReasonOfTheEnd) {
  CaptureRecord record = NewRecord(id_);
  record.state = CaptureState::kPartial;
  record.error_reason = "GPU_TIMEOUT";
  record.error_message = "the GPU took too long";
  NoteLeftOut("the summaries of its events", absl::InternalError("no"), record);
  EXPECT_EQ(record.error_reason, "GPU_TIMEOUT");
  EXPECT_EQ(record.error_message,
            "the GPU took too long; left out: the summaries of its events; the log of profd says "
            "why");
}

TEST_F(CaptureFileTest, GivesBackEveryKindOfEventSinceTheCapturesStart) {
  auto writer = Create(NewRecord(id_));
  ASSERT_THAT(writer->AddName(1, "(other)"), IsOk());
  ASSERT_THAT(writer->AddName(2, "forward"), IsOk());
  ASSERT_THAT(writer->AddThread({.index = 0, .os_thread = 77, .name = "main"}), IsOk());
  const RangeRow range = {1'100, 50, 2, 3, 1, kRangeTruncated};
  ASSERT_THAT(writer->Append(0, range), IsOk());
  const InstantRow instant = {1'200, 2};
  ASSERT_THAT(writer->Append(0, instant), IsOk());
  const CounterRow counter = {1'300, -0.25, 1};
  ASSERT_THAT(writer->Append(0, counter), IsOk());
  const MemoryRow memory = {1'400, ~uint64_t{0}, 64, -1, 9, 1, 7, 3, true};
  ASSERT_THAT(writer->Append(0, memory), IsOk());
  CaptureRecord record = FinishedRecord(NewRecord(id_), {.start_ns = 0, .end_ns = 500});
  ASSERT_THAT(writer->Finish(record, /*start_ns=*/1'000), IsOk());

  auto reader = OpenFile(id_);
  EXPECT_THAT(reader->names(), ElementsAre("", "(other)", "forward"));
  ASSERT_THAT(reader->threads(), SizeIs(1));
  EXPECT_EQ(reader->threads()[0].os_thread, 77);
  EXPECT_EQ(reader->threads()[0].name, "main");
  const ReadBack all = ReadFile(*reader);
  ASSERT_THAT(all.ranges, ElementsAre(SizeIs(1)));
  const RangeRow& r = all.ranges[0][0];
  EXPECT_EQ(r.start_ns, 100);
  EXPECT_EQ(r.duration_ns, 50);
  EXPECT_EQ(r.name, 2u);
  EXPECT_EQ(r.depth, 3);
  EXPECT_EQ(r.category, 1);
  EXPECT_EQ(r.flags, kRangeTruncated);
  ASSERT_THAT(all.instants, ElementsAre(SizeIs(1)));
  EXPECT_EQ(all.instants[0][0].time_ns, 200);
  ASSERT_THAT(all.counters, ElementsAre(SizeIs(1)));
  EXPECT_EQ(all.counters[0][0].time_ns, 300);
  EXPECT_EQ(all.counters[0][0].value, -0.25);
  ASSERT_THAT(all.memory, ElementsAre(SizeIs(1)));
  const MemoryRow& m = all.memory[0][0];
  EXPECT_EQ(m.time_ns, 400);
  EXPECT_EQ(m.address, ~uint64_t{0});
  EXPECT_EQ(m.bytes, 64);
  EXPECT_EQ(m.total_allocated_bytes, -1);
  EXPECT_EQ(m.total_reserved_bytes, 9);
  EXPECT_EQ(m.device_type, 1);
  EXPECT_EQ(m.device_index, 7);
  EXPECT_EQ(m.category, 3);
  EXPECT_TRUE(m.is_free);
}

TEST_F(CaptureFileTest, TheSealGivesTheStepTimeOfTheStepsInTheFile) {
  auto writer = Create(NewRecord(id_));
  ASSERT_THAT(writer->AddThread({.index = 0, .os_thread = 77, .name = "main"}), IsOk());
  for (const StepRow& mark : {StepRow{0, 1}, StepRow{100, 2}, StepRow{400, 3}}) {
    ASSERT_THAT(writer->Append(0, mark), IsOk());
  }
  CaptureRecord record = FinishedRecord(
      NewRecord(id_), {.start_ns = 0, .end_ns = 500, .first_step = 1, .end_step = 4});
  record.step_during_ns = 166;  // The mean, or a median of some of them.
  ASSERT_THAT(writer->Finish(record, /*start_ns=*/0), IsOk());
  EXPECT_EQ(record.step_during_ns, 100);
  EXPECT_EQ(OpenFile(id_)->record().step_during_ns, 100);
}

TEST_F(CaptureFileTest, FinishTellsSizeAndHashOfTheFile) {
  auto writer = Create(NewRecord(id_));
  const RangeRow range = {0, 1, 1, 0, 0, 0};
  ASSERT_THAT(writer->Append(0, range), IsOk());
  CaptureRecord record = FinishedRecord(NewRecord(id_), {.start_ns = 0, .end_ns = 1});
  ASSERT_THAT(writer->Finish(record, 0), IsOk());

  const auto path = folder_ / StrCat(id_, ".profd");
  EXPECT_EQ(record.file_bytes, static_cast<int64_t>(std::filesystem::file_size(path)));
  EXPECT_THAT(Sha256OfFile(path), IsOkAndHolds(record.file_sha256));
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_FALSE(Exists(StrCat(id_, ".part")));
  EXPECT_FALSE(Exists(StrCat(id_, ".part-journal")));
  EXPECT_FALSE(Exists(StrCat(id_, ".reserve")));
}

TEST_F(CaptureFileTest, DiscardLeavesNothing) {
  auto writer = Create(NewRecord(id_));
  ASSERT_THAT(writer->AddName(1, "x"), IsOk());
  writer->Discard();
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

}  // namespace
}  // namespace profd::store
