// The catalog becomes what this version needs, and refuses what it does not understand.
#include "daemon/store/catalog/catalog.h"

#include <sqlite3.h>

#include <fstream>

#include "daemon/base/str_cat.h"
#include "daemon/store/catalog/schema.h"
#include "daemon/store/file/record_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/status_matchers.h"
#include "tests/store/file/capture_file_builder.h"
#include "tests/store/store_fixture.h"

namespace profd::store {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

class CatalogTest : public testing::Test {
 protected:
  int64_t Query(const char* sql) {
    const auto db = Database::Open(path_, Database::Mode::kReadWrite);
    EXPECT_THAT(db, IsOk());
    const auto value = (*db)->QueryInt(sql);
    EXPECT_THAT(value, IsOk());
    return value.value_or(-1);
  }
  void Exec(const std::string& sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    char* error = nullptr;
    ASSERT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK) << error;
    sqlite3_close(db);
  }

  TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_ / "catalog.db";
};

TEST_F(CatalogTest, VersionsCountUpFromOneWithoutGaps) {
  int64_t expected = 0;
  for (const Migration& migration : CatalogMigrations()) EXPECT_EQ(migration.version, ++expected);
  EXPECT_GE(expected, 1);
}

TEST_F(CatalogTest, AnEmptyCatalogBecomesTheNewestVersion) {
  ASSERT_THAT(Catalog::Open(path_), IsOk());
  EXPECT_EQ(Query("PRAGMA user_version"), CatalogMigrations().back().version);
  EXPECT_EQ(Query("PRAGMA application_id"), kCatalogApplicationId);
  ASSERT_THAT(Catalog::Open(path_), IsOk());  // And a second time nothing is to be done.
}

TEST_F(CatalogTest, EveryMigrationRunsOnceAndKeepsWhatIsThere) {
  {
    auto catalog = Catalog::Open(path_);
    ASSERT_THAT(catalog, IsOk());
    ASSERT_THAT((*catalog)->Insert(NewRecord(IdOf(1))), IsOk());
  }
  std::vector<Migration> migrations(CatalogMigrations().begin(), CatalogMigrations().end());
  const int64_t next = migrations.back().version + 1;
  migrations.push_back({next, "ALTER TABLE captures ADD COLUMN added INTEGER NOT NULL DEFAULT 0"});
  migrations.push_back({next + 1, "UPDATE captures SET added = 7"});
  {
    auto db = Database::Open(path_, Database::Mode::kReadWrite);
    ASSERT_THAT(db, IsOk());
    ASSERT_THAT(MigrateCatalog(**db, migrations), IsOk());
    ASSERT_THAT(MigrateCatalog(**db, migrations), IsOk());
  }
  EXPECT_EQ(Query("PRAGMA user_version"), next + 1);
  EXPECT_EQ(Query("SELECT added FROM captures"), 7);
  EXPECT_EQ(Query("SELECT count(*) FROM captures"), 1);
}

// Or else the commit does that finds 1,000 pages: that of a capture to be armed, for example.
TEST_F(CatalogTest, AnotherConnectionCopiesALongLog) {
  auto catalog = Catalog::Open(path_);
  ASSERT_THAT(catalog, IsOk());
  constexpr uint64_t kPageBytes = 4096 + 24;  // In the log.
  const std::filesystem::path log = path_.string() + "-wal";
  const auto table_bytes = [this] { return std::filesystem::file_size(path_); };
  const auto log_bytes = [&log] { return std::filesystem::file_size(log); };
  int count = 0;
  const auto insert = [&] { ASSERT_THAT((*catalog)->Insert(NewRecord(IdOf(++count))), IsOk()); };
  insert();
  EXPECT_FALSE((*catalog)->HasLongLog());
  const uint64_t bytes_before = table_bytes();
  while (log_bytes() < 400 * kPageBytes) insert();
  EXPECT_TRUE((*catalog)->HasLongLog());
  EXPECT_EQ(table_bytes(), bytes_before);
  {
    const auto other = Database::Open(path_, Database::Mode::kReadWrite);
    ASSERT_THAT(other, IsOk());
    ASSERT_THAT((*other)->Checkpoint(), IsOk());
  }
  EXPECT_GT(table_bytes(), bytes_before);
  // The log begins anew in the same file.
  const uint64_t log_bytes_before = log_bytes();
  insert();
  EXPECT_FALSE((*catalog)->HasLongLog());
  EXPECT_EQ(log_bytes(), log_bytes_before);
  // Also without that, it has an end.
  for (int i = 0; i < 1'000; ++i) insert();
  EXPECT_GT(log_bytes(), 900 * kPageBytes);
  EXPECT_LT(log_bytes(), 1'200 * kPageBytes);
  EXPECT_EQ(Query("SELECT count(*) FROM captures"), count);
}

TEST_F(CatalogTest, ACatalogOfVersionOneKeepsItsCapturesAndSummaries) {
  {
    auto db = Database::Open(path_, Database::Mode::kReadWrite);
    if (!db.ok()) {
      std::ofstream(path_).flush();
      db = Database::Open(path_, Database::Mode::kReadWrite);
    }
    ASSERT_THAT(db, IsOk());
    ASSERT_THAT(MigrateCatalog(**db, CatalogMigrations().first(1)), IsOk());
  }
  Exec(
      StrCat("INSERT INTO captures(id, group_id, request_id, requested_by_uid, owner_uid, pid, "
             "display_name, state, create_unix_ns, file_bytes, file_sha256, deleted, evicted, "
             "record) VALUES('",
             IdOf(1), "', '', '', 0, 0, 1, '', 8, 1, 0, '', 0, 0, '",
             EncodeRecord(NewRecord(IdOf(1))), "')"));
  Exec(StrCat("INSERT INTO op_summary VALUES('", IdOf(1),
              "', 0, CAST('op' AS BLOB), 2, 5, 6, 1, 4)"));
  Exec(StrCat("INSERT INTO step_summary VALUES('", IdOf(1), "', 0, 3, 10, 20, 21, 30)"));
  Exec("INSERT INTO audit_log VALUES(1, 5, 1000, 'CreateCapture', 'captures/1', 'OK')");

  auto catalog = Catalog::Open(path_);
  ASSERT_THAT(catalog, IsOk());
  EXPECT_EQ(Query("PRAGMA user_version"), CatalogMigrations().back().version);
  const auto summaries = (*catalog)->GetSummaries(IdOf(1));
  ASSERT_THAT(summaries, IsOk());
  ASSERT_THAT(summaries->ops, SizeIs(1));
  EXPECT_EQ(summaries->ops[0].name, "op");
  EXPECT_EQ(summaries->ops[0].cpu_total_ns, 6);
  EXPECT_EQ(summaries->ops[0].self_device_ns, 0);
  ASSERT_THAT(summaries->steps, SizeIs(1));
  EXPECT_EQ(summaries->steps[0].median_ns, 20);
  EXPECT_THAT(summaries->devices, SizeIs(0));
  EXPECT_THAT((*catalog)->PutGroup({.id = IdOf(2)}), IsOk());
  const auto audit = (*catalog)->ListAudit({}, 10, 0);
  ASSERT_THAT(audit, IsOk());
  ASSERT_THAT(audit->entries, SizeIs(1));
  EXPECT_EQ(audit->entries[0].principal, "uid:1000");
  EXPECT_EQ(audit->entries[0].method, "CreateCapture");
  EXPECT_THAT((*catalog)->GetSwitch("captures_forbidden"), IsOkAndHolds(std::nullopt));
}

TEST_F(CatalogTest, ACatalogOfVersionTwoKnowsWhoHoldsWhat) {
  {
    std::ofstream(path_).flush();
    auto db = Database::Open(path_, Database::Mode::kReadWrite);
    ASSERT_THAT(db, IsOk());
    ASSERT_THAT(MigrateCatalog(**db, CatalogMigrations().first(2)), IsOk());
  }
  CaptureRecord by_certificate = NewRecord(IdOf(2));
  by_certificate.requested_by = "cn:alice";
  for (const CaptureRecord& record : {NewRecord(IdOf(1)), by_certificate}) {
    Exec(
        StrCat("INSERT INTO captures(id, group_id, request_id, requested_by_uid, owner_uid, pid, "
               "display_name, state, create_unix_ns, file_bytes, file_sha256, deleted, evicted, "
               "record) VALUES('",
               record.id, "', '', '', 1000, 0, 1, '', 8, 1, 4096, '', 0, 0, '",
               EncodeRecord(record), "')"));
  }
  ScheduleRecord schedule{.id = IdOf(3), .creator = {.uid = 1001}};
  Exec(StrCat("INSERT INTO schedules VALUES('", IdOf(3), "', 0, 0, 0, '", EncodeSchedule(schedule),
              "')"));
  Exec(
      "INSERT INTO audit_log VALUES(1, 5, 'GetOps', '', 'PERMISSION_DENIED', 'uid:7', '', '', 0, "
      "0)");

  auto catalog = Catalog::Open(path_);
  ASSERT_THAT(catalog, IsOk());
  const auto holders = (*catalog)->ListHolders();
  ASSERT_THAT(holders, IsOk());
  ASSERT_THAT(*holders, SizeIs(2));
  EXPECT_EQ((*holders)[0].principal, "cn:alice");
  EXPECT_EQ((*holders)[1].principal, "uid:1000");
  EXPECT_EQ((*holders)[1].file_bytes, 4096);
  EXPECT_EQ(Query("SELECT count(*) FROM captures WHERE summary_bytes > 0 AND pinned = 0"), 2);
  EXPECT_EQ(Query("SELECT count(*) FROM schedules WHERE principal = 'uid:1001' AND "
                  "record_bytes = length(record)"),
            1);
  EXPECT_EQ(Query("SELECT count(*) FROM audit_log WHERE kind = 1 AND last_unix_ns = 5"), 1);
  EXPECT_EQ(Query("PRAGMA auto_vacuum"), 2);
}

TEST_F(CatalogTest, ACatalogOfVersionFiveDoesNotKnowForWhichCaptureItsCapturesWereEvicted) {
  {
    std::ofstream(path_).flush();
    auto db = Database::Open(path_, Database::Mode::kReadWrite);
    ASSERT_THAT(db, IsOk());
    ASSERT_THAT(MigrateCatalog(**db, CatalogMigrations().first(5)), IsOk());
  }
  for (const int number : {1, 2}) {
    const int is_evicted = number == 1 ? 1 : 0;
    Exec(
        StrCat("INSERT INTO captures(id, group_id, request_id, requested_by_uid, owner_uid, pid, "
               "display_name, state, create_unix_ns, file_bytes, file_sha256, deleted, evicted, "
               "record, principal) VALUES('",
               IdOf(number), "', '', '', 1000, 0, 1, '', 8, 1, 4096, '', ", is_evicted, ", ",
               is_evicted, ", '", EncodeRecord(NewRecord(IdOf(number))), "', 'uid:1000')"));
  }
  auto catalog = Catalog::Open(path_);
  ASSERT_THAT(catalog, IsOk());
  EXPECT_EQ((*catalog)->Count()->evicted, 1);
  EXPECT_EQ((*catalog)->ListEvictedFor(IdOf(2), "uid:1000")->count, 0);
  // One that was removed before stays as it is.
  ASSERT_THAT((*catalog)->MarkEvicted(IdOf(1), IdOf(3)), IsOk());
  EXPECT_EQ((*catalog)->ListEvictedFor(IdOf(3), "uid:1000")->count, 0);
  ASSERT_THAT((*catalog)->MarkEvicted(IdOf(2), IdOf(3)), IsOk());
  EXPECT_THAT((*catalog)->ListEvictedFor(IdOf(3), "uid:1000")->ids, testing::ElementsAre(IdOf(2)));
}

TEST_F(CatalogTest, AGroupIsReplacedByWhatIsKnownOfItLater) {
  auto catalog = Catalog::Open(path_);
  ASSERT_THAT(catalog, IsOk());
  EXPECT_THAT((*catalog)->GetGroup(IdOf(1)), StatusIs(StatusCode::kNotFound));
  GroupRecord group{.id = IdOf(1), .members = {{.node = "a"}}, .requested_by = "uid:1000"};
  ASSERT_THAT((*catalog)->PutGroup(group), IsOk());
  group.first_step = 120;
  group.members.push_back({.node = "b", .state = CaptureState::kComplete});
  group.closed = true;
  ASSERT_THAT((*catalog)->PutGroup(group), IsOk());
  EXPECT_THAT((*catalog)->GetGroup(IdOf(1)), IsOkAndHolds(group));
  EXPECT_EQ(Query("SELECT count(*) FROM capture_groups"), 1);
}

TEST_F(CatalogTest, AMigrationThatFailsLeavesTheVersionBefore) {
  ASSERT_THAT(Catalog::Open(path_), IsOk());
  std::vector<Migration> migrations(CatalogMigrations().begin(), CatalogMigrations().end());
  const int64_t newest = migrations.back().version;
  migrations.push_back({newest + 1, "CREATE TABLE half(x); SELECT * FROM nowhere"});
  auto db = Database::Open(path_, Database::Mode::kReadWrite);
  ASSERT_THAT(db, IsOk());
  EXPECT_FALSE(MigrateCatalog(**db, migrations).ok());
  EXPECT_THAT((*db)->QueryInt("PRAGMA user_version"), IsOkAndHolds(newest));
  EXPECT_THAT((*db)->QueryInt("SELECT count(*) FROM sqlite_schema WHERE name = 'half'"),
              IsOkAndHolds(0));
}

TEST_F(CatalogTest, ACatalogOfANewerProfdIsRefusedAndLeftAsItIs) {
  ASSERT_THAT(Catalog::Open(path_), IsOk());
  Exec("PRAGMA user_version = 99");
  EXPECT_THAT(Catalog::Open(path_), StatusIs(StatusCode::kFailedPrecondition,
                                             AllOf(HasSubstr("newer profd"), HasSubstr("99"))));
  EXPECT_EQ(Query("PRAGMA user_version"), 99);
}

TEST_F(CatalogTest, WhatIsNoCatalogIsDataLossWithAdvice) {
  Exec("CREATE TABLE t(x)");
  EXPECT_THAT(Catalog::Open(path_), StatusIs(StatusCode::kDataLoss, HasSubstr("move")));
  std::ofstream(path_, std::ios::trunc) << std::string(8'192, 'x');
  EXPECT_THAT(Catalog::Open(path_), StatusIs(StatusCode::kDataLoss, HasSubstr("move")));
}

// ---- the audit log ----

class AuditLogTest : public CatalogTest {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    catalog_.reset();
    auto catalog = Catalog::Open(path_);
    ASSERT_THAT(catalog, IsOk());
    catalog_ = *std::move(catalog);
  }
  // Returns false if it was counted as a repetition.
  bool Append(std::string_view principal, std::string_view resource,
              AuditKind kind = AuditKind::kRoutine) {
    const auto appended = catalog_->AppendAudit({.time = now_,
                                                 .principal = std::string(principal),
                                                 .method = "CancelCapture",
                                                 .resource = std::string(resource),
                                                 .outcome = "NOT_FOUND",
                                                 .kind = kind});
    EXPECT_THAT(appended, IsOk());
    return appended.value_or(false);
  }
  // `rows` rows that a daemon before wrote.
  void Fill(std::string_view principal, AuditKind kind, int64_t rows) {
    Exec(StrCat("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ", rows,
                ") INSERT INTO audit_log(time_unix_ns, principal, method, resource, outcome, kind, "
                "last_unix_ns) SELECT 1, '",
                principal, "', 'GetOps', i, 'OK', ", static_cast<int>(kind), ", 1 FROM n"));
  }
  int64_t Rows(std::string_view principal, AuditKind kind) {
    return Query(StrCat("SELECT count(*) FROM audit_log WHERE principal = '", principal,
                        "' AND kind = ", static_cast<int>(kind))
                     .c_str());
  }

  absl::Time now_ = absl::FromUnixSeconds(1'790'000'000);
  std::unique_ptr<Catalog> catalog_;
};

TEST_F(AuditLogTest, AFloodPushesOutNeitherOthersRowsNorRefusals) {
  ASSERT_TRUE(Append("uid:7", "captures/1", AuditKind::kRefusal));
  ASSERT_TRUE(Append("uid:7", "captures/1", AuditKind::kAdministrative));
  ASSERT_TRUE(Append("uid:0", "captures/1"));
  const int64_t most = Catalog::MaxAuditRowsOf(AuditKind::kRoutine);
  Fill("uid:7", AuditKind::kRoutine, most);
  Open();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Append("uid:7", StrCat("none/", i)));
  EXPECT_EQ(Rows("uid:7", AuditKind::kRoutine), most);
  EXPECT_EQ(Rows("uid:7", AuditKind::kRefusal), 1);
  EXPECT_EQ(Rows("uid:7", AuditKind::kAdministrative), 1);
  EXPECT_EQ(Rows("uid:0", AuditKind::kRoutine), 1);
  EXPECT_EQ(catalog_->ListAudit({.principal = "uid:7"}, 1, 0)->entries[0].resource, "none/19");
}

TEST_F(AuditLogTest, OfManyPrincipalsTheOneWithMostRowsLosesItsOldest) {
  for (int i = 1; i <= 9; ++i) Fill(StrCat("uid:", i), AuditKind::kRoutine, 20'000);
  Fill("uid:10", AuditKind::kRoutine, 19'999);
  Fill("uid:0", AuditKind::kRoutine, 1);
  Open();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Append("uid:0", StrCat("captures/", i)));
  EXPECT_EQ(Query("SELECT count(*) FROM audit_log"), Catalog::kMaxAuditRows);
  EXPECT_EQ(Rows("uid:0", AuditKind::kRoutine), 11);
  EXPECT_EQ(Rows("uid:10", AuditKind::kRoutine), 19'999);
}

TEST_F(AuditLogTest, EqualCallsInARowAreCounted) {
  ASSERT_TRUE(Append("uid:7", "captures/1"));
  for (int i = 0; i < 3; ++i) {
    now_ += absl::Seconds(1);
    EXPECT_FALSE(Append("uid:7", "captures/1"));
    EXPECT_EQ(Append("uid:8", "captures/1"), i == 0) << "others do not end a run";
  }
  const auto page = catalog_->ListAudit({.principal = "uid:7"}, 10, 0);
  ASSERT_THAT(page, IsOk());
  ASSERT_THAT(page->entries, SizeIs(1));
  EXPECT_EQ(page->entries[0].repeats, 3);
  EXPECT_EQ(page->entries[0].time, now_ - absl::Seconds(3));
  EXPECT_EQ(page->entries[0].last_time, now_);
  EXPECT_THAT(catalog_->ListAudit({.since = now_}, 10, 0)->entries, SizeIs(2));

  EXPECT_TRUE(Append("uid:7", "captures/2"));
  EXPECT_TRUE(Append("uid:7", "captures/1"));
  now_ += Catalog::kRepeatWindow + absl::Seconds(1);
  EXPECT_TRUE(Append("uid:7", "captures/1"));
  now_ -= absl::Hours(1);
  EXPECT_TRUE(Append("uid:7", "captures/1")) << "the clock was set back";
  Open();
  EXPECT_TRUE(Append("uid:7", "captures/1")) << "another daemon";
}

class CatalogLossTest : public StoreFixture {};

TEST_F(CatalogLossTest, WithoutItsCatalogAStoreFindsTheCapturesByTheirFiles) {
  summarize_ops_ = [](CaptureReader&) -> absl::StatusOr<std::vector<OpSummaryRow>> {
    return std::vector<OpSummaryRow>{{"op", 2, 500, 500, 200, 300}};
  };
  Reopen();
  CaptureRecord record = NewRecord(IdOf(1));
  record.spec.labels = {{"run", "7"}};
  const CaptureRecord stored = StoreCapture(record);
  store_.reset();
  for (const char* suffix : {"", "-wal", "-shm"}) {
    std::filesystem::remove(folder_ / "data" / StrCat("catalog.db", suffix));
  }
  Reopen();
  const CaptureRecord found = Get(stored.id);
  EXPECT_EQ(found.state, CaptureState::kComplete);
  EXPECT_EQ(found.file_sha256, stored.file_sha256);
  EXPECT_EQ(found.file_bytes, stored.file_bytes);
  EXPECT_THAT(ListIds({.labels = {{"run", "7"}}}), testing::ElementsAre(stored.id));
  EXPECT_THAT(store_->GetSummaries(stored.id)->ops, SizeIs(1));
}

}  // namespace
}  // namespace profd::store
