// Schedules and their history in the catalog, over restarts of the store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/store/file/record_codec.h"
#include "tests/store/store_fixture.h"

namespace profd::store {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kId[] = "01HZZZZZZZZZZZZZZZZZZZZZZA";
const absl::Time kStart = absl::FromUnixSeconds(1'800'000'000);

ScheduleRecord NewSchedule() {
  ScheduleRecord record{.id = kId,
                        .spec = {.every = absl::Minutes(30),
                                 .jitter = absl::Seconds(5),
                                 .capture = {.steps = 3, .labels = {{"why", "sampling"}}},
                                 .selector = {.job = "88123", .ranks = {0, 7}, .uid = 1000},
                                 .sample = {.unit = SampleUnit::kJobs, .fraction = 0.05},
                                 .budget = {.captures_per_hour = 4, .time_share = 0.001},
                                 .step_grid = 32,
                                 .step_lead = 8,
                                 .max_slowdown = 0.1,
                                 .end_time = kStart + absl::Hours(24 * 7),
                                 .nodes = {"gpu1", "gpu2"},
                                 .display_name = "nightly"},
                        .creator = {.uid = 1000, .gid = 100, .groups = {100, 27}},
                        .create_time = kStart,
                        .last_window = kStart};
  return record;
}

ScheduleWindow Captured(int minute, int64_t pid, int64_t bytes) {
  return {.schedule_id = kId,
          .time = kStart + absl::Minutes(minute),
          .outcome = WindowOutcome::kCaptured,
          .capture_id = StrCat("C", minute, ".", pid),
          .pid = pid,
          .process_start_ticks = 7,
          .sampling_weight = 20,
          .bytes = bytes};
}
ScheduleWindow NotChosen(int minute) {
  return {.schedule_id = kId,
          .time = kStart + absl::Minutes(minute),
          .outcome = WindowOutcome::kNotChosen};
}

class ScheduleTablesTest : public StoreFixture {
 protected:
  void SetUp() override {
    StoreFixture::SetUp();
    const auto inserted = store_->InsertSchedule(NewSchedule());
    ASSERT_THAT(inserted, IsOk());
    record_ = *inserted;
  }
  void Append(const std::vector<ScheduleWindow>& windows) {
    record_.last_window = windows.back().time;
    EXPECT_THAT(store_->AppendWindows(record_, windows, windows.back().time), IsOk());
  }
  std::vector<ScheduleWindow> Windows() {
    return *store_->ListWindows(kId, 100, absl::InfiniteFuture(), 0);
  }

  ScheduleRecord record_;
};

TEST_F(ScheduleTablesTest, AScheduleComesBackAsItWas) {
  Reopen();
  const auto records = store_->ListSchedules();
  ASSERT_THAT(records, IsOk());
  ASSERT_THAT(*records, SizeIs(1));
  const ScheduleRecord& record = records->front();
  EXPECT_EQ(record.spec, NewSchedule().spec);
  EXPECT_EQ(record.creator.uid, 1000);
  EXPECT_THAT(record.creator.groups, ElementsAre(100, 27));
  EXPECT_EQ(record.create_time, kStart);
  EXPECT_EQ(record.last_window, kStart);
  EXPECT_EQ(record.delete_time, absl::InfiniteFuture());
  EXPECT_FALSE(record.paused);
  EXPECT_EQ(record.spec_hash, HashOfSpec(NewSchedule().spec));
  EXPECT_THAT(record.spec_hash, SizeIs(16));
}

TEST_F(ScheduleTablesTest, AnIdIsTakenOnce) {
  EXPECT_THAT(store_->InsertSchedule(NewSchedule()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(ScheduleTablesTest, WhatChangesIsKeptAndTheSpecIsNot) {
  record_.paused = true;
  record_.delete_time = kStart + absl::Hours(1);
  record_.spec.every = absl::Hours(9);
  ASSERT_THAT(store_->UpdateSchedule(record_), IsOk());
  Reopen();
  const auto deleted = store_->ListDeletedSchedules("", "", 10);
  ASSERT_THAT(deleted, IsOk());
  ASSERT_THAT(*deleted, SizeIs(1));
  const ScheduleRecord& record = deleted->front();
  EXPECT_TRUE(record.paused);
  EXPECT_EQ(record.delete_time, kStart + absl::Hours(1));
  EXPECT_EQ(record.spec.every, absl::Minutes(30));
  EXPECT_EQ(record.spec_hash, record_.spec_hash);
}

TEST_F(ScheduleTablesTest, OneThatIsNotThereCannotChange) {
  record_.id = "01HZZZZZZZZZZZZZZZZZZZZZZB";
  EXPECT_THAT(store_->UpdateSchedule(record_), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(ScheduleTablesTest, OneIsReplacedAndKeepsItsHistory) {
  ASSERT_THAT(store_->AppendWindows(record_, std::vector{NotChosen(1)}, kStart), IsOk());
  record_.version = 7;
  record_.spec.every = absl::Hours(9);
  record_.creator = {.uid = 1001};
  const auto replaced = store_->ReplaceSchedule(record_);
  ASSERT_THAT(replaced, IsOk());
  EXPECT_NE(replaced->spec_hash, record_.spec_hash);
  Reopen();
  const auto records = store_->ListSchedules();
  ASSERT_THAT(records, IsOk());
  ASSERT_THAT(*records, SizeIs(1));
  EXPECT_EQ(records->front().version, 7);
  EXPECT_EQ(records->front().spec.every, absl::Hours(9));
  EXPECT_EQ(store_->GetTotals(kId)->windows, 1);
  EXPECT_EQ(store_->GetHolding("uid:1000")->bytes, 0);
  EXPECT_GT(store_->GetHolding("uid:1001")->bytes, 0);
  record_.id = "01HZZZZZZZZZZZZZZZZZZZZZZB";
  EXPECT_THAT(store_->ReplaceSchedule(record_), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(ScheduleTablesTest, WhatIsRemovedLeavesATombstone) {
  EXPECT_THAT(store_->GetTombstone(kId), StatusIs(absl::StatusCode::kNotFound));
  record_.version = 5;
  record_.delete_time = kStart;
  ASSERT_THAT(store_->ReplaceSchedule(record_), IsOk());
  ASSERT_THAT(store_->TrimDeletedSchedules(kStart + absl::Seconds(1)), IsOk());
  Reopen();
  EXPECT_THAT(*store_->ListDeletedSchedules("", "", 10), IsEmpty());
  const auto tombstone = store_->GetTombstone(kId);
  ASSERT_THAT(tombstone, IsOk());
  EXPECT_EQ(tombstone->version, 5);
  EXPECT_EQ(tombstone->principal, "uid:1000");
}

TEST_F(ScheduleTablesTest, OfEachPrincipalTheNewestTombstonesStay) {
  {
    auto catalog = Database::Open(folder_ / "data" / "catalog.db", Database::Mode::kReadWrite);
    ASSERT_THAT(catalog, IsOk());
    ASSERT_THAT(
        (*catalog)->Exec(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4096) "
            "INSERT INTO schedule_tombstones SELECT 'T' || i, 1, 'uid:1000', i FROM n "
            "UNION ALL SELECT 'other', 1, 'uid:1001', 0"),
        IsOk());
  }
  record_.delete_time = kStart;
  ASSERT_THAT(store_->ReplaceSchedule(record_), IsOk());
  ASSERT_THAT(store_->TrimDeletedSchedules(kStart + absl::Seconds(1)), IsOk());
  EXPECT_THAT(store_->GetTombstone(kId), IsOk());
  EXPECT_THAT(store_->GetTombstone("T1"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(store_->GetTombstone("T2"), IsOk());
  EXPECT_THAT(store_->GetTombstone("other"), IsOk());
}

TEST_F(ScheduleTablesTest, ARecordOfAnEarlierProfdIsTheFirstVersionAndHashedAnew) {
  record_.delete_time = kStart;
  ASSERT_THAT(store_->ReplaceSchedule(record_), IsOk());
  {
    auto catalog = Database::Open(folder_ / "data" / "catalog.db", Database::Mode::kReadWrite);
    ASSERT_THAT(catalog, IsOk());
    ASSERT_THAT((*catalog)->Exec("UPDATE schedules SET record = json_set(json_remove(record, "
                                 "'$.version'), '$.spec_hash', 'of earlier fields')"),
                IsOk());
  }
  Reopen();
  const auto deleted = store_->ListDeletedSchedules("", "", 10);
  ASSERT_THAT(deleted, IsOk());
  ASSERT_THAT(*deleted, SizeIs(1));
  EXPECT_EQ(deleted->front().version, 1);
  EXPECT_EQ(deleted->front().spec_hash, record_.spec_hash);
  ASSERT_THAT(store_->TrimDeletedSchedules(kStart + absl::Seconds(1)), IsOk());
  EXPECT_EQ(store_->GetTombstone(kId)->version, 1);
}

TEST_F(ScheduleTablesTest, EqualSpecsHaveOneHashAndOthersAnother) {
  ScheduleSpec spec = NewSchedule().spec;
  EXPECT_EQ(HashOfSpec(spec), record_.spec_hash);
  spec.nodes.emplace_back("gpu3");  // Only says where it was placed.
  EXPECT_EQ(HashOfSpec(spec), record_.spec_hash);
  ScheduleSpec counted = spec;
  counted.sample = {.unit = SampleUnit::kNodes, .count = 2};  // Now the nodes decide.
  const std::string of_three = HashOfSpec(counted);
  counted.nodes.pop_back();
  EXPECT_NE(HashOfSpec(counted), of_three);
  spec.selector.uid.reset();
  EXPECT_NE(HashOfSpec(spec), record_.spec_hash);
}

TEST_F(ScheduleTablesTest, WindowsArePagedNewestFirst) {
  Append({NotChosen(0), Captured(30, 10, 5), Captured(30, 11, 6), NotChosen(60)});
  Reopen();
  const std::vector<ScheduleWindow> all = Windows();
  ASSERT_THAT(all, SizeIs(4));
  EXPECT_EQ(all[0], NotChosen(60));
  EXPECT_EQ(all[1], Captured(30, 11, 6));
  const auto rest = store_->ListWindows(kId, 100, all[1].time, all[1].pid);
  EXPECT_THAT(*rest, ElementsAre(Captured(30, 10, 5), NotChosen(0)));
  EXPECT_THAT(*store_->ListWindows(kId, 1, absl::InfiniteFuture(), 0), SizeIs(1));
  EXPECT_EQ(store_->ListSchedules()->front().last_window, all[0].time);
}

TEST_F(ScheduleTablesTest, AnEndIsWrittenIntoItsRow) {
  ScheduleWindow running = Captured(0, 10, 1000);
  running.ended = false;
  Append({running});
  EXPECT_THAT(*store_->ListRunningWindows(), ElementsAre(running));
  running.ended = true;
  running.outcome = WindowOutcome::kFailed;
  running.detail = "preempted";
  running.bytes = 0;
  running.busy_ns = 77;
  ASSERT_THAT(store_->EndWindow(running), IsOk());
  EXPECT_THAT(*store_->ListRunningWindows(), IsEmpty());
  EXPECT_THAT(Windows(), ElementsAre(running));
}

TEST_F(ScheduleTablesTest, StepTimesAreThoseOfTheCapture) {
  CaptureRecord capture = NewRecord(IdOf(1));
  capture.step_before_ns = 10;
  capture.step_during_ns = 11;
  capture.step_after_ns = 12;
  ASSERT_THAT(store_->InsertCapture(capture), IsOk());
  ScheduleWindow window = Captured(0, 10, 5);
  window.capture_id = capture.id;
  Append({window});
  EXPECT_EQ(Windows()[0].step_before_ns, 10);
  EXPECT_EQ(Windows()[0].step_during_ns, 11);
  EXPECT_EQ(Windows()[0].step_after_ns, 12);
}

TEST_F(ScheduleTablesTest, UseCountsTheLastHourAndTheLastDay) {
  Append({Captured(0, 10, 1), Captured(24 * 60, 10, 20), Captured(24 * 60 + 30, 10, 300),
          NotChosen(24 * 60 + 60), Captured(24 * 60 + 61, 11, 4000)});
  const auto use = store_->GetUse(kId, kStart + absl::Minutes(24 * 60 + 61));
  ASSERT_THAT(use, IsOk());
  EXPECT_EQ(use->captures_last_hour, 2);
  EXPECT_EQ(use->bytes_last_day, 4320);
  const auto totals = store_->GetTotals(kId);
  EXPECT_EQ(totals->windows, 5);
  EXPECT_EQ(totals->captures, 4);
  EXPECT_EQ(totals->bytes, 4321);
  EXPECT_EQ(store_->GetUse("another", kStart)->bytes_last_day, 0);
}

TEST_F(ScheduleTablesTest, RowsOfBeforeTheClockWasSetBackAreNoUse) {
  Append({Captured(0, 10, 1), Captured(30, 10, 20), Captured(24 * 60, 10, 300)});
  const absl::Time now = kStart + absl::Minutes(35);
  const auto use = store_->GetUse(kId, now);
  ASSERT_THAT(use, IsOk());
  EXPECT_EQ(use->captures_last_hour, 2);
  EXPECT_EQ(use->bytes_last_day, 21);
  EXPECT_THAT(*store_->ListLastWindows(kId, kStart, now), ElementsAre(Captured(30, 10, 20)));
}

TEST_F(ScheduleTablesTest, TheLastWindowsOfATargetAreItsLastAndItsLastWithACapture) {
  ScheduleWindow backed_off = Captured(60, 10, 0);
  backed_off.outcome = WindowOutcome::kBackedOff;
  backed_off.capture_id.clear();
  backed_off.backoff_level = 2;
  backed_off.skips_left = 1;
  Append({Captured(0, 10, 1), Captured(30, 10, 2), Captured(30, 11, 3), backed_off, NotChosen(90)});
  const absl::Time end = kStart + absl::Hours(2);
  EXPECT_THAT(*store_->ListLastWindows(kId, kStart, end),
              ElementsAre(Captured(30, 10, 2), Captured(30, 11, 3), backed_off));
  EXPECT_THAT(*store_->ListLastWindows(kId, kStart + absl::Minutes(31), end),
              ElementsAre(backed_off));
}

TEST_F(ScheduleTablesTest, HistoryOlderThanItsTimeGoes) {
  Append({NotChosen(0), NotChosen(30)});
  record_.last_window = kStart + kScheduleHistory + absl::Minutes(15);
  ASSERT_THAT(store_->AppendWindows(record_, {}, absl::InfinitePast()), IsOk());
  EXPECT_THAT(Windows(), SizeIs(2)) << "it is not certain what time it is";
  ASSERT_THAT(store_->AppendWindows(record_, {}, record_.last_window), IsOk());
  EXPECT_THAT(Windows(), ElementsAre(NotChosen(30)));
}

TEST_F(ScheduleTablesTest, ARemovedScheduleTakesItsHistoryWithIt) {
  Append({NotChosen(0)});
  record_.delete_time = kStart + absl::Hours(1);
  ASSERT_THAT(store_->UpdateSchedule(record_), IsOk());
  EXPECT_THAT(*store_->ListSchedules(), IsEmpty());
  EXPECT_THAT(*store_->ListDeletedSchedules("01H", "", 10), SizeIs(1));
  EXPECT_THAT(*store_->ListDeletedSchedules("01J", "", 10), IsEmpty());
  EXPECT_THAT(*store_->ListDeletedSchedules("", kId, 10), IsEmpty());
  ASSERT_THAT(store_->TrimDeletedSchedules(record_.delete_time), IsOk());
  EXPECT_THAT(*store_->ListDeletedSchedules("", "", 10), SizeIs(1));
  ASSERT_THAT(store_->TrimDeletedSchedules(record_.delete_time + absl::Seconds(1)), IsOk());
  EXPECT_THAT(*store_->ListDeletedSchedules("", "", 10), IsEmpty());
  EXPECT_THAT(Windows(), IsEmpty());
}

TEST_F(ScheduleTablesTest, OfDeletedSchedulesTheNewestOfEachPrincipalAreKept) {
  for (int i = 0; i < 2 * kMaxDeletedSchedules; ++i) {
    ScheduleRecord record = NewSchedule();
    record.id = IdOf(i);
    ASSERT_THAT(store_->InsertSchedule(record), IsOk());
    record.delete_time = kStart + absl::Seconds(i);
    ASSERT_THAT(store_->UpdateSchedule(record), IsOk());
  }
  // Few, and large.
  for (int i = 200; i < 210; ++i) {
    ScheduleRecord record = NewSchedule();
    record.id = IdOf(i);
    record.creator = {.uid = 1001};
    record.spec.nodes = {std::string(100 << 10, 'n')};
    ASSERT_THAT(store_->InsertSchedule(record), IsOk());
    record.delete_time = kStart + absl::Seconds(i);
    ASSERT_THAT(store_->UpdateSchedule(record), IsOk());
  }
  ASSERT_THAT(store_->TrimDeletedSchedules(kStart), IsOk());
  const auto left = store_->ListDeletedSchedules("", "", 1000);
  ASSERT_THAT(left, IsOk());
  ASSERT_THAT(*left, SizeIs(kMaxDeletedSchedules + 5));
  EXPECT_EQ(left->front().id, IdOf(kMaxDeletedSchedules));
  EXPECT_EQ(left->back().id, IdOf(209));
  EXPECT_THAT(*store_->ListSchedules(), SizeIs(1)) << "those that are not deleted stay";
  EXPECT_EQ(store_->GetHolding("uid:1000")->schedules, 1);
  EXPECT_LE(store_->GetHolding("uid:1001")->bytes, kMaxDeletedScheduleBytes);
}

TEST(ScheduleCodecTest, WhatNoProfdWroteIsRefused) {
  for (const char* text : {"", "[]", "{\"spec\": 7}", "{\"spec\": {\"sample\": {\"unit\": 9}}}",
                           "{\"creator\": {\"groups\": [\"x\"]}}"}) {
    EXPECT_THAT(DecodeSchedule(text), StatusIs(absl::StatusCode::kDataLoss)) << text;
  }
}

}  // namespace
}  // namespace profd::store
