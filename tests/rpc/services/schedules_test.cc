// Schedules through the server: every field, pages, and what is refused. What they do is told by
// tests/schedule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/fakes/status_matchers.h"
#include "tests/rpc/rpc_harness.h"

namespace profd::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Schedules = v1::ScheduleService::Stub;

constexpr char kName[] = "schedules/01HZZZZZZZZZZZZZZZZZZZZZZA";

v1::CreateScheduleRequest HalfHourly() {
  v1::CreateScheduleRequest request;
  request.mutable_spec()->mutable_every()->set_seconds(1800);
  request.mutable_spec()->mutable_capture()->set_steps(3);
  return request;
}

class SchedulesTest : public RpcTest {
 protected:
  Outcome Create(const v1::CreateScheduleRequest& request, v1::Schedule* schedule) {
    return Do(*me_->schedules, &Schedules::CreateSchedule, request, schedule);
  }
  std::string CreateOrDie(const v1::CreateScheduleRequest& request = HalfHourly()) {
    v1::Schedule schedule;
    EXPECT_THAT(Create(request, &schedule), Succeeds());
    return schedule.name();
  }
  template <typename Request>
  Outcome Ask(grpc::Status (Schedules::*method)(grpc::ClientContext*, const Request&,
                                                v1::Schedule*),
              const std::string& name, v1::Schedule* schedule) {
    Request request;
    request.set_name(name);
    return Do(*me_->schedules, method, request, schedule);
  }
};

TEST_F(SchedulesTest, EveryFieldComesBackAsItWasSent) {
  v1::CreateScheduleRequest request = HalfHourly();
  request.set_name(kName);
  v1::ScheduleSpec& spec = *request.mutable_spec();
  spec.mutable_jitter()->set_seconds(5);
  spec.mutable_selector()->set_job("88123");
  spec.mutable_selector()->add_ranks(7);
  spec.mutable_selector()->set_command("train");
  (*spec.mutable_selector()->mutable_metadata())["phase"] = "fit";
  spec.mutable_selector()->set_pod_namespace("ml");
  spec.mutable_selector()->set_uid(0);
  spec.mutable_sample()->set_unit(v1::Sample::JOBS);
  spec.mutable_sample()->set_fraction(0.25);
  spec.mutable_budget()->set_captures_per_hour(4);
  spec.mutable_budget()->set_bytes_per_day(1 << 30);
  spec.mutable_budget()->set_time_share(0.001);
  spec.mutable_governor()->set_max_slowdown(0);
  spec.set_step_grid(32);
  spec.set_step_lead(0);
  spec.mutable_end_time()->set_seconds(4'000'000'000);
  spec.add_nodes("node1");
  spec.add_nodes("node2");
  spec.set_display_name("nightly");
  v1::Schedule created;
  ASSERT_THAT(Create(request, &created), Succeeds());
  v1::Schedule found;
  ASSERT_THAT(Ask(&Schedules::GetSchedule, created.name(), &found), Succeeds());
  EXPECT_EQ(found.name(), kName);
  EXPECT_EQ(found.node(), "node1");
  EXPECT_EQ(found.state(), v1::Schedule::ACTIVE);
  EXPECT_EQ(found.created_by(), "uid:" + std::to_string(uid_));
  EXPECT_TRUE(found.has_next_window_time());
  EXPECT_THAT(found.spec_hash(), SizeIs(16));
  v1::ScheduleSpec back = found.spec();
  EXPECT_EQ(back.capture().steps(), 3);
  EXPECT_EQ(back.capture().warmup_steps(), 1);  // Defaults are filled in.
  back.clear_capture();
  spec.clear_capture();
  EXPECT_EQ(back.SerializeAsString(), spec.SerializeAsString());
}

TEST_F(SchedulesTest, CreatingAgainIsTheSameAndAnotherSpecIsNot) {
  v1::CreateScheduleRequest request = HalfHourly();
  request.set_name(kName);
  EXPECT_EQ(CreateOrDie(request), kName);
  EXPECT_EQ(CreateOrDie(request), kName);
  request.mutable_spec()->mutable_every()->set_seconds(3600);
  v1::Schedule schedule;
  EXPECT_THAT(Create(request, &schedule), Fails(grpc::ALREADY_EXISTS, "SCHEDULE_EXISTS"));
}

TEST_F(SchedulesTest, WhatIsWrongIsNamedAndLeavesNothing) {
  const auto refused = [&](const char* says, const auto& spoil) {
    v1::CreateScheduleRequest request = HalfHourly();
    spoil(request);
    v1::Schedule schedule;
    const Outcome outcome = Create(request, &schedule);
    EXPECT_THAT(outcome, Fails(grpc::INVALID_ARGUMENT)) << says;
    EXPECT_THAT(outcome.status.error_message(), HasSubstr(says));
  };
  refused("every", [](auto& r) { r.mutable_spec()->clear_every(); });
  refused("every", [](auto& r) { r.mutable_spec()->mutable_every()->set_nanos(-5); });
  refused("cron", [](auto& r) {
    r.mutable_spec()->clear_every();
    r.mutable_spec()->set_cron("x");
  });
  refused("sample", [](auto& r) { r.mutable_spec()->mutable_sample(); });
  refused("sample.unit", [](auto& r) {
    r.mutable_spec()->mutable_sample()->set_unit(static_cast<v1::Sample::Unit>(9));
  });
  refused("step_grid", [](auto& r) { r.mutable_spec()->set_step_grid(48); });
  refused("step_lead", [](auto& r) { r.mutable_spec()->set_step_lead(-1); });
  refused("start_step", [](auto& r) { r.mutable_spec()->mutable_capture()->set_start_step(7); });
  refused("end_time", [](auto& r) { r.mutable_spec()->mutable_end_time()->set_nanos(-1); });
  refused("schedules/", [](auto& r) { r.set_name("captures/01HZZZZZZZZZZZZZZZZZZZZZZA"); });
  refused("ID", [](auto& r) { r.set_name("schedules/01HZ"); });
  v1::ListSchedulesResponse list;
  ASSERT_THAT(Do(*me_->schedules, &Schedules::ListSchedules, v1::ListSchedulesRequest(), &list),
              Succeeds());
  EXPECT_THAT(list.schedules(), IsEmpty());
}

TEST_F(SchedulesTest, ADeclarationIsAppliedByItsVersion) {
  v1::ApplyScheduleRequest request;
  v1::ScheduleDeclaration& declaration = *request.mutable_declaration();
  declaration.set_name(kName);
  declaration.set_version(3);
  *declaration.mutable_spec() = HalfHourly().spec();
  v1::ApplyScheduleResponse response;
  const auto apply = [&] {
    response.Clear();
    return Do(*me_->schedules, &Schedules::ApplySchedule, request, &response);
  };
  request.set_validate_only(true);
  ASSERT_THAT(apply(), Succeeds());
  EXPECT_EQ(response.change(), v1::ApplyScheduleResponse::CREATED);
  request.set_validate_only(false);
  ASSERT_THAT(apply(), Succeeds());
  EXPECT_EQ(response.change(), v1::ApplyScheduleResponse::CREATED);
  EXPECT_EQ(response.schedule().version(), 3);
  ASSERT_THAT(apply(), Succeeds());
  EXPECT_EQ(response.change(), v1::ApplyScheduleResponse::NONE);
  declaration.set_version(2);
  EXPECT_THAT(apply(), Fails(grpc::FAILED_PRECONDITION, "STALE_VERSION"));
  declaration.set_version(3);
  declaration.mutable_spec()->mutable_every()->set_seconds(3600);
  EXPECT_THAT(apply(), Fails(grpc::ALREADY_EXISTS, "VERSION_CONFLICT"));
  declaration.set_deleted(true);
  EXPECT_THAT(apply(), Fails(grpc::INVALID_ARGUMENT));  // Deleted, and with a spec.
  declaration.clear_spec();
  declaration.set_version(4);
  ASSERT_THAT(apply(), Succeeds());
  EXPECT_EQ(response.change(), v1::ApplyScheduleResponse::DELETED);
  EXPECT_EQ(response.schedule().state(), v1::Schedule::DELETED);
}

TEST_F(SchedulesTest, OneIsPausedResumedAndDeleted) {
  const std::string name = CreateOrDie();
  v1::Schedule schedule;
  ASSERT_THAT(Ask(&Schedules::PauseSchedule, name, &schedule), Succeeds());
  EXPECT_EQ(schedule.state(), v1::Schedule::PAUSED);
  ASSERT_THAT(Ask(&Schedules::ResumeSchedule, name, &schedule), Succeeds());
  EXPECT_EQ(schedule.state(), v1::Schedule::ACTIVE);
  ASSERT_THAT(Ask(&Schedules::DeleteSchedule, name, &schedule), Succeeds());
  EXPECT_EQ(schedule.state(), v1::Schedule::DELETED);
  EXPECT_THAT(Ask(&Schedules::PauseSchedule, name, &schedule),
              Fails(grpc::FAILED_PRECONDITION, "SCHEDULE_DELETED"));
  EXPECT_THAT(Ask(&Schedules::DeleteSchedule, "schedules/01ZZZZ", &schedule),
              Fails(grpc::NOT_FOUND));
  EXPECT_THAT(Ask(&Schedules::GetSchedule, "schedules/../x", &schedule),
              Fails(grpc::INVALID_ARGUMENT));
}

TEST_F(SchedulesTest, ListingsArePaged) {
  std::set<std::string> made;
  for (int i = 0; i < 5; ++i) made.insert(CreateOrDie());
  std::set<std::string> seen;
  v1::ListSchedulesRequest request;
  request.set_page_size(2);
  do {
    v1::ListSchedulesResponse page;
    ASSERT_THAT(Do(*me_->schedules, &Schedules::ListSchedules, request, &page), Succeeds());
    EXPECT_LE(page.schedules_size(), 2);
    for (const v1::Schedule& schedule : page.schedules()) seen.insert(schedule.name());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(seen, made);
}

TEST_F(SchedulesTest, HistoryIsPagedAndForgedTokensAreRefused) {
  const std::string name = CreateOrDie();
  const std::string id = name.substr(name.find('/') + 1);
  ScheduleRecord record = store_->ListSchedules()->front();
  std::vector<ScheduleWindow> windows;
  for (int i = 0; i < 5; ++i) {
    windows.push_back({.schedule_id = id,
                       .time = absl::FromUnixSeconds(1'800'000'000 + 60 * i),
                       .outcome = WindowOutcome::kMissed,
                       .pid = 10,
                       .process_start_ticks = 7});
  }
  ASSERT_THAT(store_->AppendWindows(record, windows, windows.back().time), IsOk());
  v1::ListScheduleWindowsRequest request;
  request.set_name(name);
  request.set_page_size(2);
  std::vector<int64_t> times;
  do {
    v1::ListScheduleWindowsResponse page;
    ASSERT_THAT(Do(*me_->schedules, &Schedules::ListScheduleWindows, request, &page), Succeeds());
    for (const v1::ScheduleWindow& window : page.windows()) {
      EXPECT_EQ(window.outcome(), "missed");
      EXPECT_EQ(window.process_start_ticks(), 7);
      times.push_back(window.time().seconds() - 1'800'000'000);
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(times, ElementsAre(240, 180, 120, 60, 0));
  for (const char* token : {"x", "1.2", "9223372036854775807.5"}) {
    request.set_page_token(token);
    v1::ListScheduleWindowsResponse page;
    EXPECT_THAT(Do(*me_->schedules, &Schedules::ListScheduleWindows, request, &page),
                Fails(grpc::INVALID_ARGUMENT));
  }
}

}  // namespace
}  // namespace profd::rpc
