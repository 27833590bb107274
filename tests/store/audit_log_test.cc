// The audit log as the store keeps it.
#include <filesystem>
#include <string>
#include <vector>

#include "tests/store/store_fixture.h"

namespace profd::store {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::SizeIs;

class StoredAuditTest : public StoreFixture {};

TEST_F(StoredAuditTest, TheAuditLogKeepsWhoDidWhatNewestFirst) {
  const AuditEntry create{.time = clock_.Now(),
                          .principal = "uid:1000",
                          .peer = "unix:4711",
                          .method = "CreateCapture",
                          .resource = "captures/1",
                          .outcome = "OK",
                          .duration = absl::Milliseconds(3),
                          .bytes = 7};
  AuditEntry refused = create;
  refused.time += absl::Seconds(1);
  refused.principal = "cn:alice";
  refused.outcome = "PERMISSION_DENIED";
  refused.reason = "NOT_ALLOWED";
  ASSERT_THAT(store_->AppendAudit(create), IsOk());
  ASSERT_THAT(store_->AppendAudit(refused), IsOk());
  Reopen();
  const auto all = store_->ListAudit({}, 10);
  ASSERT_THAT(all, IsOk());
  ASSERT_THAT(all->entries, SizeIs(2));
  EXPECT_EQ(all->next_before, 0);
  EXPECT_EQ(all->entries[0].principal, "cn:alice");
  EXPECT_EQ(all->entries[0].reason, "NOT_ALLOWED");
  EXPECT_EQ(all->entries[1].time, create.time);
  EXPECT_EQ(all->entries[1].peer, "unix:4711");
  EXPECT_EQ(all->entries[1].method, "CreateCapture");
  EXPECT_EQ(all->entries[1].resource, "captures/1");
  EXPECT_EQ(all->entries[1].duration, absl::Milliseconds(3));
  EXPECT_EQ(all->entries[1].bytes, 7);

  for (const AuditFilter& filter :
       {AuditFilter{.principal = "cn:alice"}, AuditFilter{.refused_only = true},
        AuditFilter{.since = refused.time}}) {
    const auto some = store_->ListAudit(filter, 10);
    ASSERT_THAT(some, IsOk());
    ASSERT_THAT(some->entries, SizeIs(1));
    EXPECT_EQ(some->entries[0].principal, "cn:alice");
  }
  EXPECT_THAT(store_->ListAudit({.method = "DeleteCapture"}, 10)->entries, SizeIs(0));
}

TEST_F(StoredAuditTest, TheAuditLogComesInPages) {
  for (int i = 0; i < 5; ++i) {
    ASSERT_THAT(store_->AppendAudit({.time = clock_.Now(), .method = StrCat(i)}), IsOk());
  }
  std::string seen;
  int64_t before = 0;
  do {
    const auto page = store_->ListAudit({}, 2, before);
    ASSERT_THAT(page, IsOk());
    for (const AuditEntry& entry : page->entries) seen += entry.method;
    before = page->next_before;
  } while (before != 0);
  EXPECT_EQ(seen, "43210");
}

// A filter that fits nothing makes the listing look at every row.
TEST_F(StoredAuditTest, AListingOfTheAuditLogHoldsUpNobodyAndEndsWithItsCaller) {
  for (int i = 0; i < 2000; ++i) {
    ASSERT_THAT(store_->AppendAudit({.time = clock_.Now(), .method = StrCat("m", i)}), IsOk());
  }
  int asked = 0;
  const auto page = store_->ListAudit({.method = "none"}, 10, 0, [&]() -> absl::Status {
    // In the middle of the listing.
    const AuditEntry entry{.time = clock_.Now(), .method = StrCat("meanwhile", asked)};
    EXPECT_THAT(store_->AppendAudit(entry), IsOk());
    return ++asked < 3 ? absl::OkStatus() : absl::CancelledError("the caller went away");
  });
  EXPECT_THAT(page, StatusIs(StatusCode::kCancelled, "the caller went away"));
  EXPECT_EQ(asked, 3);
  EXPECT_THAT(store_->ListAudit({.method = "meanwhile2"}, 10)->entries, SizeIs(1));
}

TEST_F(StoredAuditTest, SeveralCallsAreListedAtOnce) {
  for (const char* method : {"GetReport", "CreateCapture", "Create", "DeleteCapture"}) {
    ASSERT_THAT(store_->AppendAudit({.time = clock_.Now(), .method = method}), IsOk());
  }
  const auto page = store_->ListAudit({.method = "CreateCapture,GetReport"}, 10, 0);
  ASSERT_THAT(page, IsOk());
  std::vector<std::string> methods;
  for (const AuditEntry& entry : page->entries) methods.push_back(entry.method);
  EXPECT_THAT(methods, ElementsAre("CreateCapture", "GetReport"));
}

TEST_F(StoredAuditTest, WhoeverWatchesTheAuditLogHearsOfRowsAndRepetitions) {
  std::vector<std::string> heard;
  on_audit_ = [&heard](const AuditEntry& entry, bool written, bool repeated) {
    heard.push_back(StrCat(entry.method, written ? " written" : " lost", repeated ? " again" : ""));
  };
  Reopen();
  EXPECT_THAT(store_->CheckAudit(), IsOk());
  for (int i = 0; i < 2; ++i) {
    ASSERT_THAT(store_->AppendAudit({.time = clock_.Now(), .method = "GetOps"}), IsOk());
  }
  EXPECT_THAT(heard, ElementsAre("GetOps written", "GetOps written again"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "data" / "audit.reserve"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "data" / "catalog.reserve"));
}

}  // namespace
}  // namespace profd::store
