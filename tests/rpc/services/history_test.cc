// GetHistory: what it tells of captures, whose, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/base/str_cat.h"
#include "daemon/base/ulid.h"
#include "tests/fakes/report_messages.h"
#include "tests/fakes/status_matchers.h"
#include "tests/rpc/rpc_harness.h"

namespace profd::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Reports = v1::ReportService::Stub;

class HistoryTest : public RpcTest {
 protected:
  // A capture whose target is of `job` and whose schedule is `schedule`.
  CaptureRecord StoreOf(const std::string& job, const std::string& schedule = "",
                        int64_t owner_uid = -1) {
    CaptureRecord record = StoreCapture(owner_uid < 0 ? uid_ : owner_uid);
    record.target.metadata["job"] = job;
    record.schedule_id = schedule;
    record.sampling_weight = schedule.empty() ? 1 : 20;
    EXPECT_THAT(store_->UpdateCapture(record), IsOk());
    return record;
  }
  Outcome Ask(Stubs& stubs, const v1::GetHistoryRequest& request) {
    response_.Clear();
    return Do(*stubs.reports, &Reports::GetHistory, request, &response_);
  }
  static v1::GetHistoryRequest Steps() {
    v1::GetHistoryRequest request;
    request.set_step_time(true);
    return request;
  }
  static v1::GetHistoryRequest Operator(const std::string& name) {
    v1::GetHistoryRequest request;
    request.set_operator_name(name);
    return request;
  }

  std::vector<std::string> Texts(std::string_view column) const {
    return TextsOf(TableOf(response_, "points"), column);
  }
  std::vector<int64_t> Ints(std::string_view column) const {
    return IntsOf(TableOf(response_, "points"), column);
  }
  std::vector<int64_t> Total(std::string_view column) const {
    return IntsOf(response_.totals(), column);
  }

  v1::Report response_;
};

TEST_F(HistoryTest, StepTimesComeOldestFirstAlsoOfDeletedCaptures) {
  const CaptureRecord first = StoreOf("88123");
  const std::string schedule = NewUlid(clock_.Now());
  const CaptureRecord second = StoreOf("88123", schedule);
  StoreFailedCapture(uid_);
  ASSERT_THAT(store_->DeleteCapture(first.id), IsOk());

  ASSERT_THAT(Ask(*me_, Steps()), Succeeds());
  EXPECT_THAT(Texts("capture"), ElementsAre(first.id, second.id));
  EXPECT_THAT(Texts("schedule"), ElementsAre("", schedule));
  EXPECT_THAT(CellsOf(TableOf(response_, "points"), "sampling_weight").reals(), ElementsAre(1, 20));
  EXPECT_EQ(Texts("node")[1], "node1");
  EXPECT_EQ(Texts("job")[1], "88123");
  EXPECT_EQ(Ints("rank")[1], 3);
  EXPECT_EQ(Texts("quality")[1], "A");
  EXPECT_EQ(Ints("steps")[1], 1);
  EXPECT_EQ(Ints("median_ns")[1], second.windows[0].end_ns);
  EXPECT_EQ(Ints("time_unix_ns")[1], second.start_unix_ns + second.windows[0].start_ns);
  EXPECT_THAT(Total("left_out"), ElementsAre(0));
}

TEST_F(HistoryTest, AStepHasItsWaitsForACpuWhereTheyWereMeasured) {
  constexpr int64_t kWatchedNs = 200'000'000;
  StoreOf("1");
  CaptureRecord waited = StoreOf("1");
  waited.cpu = {
      .watched_ns = kWatchedNs,
      .thread_count = 1,
      .ran_ns = kWatchedNs / 2,
      .waited_ns = kWatchedNs / 4,
      .threads = {{.os_thread = 1, .ran_ns = kWatchedNs / 2, .waited_ns = kWatchedNs / 4}}};
  waited.gpu.outcome = GpuOutcome::kNoCuda;
  ASSERT_THAT(store_->UpdateCapture(waited), IsOk());
  // A GPU may work meanwhile.
  CaptureRecord hidden = StoreOf("1");
  hidden.cpu = waited.cpu;
  hidden.gpu.outcome = GpuOutcome::kRecorded;
  ASSERT_THAT(store_->UpdateCapture(hidden), IsOk());
  CaptureRecord missed = StoreOf("1");
  missed.gpu.outcome = GpuOutcome::kNoCuda;
  missed.cpu = waited.cpu;
  missed.cpu.unwatched_ran_ns = kWatchedNs;
  ASSERT_THAT(store_->UpdateCapture(missed), IsOk());
  ASSERT_THAT(Ask(*me_, Steps()), Succeeds());
  EXPECT_THAT(Ints("cpu_wait_ns"), ElementsAre(-1, Ints("median_ns")[1] / 4, -1, -1));
}

TEST_F(HistoryTest, EveryFilterMustHold) {
  const std::string schedule = NewUlid(clock_.Now());
  const CaptureRecord plain = StoreOf("1");
  const CaptureRecord sampled = StoreOf("2", schedule);
  const auto asked = [this](const v1::GetHistoryRequest& request) {
    EXPECT_THAT(Ask(*me_, request), Succeeds());
    return Texts("capture");
  };
  v1::GetHistoryRequest request = Steps();
  request.set_job("2");
  EXPECT_THAT(asked(request), ElementsAre(sampled.id));
  request.set_schedule("schedules/" + schedule.substr(0, 20));
  EXPECT_THAT(asked(request), ElementsAre(sampled.id));
  request.set_job("1");
  EXPECT_THAT(asked(request), ElementsAre());
  request = Steps();
  request.set_pid(plain.target.pid + 1);
  EXPECT_THAT(asked(request), ElementsAre());
  request = Steps();
  request.mutable_until()->set_seconds(absl::ToUnixSeconds(plain.create_time) - 10);
  EXPECT_THAT(asked(request), ElementsAre());
  request = Steps();
  request.mutable_since()->set_seconds(absl::ToUnixSeconds(plain.create_time) - 10);
  EXPECT_THAT(asked(request), ElementsAre(plain.id, sampled.id));
}

TEST_F(HistoryTest, TheNewestAreKeptAndTheRestIsCounted) {
  StoreOf("1");
  StoreOf("1");
  const CaptureRecord newest = StoreOf("1");
  v1::GetHistoryRequest request = Steps();
  request.set_limit(1);
  ASSERT_THAT(Ask(*me_, request), Succeeds());
  EXPECT_THAT(Texts("capture"), ElementsAre(newest.id));
  EXPECT_THAT(Total("left_out"), ElementsAre(2));
}

TEST_F(HistoryTest, AnOperatorHasItsSumsAndIsMissedWhereItIsNot) {
  // The harness's store summarizes nothing: `op` is in no summary.
  StoreOf("1");
  ASSERT_THAT(Ask(*me_, Operator("op")), Succeeds());
  EXPECT_THAT(Texts("capture"), IsEmpty());
  EXPECT_THAT(Total("without_operator"), ElementsAre(0)) << "no operators are kept at all";

  op_summaries_ = {{"op", 4, 300, 400, 50, 200, 900}, {"other", 1, 1, 1, 1, 1}};
  const CaptureRecord with = StoreOf("1");
  ASSERT_THAT(Ask(*me_, Operator("op")), Succeeds());
  EXPECT_THAT(Texts("capture"), ElementsAre(with.id));
  EXPECT_THAT(Ints("calls"), ElementsAre(4));
  EXPECT_THAT(Ints("self_cpu_ns"), ElementsAre(300));
  EXPECT_THAT(Ints("cpu_total_ns"), ElementsAre(400));
  EXPECT_THAT(Ints("self_device_ns"), ElementsAre(900));
  EXPECT_THAT(Ints("mean_ns"), ElementsAre(100));
  EXPECT_THAT(Ints("min_ns"), ElementsAre(50));
  EXPECT_THAT(Ints("max_ns"), ElementsAre(200));
  EXPECT_THAT(Ints("steps"), ElementsAre(1));
  ASSERT_THAT(Ask(*me_, Operator("nowhere")), Succeeds());
  EXPECT_THAT(Texts("capture"), IsEmpty());
  EXPECT_THAT(Total("without_operator"), ElementsAre(1));
}

TEST_F(HistoryTest, WhatOthersOwnIsInNoHistoryButRoots) {
  StoreOf("1", "", kAnotherUser);
  ASSERT_THAT(Ask(*me_, Steps()), Succeeds());
  EXPECT_EQ(Texts("capture").size(), uid_ == 0 ? 1U : 0U);
}

TEST_F(HistoryTest, RequestsOutOfRangeAreRefusedByField) {
  const auto refused = [this](const v1::GetHistoryRequest& request, std::string_view field) {
    const Outcome outcome = Ask(*me_, request);
    EXPECT_THAT(outcome, Fails(grpc::INVALID_ARGUMENT));
    EXPECT_THAT(outcome.status.error_message(), HasSubstr(std::string(field)));
  };
  refused({}, "step_time");
  v1::GetHistoryRequest request = Steps();
  request.set_operator_name("op");
  refused(request, "step_time");
  refused(Operator(std::string(5000, 'x')), "operator_name");
  request = Steps();
  request.set_job(std::string(300, 'x'));
  refused(request, "job");
  request = Steps();
  request.set_pid(-1);
  refused(request, "pid");
  for (const int64_t limit : {int64_t{-1}, int64_t{10'001}}) {
    request = Steps();
    request.set_limit(limit);
    refused(request, "limit");
  }
  request = Steps();
  request.set_schedule("../x");
  refused(request, "schedule");
  request = Steps();
  request.mutable_since()->set_nanos(-5);
  refused(request, "since");
  request = Steps();
  request.mutable_since()->set_seconds(100);
  request.mutable_until()->set_seconds(99);
  refused(request, "until");
}

}  // namespace
}  // namespace profd::rpc
