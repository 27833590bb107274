// What makes room: eviction, pins, and retention of records.
#include <unistd.h>

#include <fstream>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "daemon/base/budget.h"
#include "daemon/base/reason.h"
#include "daemon/base/ulid.h"
#include "daemon/store/capture_store.h"
#include "daemon/store/data_dir.h"
#include "daemon/store/file/files.h"
#include "daemon/store/file/writer.h"
#include "tests/store/store_fixture.h"

namespace profd::store {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

constexpr auto kAny = [](const CaptureRecord&) { return true; };

// ---- room ----

// Stores captures of several principals, with a cap that counts what is there.
class StoreRoomTest : public StoreFixture {
 protected:
  CaptureRecord StoreOf(std::string_view principal, int number, bool pin = false) {
    CaptureRecord record = NewRecord(IdOf(number));
    record.requested_by = std::string(principal);
    return StoreCapture(record, pin);
  }
  std::vector<int> Kept(int numbers) {
    std::vector<int> kept;
    for (int i = 1; i <= numbers; ++i) {
      if (Exists(IdOf(i), ".profd")) kept.push_back(i);
    }
    return kept;
  }

  const std::string new_id_ = IdOf(999);  // Of a capture that needs room, and has no row yet.
};

TEST_F(StoreRoomTest, BeyondTheCapTheOldestFilesGoAndTheirRecordsStay) {
  const CaptureRecord oldest = StoreCapture(1);
  const CaptureRecord middle = StoreCapture(2);
  CapAt(oldest.file_bytes / 2);
  const CaptureRecord newest = StoreCapture(3);

  EXPECT_THAT(Kept(3), ElementsAre(2, 3));
  EXPECT_TRUE(Get(oldest.id).deleted);
  EXPECT_TRUE(Get(oldest.id).evicted);
  EXPECT_THAT(store_->GetSummaries(oldest.id)->steps, SizeIs(1));
  const auto usage = store_->Usage();
  ASSERT_THAT(usage, IsOk());
  EXPECT_EQ(usage->evicted_capture_count, 1);
  EXPECT_EQ(usage->capture_count, 2);
  EXPECT_EQ(usage->capture_bytes, middle.file_bytes + newest.file_bytes);
  EXPECT_GT(usage->catalog_bytes, 0);
}

TEST_F(StoreRoomTest, AFloodOfOnePrincipalEvictsItsOwnCapturesAndNoneOfOthers) {
  for (int i = 1; i <= 3; ++i) StoreOf("uid:0", i);
  const int64_t file_bytes = StoreOf("uid:65534", 4).file_bytes;
  StoreOf("uid:1000", 5);
  CapAt(3 * file_bytes);
  for (int i = 6; i <= 18; ++i) {
    ASSERT_THAT(store_->CheckRoom("uid:65534", new_id_), IsOk());
    StoreOf("uid:65534", i);
    store_->MakeRoom("uid:65534", new_id_);
  }
  const std::vector<int> kept = Kept(18);
  EXPECT_THAT(std::vector<int>(kept.begin(), kept.begin() + 4), ElementsAre(1, 2, 3, 5));
  EXPECT_EQ(kept.back(), 18);
  EXPECT_GE(store_->Usage()->evicted_capture_count, 10);
}

TEST_F(StoreRoomTest, APrincipalWithoutCapturesDisplacesTheOldestOfTheLargestHolder) {
  const int64_t file_bytes = StoreOf("uid:1", 1).file_bytes;
  StoreOf("uid:2", 2);
  StoreOf("uid:2", 3);
  CapAt(-file_bytes / 2);
  ASSERT_THAT(store_->CheckRoom("uid:3", new_id_), IsOk());
  EXPECT_THAT(Kept(3), ElementsAre(1, 2, 3)) << "nothing goes before the request is accepted";
  store_->MakeRoom("uid:3", new_id_);
  EXPECT_THAT(Kept(3), ElementsAre(1, 3));
}

TEST_F(StoreRoomTest, WhatCannotMakeEnoughRoomIsNotRemoved) {
  for (int i = 1; i <= 3; ++i) StoreOf("uid:0", i);
  const int64_t file_bytes = StoreOf("uid:65534", 4).file_bytes;
  CapAt(-2 * file_bytes);
  const absl::Status refused = store_->CheckRoom("uid:65534", new_id_);
  EXPECT_THAT(refused, StatusIs(StatusCode::kResourceExhausted,
                                AllOf(HasSubstr("quota 'storage' of uid:65534 is exceeded"),
                                      HasSubstr("largest holder: uid:65534 with"),
                                      HasSubstr("root holds"), HasSubstr("--max-storage"))));
  EXPECT_EQ(ReasonOf(refused), "QUOTA_EXCEEDED");
  store_->MakeRoom("uid:65534", new_id_);
  EXPECT_THAT(Kept(4), ElementsAre(1, 2, 3, 4));

  // The same of a disk that others have filled.
  CapAt(file_bytes);
  disk_.free_bytes = disk_.total_bytes / 100 * 4;
  EXPECT_THAT(store_->CheckRoom("uid:0", new_id_), StatusIs(StatusCode::kResourceExhausted));
  disk_.free_bytes = 0;
  EXPECT_THAT(store_->CheckRoom("uid:0", new_id_),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("free space on that disk")));
  store_->MakeRoom("uid:0", new_id_);
  EXPECT_THAT(Kept(4), ElementsAre(1, 2, 3, 4));
  disk_.free_bytes = disk_.total_bytes / 100 * 6;
  EXPECT_THAT(store_->CheckRoom("uid:65534", new_id_), IsOk());
}

TEST_F(StoreRoomTest, ACapThatTheOperatorLoweredHoldsFromTheNextStart) {
  const int64_t file_bytes = StoreOf("uid:0", 1).file_bytes;
  StoreOf("uid:1000", 2);
  StoreOf("uid:1000", 3, /*pin=*/true);
  CapAt(-file_bytes / 2);
  max_total_bytes_ = store_->Usage()->max_total_bytes;
  Reopen();
  EXPECT_THAT(Kept(3), ElementsAre(1, 3));
}

// An eviction plans all files before it removes the first one.
TEST_F(StoreRoomTest, WhatIsPinnedDuringAnEvictionIsKept) {
  constexpr int kCaptures = 120;
  constexpr int kPinned = 85;
  int64_t file_bytes = 0;
  for (int i = 1; i <= kCaptures; ++i) file_bytes = StoreOf("uid:0", i).file_bytes;
  CapAt(-90 * file_bytes);
  std::jthread evict([this] { store_->MakeRoom("uid:0", new_id_); });
  while (Exists(IdOf(1), ".profd")) std::this_thread::yield();
  const absl::Status pinned = store_->SetPinned(IdOf(kPinned), true);
  evict.join();
  // If it came too late, the caller knows.
  EXPECT_EQ(Exists(IdOf(kPinned), ".profd"), pinned.ok()) << pinned;
  EXPECT_FALSE(Exists(IdOf(kPinned - 1), ".profd"));
}

// ---- for whom ----

TEST_F(StoreRoomTest, ACaptureKnowsWhatItsSealEvictedAlsoAfterARestart) {
  const CaptureRecord oldest = StoreOf("uid:1", 1);
  StoreOf("uid:1", 2);
  CapAt(oldest.file_bytes / 2);
  StoreOf("uid:1", 3);
  for (int round = 0; round < 2; ++round) {
    const auto evicted = store_->ListEvictedFor(IdOf(3), "uid:1");
    ASSERT_THAT(evicted, IsOk());
    EXPECT_THAT(evicted->ids, ElementsAre(IdOf(1)));
    EXPECT_EQ(evicted->count, 1);
    max_total_bytes_ = int64_t{1} << 30;
    Reopen();
  }
  EXPECT_EQ(store_->ListEvictedFor(IdOf(2), "uid:1")->count, 0);
  EXPECT_EQ(store_->ListEvictedFor("", "uid:1")->count, 0);
}

TEST_F(StoreRoomTest, ACaptureKnowsWhatWasEvictedBeforeItHadARow) {
  const int64_t file_bytes = StoreOf("uid:1", 1).file_bytes;
  StoreOf("uid:1", 2);
  StoreOf("uid:1", 3);
  // The disk has too little space for an empty file.
  disk_ = {.total_bytes = 1 << 20,
           .free_bytes = 2 * CaptureFileWriter::kReserveBytes - file_bytes / 2};
  ASSERT_THAT(store_->CheckRoom("uid:1", new_id_), IsOk());
  EXPECT_THAT(store_->ListEvictedFor(new_id_, "uid:1")->ids, ElementsAre(IdOf(1)));
  disk_ = {.total_bytes = int64_t{1} << 40, .free_bytes = int64_t{1} << 39};
  // Its cap does not suffice while it runs, either.
  CapAt(-file_bytes / 2);
  store_->MakeRoom("uid:1", new_id_);
  EXPECT_THAT(store_->ListEvictedFor(new_id_, "uid:1")->ids, ElementsAre(IdOf(1), IdOf(2)));
}

TEST_F(StoreRoomTest, OfOtherPrincipalsEvictedCapturesOnlyTheNumberIsKnown) {
  const int64_t file_bytes = StoreOf("uid:1", 1).file_bytes;
  for (int i = 2; i <= 4; ++i) StoreOf("uid:2", i);
  CapAt(-3 * file_bytes / 2);
  store_->MakeRoom("uid:1", new_id_);
  ASSERT_THAT(Kept(4), ElementsAre(3, 4));
  const auto own = store_->ListEvictedFor(new_id_, "uid:1");
  ASSERT_THAT(own, IsOk());
  EXPECT_THAT(own->ids, ElementsAre(IdOf(1)));
  EXPECT_EQ(own->count, 2);
  EXPECT_THAT(store_->ListEvictedFor(new_id_, "uid:2")->ids, ElementsAre(IdOf(2)));
  EXPECT_THAT(store_->ListEvictedFor(new_id_, "uid:3")->ids, SizeIs(0));
}

TEST_F(StoreRoomTest, ManyEvictedCapturesAreCountedAndSomeNamed) {
  constexpr int kCaptures = 40;
  int64_t file_bytes = 0;
  for (int i = 1; i <= kCaptures; ++i) file_bytes = StoreOf("uid:1", i).file_bytes;
  CapAt(-20 * file_bytes + file_bytes / 2);
  store_->MakeRoom("uid:1", new_id_);
  const auto evicted = store_->ListEvictedFor(new_id_, "uid:1");
  ASSERT_THAT(evicted, IsOk());
  EXPECT_EQ(evicted->count, 20);
  ASSERT_THAT(evicted->ids, SizeIs(EvictedCaptures::kMostIds));
  EXPECT_EQ(evicted->ids.front(), IdOf(1));
}

TEST_F(StoreRoomTest, WhatTheUserOrALowerCapRemovedWasEvictedForNoCapture) {
  const int64_t file_bytes = StoreOf("uid:1", 1).file_bytes;
  StoreOf("uid:1", 2);
  StoreOf("uid:1", 3);
  ASSERT_THAT(store_->DeleteCapture(IdOf(1)), IsOk());
  CapAt(-file_bytes / 2);
  max_total_bytes_ = store_->Usage()->max_total_bytes;
  Reopen();
  ASSERT_THAT(Kept(3), ElementsAre(3));
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(store_->ListEvictedFor(IdOf(i), "uid:1")->count, 0);
}

TEST_F(StoreRoomTest, PinnedCapturesAreNotEvicted) {
  const int64_t file_bytes = StoreOf("uid:1", 1, /*pin=*/true).file_bytes;
  StoreOf("uid:1", 2);
  StoreOf("uid:1", 3);
  ASSERT_THAT(store_->SetPinned(IdOf(2), true), IsOk());
  ASSERT_THAT(store_->SetPinned(IdOf(2), true), IsOk());
  EXPECT_TRUE(*store_->IsPinned(IdOf(1)));
  EXPECT_EQ(store_->Usage()->pinned_bytes, 2 * file_bytes);
  Reopen();
  EXPECT_TRUE(*store_->IsPinned(IdOf(2)));
  CapAt(file_bytes / 2);
  StoreOf("uid:1", 4);
  EXPECT_THAT(Kept(4), ElementsAre(1, 2, 4));

  ASSERT_THAT(store_->SetPinned(IdOf(1), false), IsOk());
  StoreOf("uid:1", 5);
  EXPECT_THAT(Kept(5), ElementsAre(2, 4, 5));
  EXPECT_THAT(store_->SetPinned(IdOf(1), true), StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_THAT(store_->SetPinned(IdOf(9), true), StatusIs(StatusCode::kNotFound));
  ASSERT_THAT(store_->DeleteCapture(IdOf(2)), IsOk());
  EXPECT_FALSE(*store_->IsPinned(IdOf(2)));
  EXPECT_EQ(store_->Usage()->pinned_bytes, 0);
}

TEST_F(StoreRoomTest, PinsCannotFillTheStore) {
  const int64_t file_bytes = StoreOf("uid:1", 1).file_bytes;
  store_->SetLimits(10 * file_bytes, 5);
  EXPECT_EQ(store_->MaxPinnedBytes("uid:1"), 10 * file_bytes / 4);
  for (int i = 2; i <= 4; ++i) StoreOf("uid:1", i);
  ASSERT_THAT(store_->SetPinned(IdOf(1), true), IsOk());
  ASSERT_THAT(store_->SetPinned(IdOf(2), true), IsOk());
  EXPECT_THAT(store_->SetPinned(IdOf(3), true),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("profctl unpin")));
  EXPECT_FALSE(*store_->IsPinned(IdOf(3)));
  // Whoever asks for a pin before the size is known is at the same limit.
  StoreOf("uid:2", 5, /*pin=*/true);
  EXPECT_TRUE(*store_->IsPinned(IdOf(5)));
  StoreOf("uid:1", 6, /*pin=*/true);
  EXPECT_FALSE(*store_->IsPinned(IdOf(6)));
}

TEST_F(StoreRoomTest, ALoweredCapFreesRoomWithoutACapture) {
  for (int i = 1; i <= 3; ++i) StoreOf("uid:1", i);
  ASSERT_THAT(store_->SetPinned(IdOf(2), true), IsOk());
  store_->SetLimits(1, 5);
  store_->TrimSoon();
  while (Exists(IdOf(1), ".profd") || Exists(IdOf(3), ".profd")) std::this_thread::yield();
  EXPECT_THAT(Kept(3), ElementsAre(2));
  EXPECT_TRUE(Get(IdOf(1)).evicted);
  // It gives what it can, although that is not enough, and does it again when asked again.
  ASSERT_THAT(store_->SetPinned(IdOf(2), false), IsOk());
  store_->TrimSoon();
  while (Exists(IdOf(2), ".profd")) std::this_thread::yield();
  EXPECT_TRUE(Get(IdOf(2)).evicted);
}

TEST_F(StoreRoomTest, ACaptureLargerThanTheCapIsThereWhenItEnds) {
  max_total_bytes_ = 1;
  Reopen();
  const CaptureRecord stored = StoreCapture(1);
  EXPECT_THAT(store_->OpenReader(stored.id), IsOk());
}

// Ranges that do not compress, until the file takes `bytes` or takes no more.
absl::Status Fill(CaptureFileSink& sink, int64_t bytes) {
  absl::Status status = sink.AddName(1, "op");
  std::mt19937_64 random(1);
  int64_t now_ns = 0;
  while (status.ok() && sink.approx_bytes() < bytes) {
    std::vector<RangeRow> rows(10'000, RangeRow{0, 0, 1, 0, 0, 0});
    for (RangeRow& row : rows) {
      row.start_ns = now_ns += static_cast<int64_t>(random() % 100'000);
      row.duration_ns = static_cast<int64_t>(random() % 1'000'000);
    }
    status = sink.Append(0, rows);
  }
  return status;
}

TEST_F(StoreRoomTest, FilesThatAreBeingWrittenCountTowardsTheCap) {
  StoreOf("uid:1", 1);
  StoreOf("uid:1", 2);
  CapAt(2 << 20);
  EXPECT_THAT(store_->CheckRoom("uid:1", new_id_), IsOk());
  CaptureRecord record = NewRecord(IdOf(3));
  record.requested_by = "uid:1";
  ASSERT_THAT(store_->InsertCapture(record), IsOk());
  const auto sink = store_->CreateFile(record);
  ASSERT_THAT(sink, IsOk());
  ASSERT_THAT(Fill(**sink, 2 << 20), IsOk());
  store_->MakeRoom("uid:1", new_id_);
  EXPECT_THAT(Kept(2), Not(Contains(1))) << "it made room while the capture still ran";
  const auto usage = store_->Usage();
  EXPECT_LE(usage->capture_bytes, usage->max_total_bytes);
  (*sink)->Discard();
}

TEST_F(StoreRoomTest, ACaptureThatWouldExceedTheCapAloneEndsThere) {
  max_total_bytes_ = 2 << 20;
  Reopen();
  CaptureRecord record = NewRecord(IdOf(1));
  ASSERT_THAT(store_->InsertCapture(record), IsOk());
  const auto sink = store_->CreateFile(record);
  ASSERT_THAT(sink, IsOk());
  EXPECT_THAT(Fill(**sink, 8 << 20), StatusIs(StatusCode::kOutOfRange));
  record = FinishedRecord(record, TwoSteps());
  ASSERT_THAT((*sink)->Finish(record, 0), IsOk());
  EXPECT_GT(store_->Usage()->capture_bytes, 1 << 20);
  EXPECT_LE(store_->Usage()->capture_bytes, max_total_bytes_);
}

// ---- what the ledger is told ----

class HoldingsTest : public StoreRoomTest {
 protected:
  int64_t Use(std::string_view principal, quota::Resource resource) {
    return ledger_.Use(quota::PrincipalFromName(principal, geteuid()), resource);
  }
  int64_t StoredBytes(std::string_view principal) {
    return Use(principal, quota::Resource::kStoredBytes);
  }
};

TEST_F(HoldingsTest, AFileAndItsRecordCountAsStorage) {
  const CaptureRecord first = StoreOf("uid:1", 1);
  const int64_t of_one = StoredBytes("uid:1");
  EXPECT_GE(of_one, first.file_bytes + 100) << "with the record";
  StoreOf("uid:1", 2);
  EXPECT_GE(StoredBytes("uid:1"), 2 * of_one - 100);
  EXPECT_EQ(StoredBytes("uid:2"), 0);

  const int64_t both = StoredBytes("uid:1");
  ASSERT_THAT(store_->DeleteCapture(IdOf(1)), IsOk());
  EXPECT_EQ(StoredBytes("uid:1"), both - first.file_bytes) << "the record stays";
  ASSERT_THAT(store_->PurgeCaptures(absl::InfiniteFuture(), /*dry_run=*/false, kAny), IsOk());
  EXPECT_EQ(StoredBytes("uid:1"), 0);
}

TEST_F(HoldingsTest, ARecordCountsFromItsBeginningAndWithItsNames) {
  summarize_ops_ = [](const CaptureReader&) -> absl::StatusOr<std::vector<OpSummaryRow>> {
    return std::vector<OpSummaryRow>{{.name = std::string(4096, 'x'), .calls = 1}};
  };
  Reopen();
  CaptureRecord record = NewRecord(IdOf(1));
  record.requested_by = "uid:1";
  ASSERT_THAT(store_->InsertCapture(record), IsOk());
  EXPECT_GT(StoredBytes("uid:1"), 100);
  const CaptureRecord stored = StoreOf("uid:2", 2);
  EXPECT_GT(StoredBytes("uid:2"), stored.file_bytes + 4096);
}

TEST_F(HoldingsTest, WhatAnEvictionRemovesIsReturned) {
  const int64_t file_bytes = StoreOf("uid:1", 1).file_bytes;
  StoreOf("uid:1", 2);
  const int64_t both = StoredBytes("uid:1");
  CapAt(-file_bytes / 2);
  store_->MakeRoom("uid:1", new_id_);
  EXPECT_EQ(StoredBytes("uid:1"), both - file_bytes);
}

TEST_F(HoldingsTest, EverythingIsCountedAgainAtTheStart) {
  StoreOf("uid:1", 1);
  StoreOf("uid:1", 2);
  ASSERT_THAT(store_->InsertSchedule({.id = IdOf(3), .creator = {.uid = 1}}), IsOk());
  ASSERT_THAT(store_->AppendAudit({.principal = "uid:1", .method = "A"}), IsOk());
  const quota::Principal holder = quota::PrincipalFromName("uid:1", geteuid());
  for (const auto resource :
       {quota::Resource::kStoredBytes, quota::Resource::kSchedules, quota::Resource::kAuditRows}) {
    const int64_t held = Use("uid:1", resource);
    EXPECT_GT(held, 0);
    ledger_.SetUse(holder, resource, 0);
    Reopen();
    EXPECT_EQ(Use("uid:1", resource), held) << quota::InfoOf(resource).name;
  }
}

TEST_F(HoldingsTest, DeletedSchedulesCountUntilTheyAreRemoved) {
  ScheduleRecord record{
      .id = IdOf(1), .creator = {.uid = 1}, .delete_time = absl::InfiniteFuture()};
  ASSERT_THAT(store_->InsertSchedule(record), IsOk());
  EXPECT_EQ(Use("uid:1", quota::Resource::kSchedules), 1);
  EXPECT_GT(StoredBytes("uid:1"), 0);
  EXPECT_FALSE(*store_->RemoveOldestDeletedSchedule("uid:1"));
  record.delete_time = clock_.Now();
  ASSERT_THAT(store_->UpdateSchedule(record), IsOk());
  EXPECT_EQ(Use("uid:1", quota::Resource::kSchedules), 1);
  EXPECT_FALSE(*store_->RemoveOldestDeletedSchedule("uid:2"));
  EXPECT_TRUE(*store_->RemoveOldestDeletedSchedule("uid:1"));
  EXPECT_EQ(Use("uid:1", quota::Resource::kSchedules), 0);
  EXPECT_EQ(StoredBytes("uid:1"), 0);
}

TEST_F(HoldingsTest, RowsOfTheAuditLogAreCharged) {
  for (const char* method : {"A", "B", "B", "A"}) {
    ASSERT_THAT(store_->AppendAudit({.time = clock_.Now(), .principal = "uid:1", .method = method}),
                IsOk());
  }
  EXPECT_EQ(Use("uid:1", quota::Resource::kAuditRows), 3) << "a repetition is no row";
}

// ---- retention ----

class RetentionTest : public StoreFixture {
 protected:
  CaptureRecord StoreAt(absl::Duration age, std::string_view principal = "uid:1000",
                        bool pin = false) {
    CaptureRecord record = NewRecord(NewUlid(clock_.Now() - age));
    record.create_time = clock_.Now() - age;
    record.requested_by = std::string(principal);
    record.spec.labels = {{"key", "value"}};
    record.group_id = record.id;
    EXPECT_THAT(store_->PutGroup({.id = record.id}), IsOk());
    return StoreCapture(record, pin);
  }
  int64_t Count(const char* sql) {
    auto catalog = Database::Open(folder_ / "data" / "catalog.db", Database::Mode::kReadWrite);
    EXPECT_THAT(catalog, IsOk());
    const auto count = (*catalog)->QueryInt(sql);
    EXPECT_THAT(count, IsOk());
    return count.value_or(-1);
  }
};

TEST_F(RetentionTest, APurgeRemovesOldCapturesWithAllThatBelongsToThem) {
  const CaptureRecord old = StoreAt(absl::Hours(48));
  const CaptureRecord pinned = StoreAt(absl::Hours(48), "uid:1000", /*pin=*/true);
  const CaptureRecord recent = StoreAt(absl::Hours(1));
  const absl::Time before = clock_.Now() - absl::Hours(24);
  const auto counted = store_->PurgeCaptures(before, /*dry_run=*/true, kAny);
  ASSERT_THAT(counted, IsOk());
  EXPECT_EQ(counted->capture_count, 1);
  EXPECT_EQ(counted->file_bytes, old.file_bytes);
  EXPECT_EQ(store_->PurgeCaptures(before, false, [](const CaptureRecord&) { return false; })
                ->capture_count,
            0);
  EXPECT_TRUE(Exists(old.id, ".profd"));

  ASSERT_THAT(store_->PurgeCaptures(before, /*dry_run=*/false, kAny), IsOk());
  EXPECT_FALSE(Exists(old.id, ".profd"));
  EXPECT_THAT(store_->GetCapture(old.id), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(store_->GetGroup(old.id), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(store_->GetCapture(pinned.id), IsOk());
  EXPECT_THAT(store_->GetCapture(recent.id), IsOk());
  for (const char* sql :
       {"SELECT count(*) FROM step_summary", "SELECT count(*) FROM captures",
        "SELECT count(*) FROM capture_labels", "SELECT count(*) FROM capture_groups"}) {
    EXPECT_EQ(Count(sql), 2) << sql;
  }
}

TEST_F(RetentionTest, WhatIsPinnedDuringAPurgeIsKeptAndNotCounted) {
  const CaptureRecord old = StoreAt(absl::Hours(48));
  const CaptureRecord saved = StoreAt(absl::Hours(47));
  const auto purged =
      store_->PurgeCaptures(clock_.Now(), /*dry_run=*/false, [&](const CaptureRecord& record) {
        if (record.id == saved.id) {
          EXPECT_THAT(store_->SetPinned(saved.id, true), IsOk());
        }
        return true;
      });
  ASSERT_THAT(purged, IsOk());
  EXPECT_EQ(purged->capture_count, 1);
  EXPECT_EQ(purged->file_bytes, old.file_bytes);
  EXPECT_FALSE(Exists(old.id, ".profd"));
  EXPECT_TRUE(Exists(saved.id, ".profd"));
  EXPECT_TRUE(*store_->IsPinned(saved.id));
}

TEST_F(RetentionTest, RecordsGoByAge) {
  const CaptureRecord old = StoreAt(absl::Hours(24 * 10));
  const CaptureRecord recent = StoreAt(absl::Hours(1));
  keep_records_ = absl::Hours(24 * 9);
  Reopen();
  EXPECT_THAT(store_->GetCapture(old.id), IsOk()) << "the clock may not have been set yet";
  clock_.Advance(SettledClock::kSettling);
  StoreAt(absl::ZeroDuration());
  EXPECT_THAT(store_->GetCapture(old.id), StatusIs(StatusCode::kNotFound));
  EXPECT_FALSE(Exists(old.id, ".profd"));
  EXPECT_THAT(store_->GetCapture(recent.id), IsOk());
}

TEST_F(RetentionTest, EachPrincipalKeepsItsNewestRecords) {
  std::vector<std::string> flood;
  flood.reserve(5);
  const CaptureRecord other = StoreAt(absl::Hours(10), "uid:1");
  for (int i = 0; i < 5; ++i) flood.push_back(StoreAt(absl::Hours(9 - i), "uid:2").id);
  max_records_ = 3;
  Reopen();
  EXPECT_THAT(store_->GetCapture(other.id), IsOk());
  EXPECT_EQ(Count("SELECT count(*) FROM captures WHERE principal = 'uid:2'"), 3);
  EXPECT_THAT(store_->GetCapture(flood[1]), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(store_->GetCapture(flood[2]), IsOk());
}

TEST_F(RetentionTest, TheCatalogStaysWithinItsPartOfTheCap) {
  // Names of operators as long as they may be.
  summarize_ops_ = [](const CaptureReader&) -> absl::StatusOr<std::vector<OpSummaryRow>> {
    std::vector<OpSummaryRow> ops;
    ops.reserve(300);
    for (int i = 0; i < 300; ++i) ops.push_back({.name = std::string(4096, 'x'), .calls = 1});
    return ops;
  };
  max_total_bytes_ = 4 << 20;
  Reopen();
  const CaptureRecord other = StoreAt(absl::Hours(90), "uid:1");
  EXPECT_THAT(store_->GetSummaries(other.id)->ops, SizeIs(8));
  for (int i = 0; i < 60; ++i) {
    ASSERT_THAT(store_->DeleteCapture(StoreAt(absl::Minutes(600 - i), "uid:2").id), IsOk());
  }
  EXPECT_LE(Count("PRAGMA page_count") * Count("PRAGMA page_size"), (1 << 20) + (256 << 10));
  EXPECT_THAT(store_->GetCapture(other.id), IsOk());
  EXPECT_LT(Count("SELECT count(*) FROM captures"), 40);
}

}  // namespace
}  // namespace profd::store
