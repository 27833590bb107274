// ListRankSummaries: its answers, the captures that a caller may see, and refused requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/base/ulid.h"
#include "daemon/report/catalog_summaries.h"
#include "daemon/report/ranks/rank_summary.h"
#include "tests/fakes/status_matchers.h"
#include "tests/rpc/rpc_harness.h"

namespace profd::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Reports = v1::ReportService::Stub;

class RankSummariesTest : public RpcTest {
 protected:
  RankSummariesTest() {
    report::CollectiveTable table = {.communicators = {{.size = 2}}};
    table.rows = {{.duration_ns = 5, .step = 100}, {.duration_ns = 7, .step = 100}};
    table.steps = {{.step = 100, .duration_ns = 50, .exposed_ns = 12}};
    encoded_ = *report::EncodeRankSummary(table);
    rank_summary_ = encoded_;
  }
  CaptureRecord StoreOf(const std::string& group, const std::string& job, int64_t owner_uid = -1) {
    CaptureRecord record = StoreCapture(owner_uid < 0 ? uid_ : owner_uid, 100, {.steps = 1},
                                        /*gpu=*/false, group);
    record.target.metadata["job"] = job;
    EXPECT_THAT(store_->UpdateCapture(record), IsOk());
    return record;
  }
  Outcome Ask(Stubs& stubs, const v1::ListRankSummariesRequest& request) {
    response_.Clear();
    return Do(*stubs.reports, &Reports::ListRankSummaries, request, &response_);
  }
  std::vector<std::string> IdsOf(const v1::ListRankSummariesRequest& request) {
    EXPECT_THAT(Ask(*me_, request), Succeeds());
    std::vector<std::string> ids;
    ids.reserve(static_cast<size_t>(response_.summaries_size()));
    for (const v1::RankSummary& summary : response_.summaries()) {
      ids.push_back(summary.capture().name().substr(9));
    }
    return ids;
  }

  const std::string group_ = NewUlid(absl::FromUnixSeconds(1'790'000'000));
  std::string encoded_;
  v1::ListRankSummariesResponse response_;
};

TEST_F(RankSummariesTest, AGroupsCapturesComeNewestFirstAlsoWithoutTheirEvents) {
  StoreCapture(uid_);  // In no group.
  const CaptureRecord first = StoreOf(group_, "88123");
  rank_summary_.clear();  // As of a daemon before these summaries.
  const CaptureRecord second = StoreOf(group_, "88123");
  ASSERT_THAT(store_->DeleteCapture(first.id), IsOk());
  GroupRecord group = {.id = group_, .requested_by = "uid:" + std::to_string(uid_)};
  group.members = {{.capture_id = first.id, .clock_offset_ns = -70, .clock_bound_ns = 9},
                   {.capture_id = second.id}};
  ASSERT_THAT(store_->PutGroup(group), IsOk());

  EXPECT_THAT(IdsOf({}), ElementsAre(second.id, first.id));
  EXPECT_FALSE(response_.summaries(0).has_collectives());
  EXPECT_FALSE(response_.summaries(0).has_clock_bound_ns());
  const v1::RankSummary& summary = response_.summaries(1);
  EXPECT_TRUE(summary.capture().deleted());
  EXPECT_EQ(summary.capture().group(), "groups/" + group_);
  EXPECT_EQ(summary.clock_offset_ns(), -70);
  EXPECT_EQ(summary.clock_bound_ns(), 9);
  EXPECT_EQ(summary.left_out_step_count(), 0);
  ASSERT_TRUE(summary.has_collectives());
  EXPECT_EQ(summary.collectives().name(), "collectives");
  EXPECT_EQ(summary.collectives().tables(0).row_count(), 2);
}

TEST_F(RankSummariesTest, EveryFilterMustHold) {
  const CaptureRecord first = StoreOf(group_, "1");
  const std::string other = NewUlid(absl::FromUnixSeconds(1'790'000'001));
  const CaptureRecord second = StoreOf(other, "2");
  v1::ListRankSummariesRequest request;
  request.set_job("1");
  EXPECT_THAT(IdsOf(request), ElementsAre(first.id));
  request.set_group("groups/" + other);
  EXPECT_THAT(IdsOf(request), IsEmpty());
  request.clear_job();
  EXPECT_THAT(IdsOf(request), ElementsAre(second.id));
  request = {};
  request.mutable_until()->set_seconds(absl::ToUnixSeconds(first.create_time) - 10);
  EXPECT_THAT(IdsOf(request), IsEmpty());
  request = {};
  request.set_schedule("schedules/01J");
  EXPECT_THAT(IdsOf(request), IsEmpty());
}

TEST_F(RankSummariesTest, PagesJoinIntoOneList) {
  std::vector<std::string> stored;
  for (int i = 0; i < 5; ++i) {
    stored.insert(stored.begin(), StoreOf(group_, "1").id);
    StoreCapture(uid_);
  }
  v1::ListRankSummariesRequest request;
  request.set_page_size(2);
  std::vector<std::string> all;
  int pages = 0;
  do {
    const std::vector<std::string> page = IdsOf(request);
    EXPECT_LE(page.size(), 2U);
    all.insert(all.end(), page.begin(), page.end());
    request.set_page_token(response_.next_page_token());
    ++pages;
  } while (!request.page_token().empty() && pages < 10);
  EXPECT_EQ(all, stored);
  EXPECT_LE(pages, 4);

  // A token holds for its filter only.
  request.set_page_size(2);
  request.clear_page_token();
  IdsOf(request);
  request.set_page_token(response_.next_page_token());
  request.set_job("1");
  EXPECT_THAT(Ask(*me_, request), Fails(grpc::INVALID_ARGUMENT));
}

TEST_F(RankSummariesTest, ADamagedSummaryIsNotSent) {
  rank_summary_[rank_summary_.size() / 2] ^= 1;
  const CaptureRecord record = StoreOf(group_, "1");
  EXPECT_THAT(IdsOf({}), ElementsAre(record.id));
  EXPECT_FALSE(response_.summaries(0).has_collectives());
}

TEST_F(RankSummariesTest, RepeatedRequestsForADamagedSummaryLogOneLine) {
  rank_summary_[rank_summary_.size() / 2] ^= 1;
  StoreOf(group_, "1");
  StoreOf(group_, "1");
  testing::internal::CaptureStderr();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(IdsOf({}).size(), 2U);
  const std::string log = testing::internal::GetCapturedStderr();
  const std::string what = "DATA_LOSS: damaged";
  int lines = 0;
  for (size_t at = log.find(what); at != log.npos; at = log.find(what, at + 1)) ++lines;
  EXPECT_EQ(lines, 1) << log;
}

TEST_F(RankSummariesTest, WhatOthersOwnIsForRootOnly) {
  StoreOf(group_, "1", kAnotherUser);
  ASSERT_THAT(Ask(*me_, {}), Succeeds());
  EXPECT_EQ(response_.summaries_size(), uid_ == 0 ? 1 : 0);
}

TEST_F(RankSummariesTest, RequestsOutOfRangeAreRefused) {
  const auto refused = [this](const v1::ListRankSummariesRequest& request, const std::string& why) {
    const Outcome outcome = Ask(*me_, request);
    EXPECT_THAT(outcome, Fails(grpc::INVALID_ARGUMENT));
    EXPECT_THAT(outcome.status.error_message(), HasSubstr(why));
  };
  v1::ListRankSummariesRequest request;
  request.set_page_size(1001);
  refused(request, "page_size");
  request = {};
  request.set_job(std::string(257, 'j'));
  refused(request, "job");
  request = {};
  request.set_group("x");
  refused(request, "group");
  request = {};
  request.mutable_since()->set_seconds(20);
  request.mutable_until()->set_seconds(10);
  refused(request, "until");
  request = {};
  request.set_page_token("forged");
  refused(request, "token");
}

}  // namespace
}  // namespace profd::rpc
