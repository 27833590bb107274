// Every RPC with one answer: what it gives, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <fstream>
#include <set>

#include "daemon/rpc/admission/admission.h"
#include "daemon/rpc/services/capture_report.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/fakes/report_messages.h"
#include "tests/fakes/status_matchers.h"
#include "tests/rpc/rpc_harness.h"

namespace profd::rpc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Captures = v1::CaptureService::Stub;
using Targets = v1::TargetService::Stub;
using Reports = v1::ReportService::Stub;

constexpr int64_t kSomeoneElse = 54321;

class ServerTest : public RpcTest {
 protected:
  Outcome Create(const std::string& target, v1::Capture* capture, int64_t steps = 1,
                 const std::string& request_id = "") {
    v1::CreateCaptureRequest request;
    request.set_target(target);
    request.mutable_spec()->set_steps(steps);
    request.mutable_spec()->set_warmup_steps(0);
    request.set_request_id(request_id);
    return Do(*me_->captures, &Captures::CreateCapture, request, capture);
  }
  Outcome Get(Stubs& stubs, const std::string& name, v1::Capture* capture) {
    v1::GetCaptureRequest request;
    request.set_name(name);
    return Do(*stubs.captures, &Captures::GetCapture, request, capture);
  }
  std::vector<std::string> List(Stubs& stubs, v1::ListCapturesRequest request,
                                int* pages = nullptr) {
    std::vector<std::string> names;
    int page_count = 0;
    while (true) {
      v1::ListCapturesResponse response;
      const Outcome outcome = Do(*stubs.captures, &Captures::ListCaptures, request, &response);
      EXPECT_THAT(outcome, Succeeds());
      ++page_count;
      for (const v1::Capture& capture : response.captures()) names.push_back(capture.name());
      if (!outcome.status.ok() || response.next_page_token().empty()) break;
      request.set_page_token(response.next_page_token());
    }
    if (pages != nullptr) *pages = page_count;
    return names;
  }
  static std::string NameOf(const CaptureRecord& record) { return "captures/" + record.id; }
  v1::Report ReportOf(const std::string& capture, const std::string& report) {
    v1::GetReportRequest request;
    request.set_capture(capture);
    request.set_report(report);
    v1::Report response;
    EXPECT_THAT(Do(*me_->reports, &Reports::GetReport, request, &response), Succeeds());
    return response;
  }

  // A caller that is nobody; null where this process cannot make one.
  std::unique_ptr<Stubs> Nobody() {
    if (uid_ != 0) return nullptr;
    nobody_ = std::make_unique<ForeignPeer>(
        socket_path(), [] { return setgid(kNobody) == 0 && setuid(kNobody) == 0; });
    if (!nobody_->connected()) return nullptr;
    return std::make_unique<Stubs>(ChannelOver(nobody_->TakeConnection()));
  }

  std::unique_ptr<ForeignPeer> nobody_;
};

// ---- targets ----

TEST_F(ServerTest, TargetsAreListedByPidInPages) {
  for (const int64_t pid : {30, 10, 20}) targets_.Add(MyTarget(pid));
  v1::ListTargetsRequest request;
  request.set_page_size(2);
  v1::ListTargetsResponse first;
  ASSERT_THAT(Do(*me_->targets, &Targets::ListTargets, request, &first), Succeeds());
  ASSERT_EQ(first.targets_size(), 2);
  EXPECT_EQ(first.targets(0).pid(), 10);
  EXPECT_EQ(first.targets(0).process_start_ticks(), 7);
  EXPECT_EQ(first.targets(0).command(), "python train.py");
  EXPECT_EQ(first.targets(0).metadata().at("rank"), "3");
  EXPECT_EQ(first.targets(0).state(), v1::Target::RUNNING);
  EXPECT_EQ(first.targets(1).pid(), 20);
  ASSERT_NE(first.next_page_token(), "");

  // A target that comes between two pages does not make one come twice.
  targets_.Add(MyTarget(5));
  request.set_page_token(first.next_page_token());
  v1::ListTargetsResponse second;
  ASSERT_THAT(Do(*me_->targets, &Targets::ListTargets, request, &second), Succeeds());
  ASSERT_EQ(second.targets_size(), 1);
  EXPECT_EQ(second.targets(0).pid(), 30);
  EXPECT_EQ(second.next_page_token(), "");
}

TEST_F(ServerTest, PageSizesAndTokensOutOfRangeAreRefused) {
  v1::ListTargetsResponse response;
  for (const int size : {-1, 1001}) {
    v1::ListTargetsRequest request;
    request.set_page_size(size);
    EXPECT_THAT(Do(*me_->targets, &Targets::ListTargets, request, &response),
                Fails(grpc::INVALID_ARGUMENT));
  }
  v1::ListTargetsRequest request;
  request.set_page_token("forged");
  EXPECT_THAT(Do(*me_->targets, &Targets::ListTargets, request, &response),
              Fails(grpc::INVALID_ARGUMENT));
}

TEST_F(ServerTest, PidsAreResolvedWithTheirReasons) {
  targets_.Add(MyTarget(getpid()));
  const auto resolve = [this](int64_t pid, v1::ResolveTargetsResponse* response) {
    v1::ResolveTargetsRequest request;
    if (pid != 0) request.add_pids(pid);
    return Do(*me_->targets, &Targets::ResolveTargets, request, response);
  };
  v1::ResolveTargetsResponse response;
  ASSERT_THAT(resolve(getpid(), &response), Succeeds());
  ASSERT_EQ(response.targets_size(), 1);
  EXPECT_EQ(response.targets(0).pid(), getpid());
  ASSERT_THAT(resolve(0, &response), Succeeds());
  ASSERT_THAT(resolve(getppid(), &response), Succeeds()) << "our parent stands for us";
  EXPECT_THAT(resolve(int64_t{1} << 30, &response), Fails(grpc::NOT_FOUND, "NO_SUCH_PROCESS"));
  targets_.Add(MyTarget(getpid() + 1));
  EXPECT_THAT(resolve(0, &response), Fails(grpc::FAILED_PRECONDITION, "SEVERAL_TARGETS"));
}

// ---- creating, cancelling, deleting ----

TEST_F(ServerTest, ACaptureRunsFromCreateToItsStepsAndIsDeleted) {
  const TargetNumber target = targets_.Add(MyTarget(10));
  v1::Capture created;
  ASSERT_THAT(Create("targets/" + std::to_string(target), &created), Succeeds());
  EXPECT_THAT(created.name(), HasSubstr("captures/"));
  EXPECT_LT(created.state(), v1::Capture::COMPLETE);
  EXPECT_EQ(created.spec().steps(), 1);
  EXPECT_EQ(created.spec().memory_bytes(), 64 << 20) << "defaults are filled in";
  EXPECT_EQ(created.requested_by_uid(), uid_);
  EXPECT_EQ(created.node(), "node1");
  ASSERT_TRUE(targets_.WaitForArms(1));

  v1::DeleteCaptureRequest remove;
  remove.set_name(created.name());
  v1::Capture ignored;
  EXPECT_THAT(Do(*me_->captures, &Captures::DeleteCapture, remove, &ignored),
              Fails(grpc::FAILED_PRECONDITION, "CAPTURE_LIVE"));

  RunToTheEnd(targets_.LastArm().request.capture_id);
  manager_->DrainForTesting();
  v1::Capture done;
  ASSERT_THAT(Get(*me_, created.name(), &done), Succeeds());
  EXPECT_EQ(done.state(), v1::Capture::COMPLETE);
  EXPECT_EQ(done.ended_by(), "steps");
  EXPECT_TRUE(done.has_end_time());
  ASSERT_EQ(done.steps_size(), 1);
  EXPECT_EQ(done.steps(0).index(), 102);
  EXPECT_EQ(done.steps(0).duration_ns(), 10'000'000);
  EXPECT_THAT(done.file_sha256(), SizeIs(64));

  v1::Capture removed;
  ASSERT_THAT(Do(*me_->captures, &Captures::DeleteCapture, remove, &removed), Succeeds());
  EXPECT_TRUE(removed.deleted());
  EXPECT_THAT(Do(*me_->captures, &Captures::DeleteCapture, remove, &removed),
              Fails(grpc::NOT_FOUND));
}

TEST_F(ServerTest, CreateSaysWhyNot) {
  v1::Capture capture;
  EXPECT_THAT(Create("targets/99", &capture), Fails(grpc::NOT_FOUND, "NO_SUCH_TARGET"));
  EXPECT_THAT(Create("99", &capture), Fails(grpc::INVALID_ARGUMENT));

  TargetInfo stepless = MyTarget(10);
  stepless.step_mark_count = 0;
  stepless.current_step = -1;
  const std::string no_steps = "targets/" + std::to_string(targets_.Add(stepless));
  EXPECT_THAT(Create(no_steps, &capture), Fails(grpc::FAILED_PRECONDITION, "NO_STEPS"));

  const std::string target = "targets/" + std::to_string(targets_.Add(MyTarget(11)));
  EXPECT_THAT(Create(target, &capture, 0), Fails(grpc::INVALID_ARGUMENT));
  EXPECT_THAT(Create(target, &capture, -5), Fails(grpc::INVALID_ARGUMENT));
  EXPECT_THAT(Create(target, &capture, int64_t{1} << 40), Fails(grpc::INVALID_ARGUMENT));
  EXPECT_THAT(Create(target, &capture, 1, "bad\nid"), Fails(grpc::INVALID_ARGUMENT));
  v1::CreateCaptureRequest past;
  past.set_target(target);
  past.mutable_spec()->set_steps(1);
  past.mutable_spec()->set_start_step(3);
  EXPECT_THAT(Do(*me_->captures, &Captures::CreateCapture, past, &capture),
              Fails(grpc::FAILED_PRECONDITION, "STEP_PASSED"));

  ASSERT_THAT(Create(target, &capture), Succeeds());
  v1::Capture second;
  const Outcome busy = Create(target, &second);
  EXPECT_THAT(busy, Fails(grpc::FAILED_PRECONDITION, "TARGET_BUSY"));
  EXPECT_THAT(busy.status.error_message(), HasSubstr(capture.name().substr(9)));
}

TEST_F(ServerTest, ARepeatedRequestGivesTheFirstCapture) {
  const std::string target = "targets/" + std::to_string(targets_.Add(MyTarget(10)));
  v1::Capture first;
  v1::Capture second;
  ASSERT_THAT(Create(target, &first, 1, "req-1"), Succeeds());
  ASSERT_THAT(Create(target, &second, 1, "req-1"), Succeeds());
  EXPECT_EQ(first.name(), second.name());
  EXPECT_THAT(Create(target, &second, 2, "req-1"),
              Fails(grpc::ALREADY_EXISTS, "REQUEST_ID_REUSED"));
}

TEST_F(ServerTest, CancelEndsALiveCapture) {
  const std::string target = "targets/" + std::to_string(targets_.Add(MyTarget(10)));
  v1::Capture created;
  ASSERT_THAT(Create(target, &created), Succeeds());
  v1::CancelCaptureRequest request;
  request.set_name(created.name());
  v1::Capture cancelled;
  ASSERT_THAT(Do(*me_->captures, &Captures::CancelCapture, request, &cancelled), Succeeds());
  ASSERT_TRUE(targets_.WaitForStops(1));
  targets_.Drained(targets_.stops()[0], DrainResult());
  manager_->DrainForTesting();
  ASSERT_THAT(Do(*me_->captures, &Captures::CancelCapture, request, &cancelled), Succeeds());
  EXPECT_EQ(cancelled.state(), v1::Capture::CANCELLED);
  request.set_name("captures/00000000000000000000000000");
  EXPECT_THAT(Do(*me_->captures, &Captures::CancelCapture, request, &cancelled),
              Fails(grpc::NOT_FOUND));
}

TEST_F(ServerTest, AGroupIsOneResultWithARowPerTarget) {
  v1::CreateCaptureGroupRequest request;
  for (const int64_t pid : {10, 11}) {
    request.add_targets("targets/" + std::to_string(targets_.Add(MyTarget(pid))));
  }
  request.mutable_spec()->set_steps(2);
  v1::CaptureGroup group;
  ASSERT_THAT(Do(*me_->captures, &Captures::CreateCaptureGroup, request, &group), Succeeds());
  EXPECT_THAT(group.name(), HasSubstr("groups/"));
  ASSERT_EQ(group.captures_size(), 2);
  EXPECT_EQ(group.captures(0).group(), group.name());

  v1::GetCaptureGroupRequest get;
  get.set_name(group.name());
  v1::CaptureGroup again;
  ASSERT_THAT(Do(*me_->captures, &Captures::GetCaptureGroup, get, &again), Succeeds());
  ASSERT_EQ(again.captures_size(), 2);
  EXPECT_EQ(again.captures(0).state(), v1::Capture::ARMING)
      << "the manager's word, not the store's";
  get.set_name("groups/00000000000000000000000000");
  EXPECT_THAT(Do(*me_->captures, &Captures::GetCaptureGroup, get, &again), Fails(grpc::NOT_FOUND));
}

TEST_F(ServerTest, GroupsThatMakeNoSenseAreRefused) {
  const std::string target = "targets/" + std::to_string(targets_.Add(MyTarget(10)));
  v1::CaptureGroup group;
  v1::CreateCaptureGroupRequest request;
  request.mutable_spec()->set_steps(2);
  EXPECT_THAT(Do(*me_->captures, &Captures::CreateCaptureGroup, request, &group),
              Fails(grpc::INVALID_ARGUMENT));
  request.add_targets(target);
  request.add_targets(target);
  EXPECT_THAT(Do(*me_->captures, &Captures::CreateCaptureGroup, request, &group),
              Fails(grpc::INVALID_ARGUMENT));
  request.clear_targets();
  for (int i = 1; i <= 257; ++i) request.add_targets("targets/" + std::to_string(i));
  EXPECT_THAT(Do(*me_->captures, &Captures::CreateCaptureGroup, request, &group),
              Fails(grpc::INVALID_ARGUMENT));
}

// ---- listing ----

TEST_F(ServerTest, CapturesAreListedNewestFirstInPages) {
  std::vector<std::string> expected;
  for (int i = 0; i < 5; ++i) expected.insert(expected.begin(), NameOf(StoreCapture(uid_, 1)));
  std::sort(expected.rbegin(), expected.rend());  // Those of one millisecond come by id.
  v1::ListCapturesRequest request;
  request.set_page_size(2);
  int pages = 0;
  EXPECT_EQ(List(*me_, request, &pages), expected);
  EXPECT_EQ(pages, 3);
}

TEST_F(ServerTest, CapturesAreFilteredByAllThatIsSet) {
  const std::string labelled =
      NameOf(StoreCapture(uid_, 1, {.steps = 1, .display_name = "base", .labels = {{"run", "a"}}}));
  const std::string other = NameOf(
      StoreCapture(uid_, 1, {.steps = 1, .display_name = "baseline", .labels = {{"run", "b"}}}));
  const std::string failed = NameOf(StoreFailedCapture(uid_));
  const auto list = [this](auto change) {
    v1::ListCapturesRequest request;
    change(*request.mutable_filter());
    return List(*me_, request);
  };
  using Filter = v1::ListCapturesRequest::Filter;
  EXPECT_THAT(list([](Filter& f) { (*f.mutable_labels())["run"] = "a"; }), ElementsAre(labelled));
  EXPECT_THAT(list([](Filter& f) { f.set_display_name("base"); }), ElementsAre(labelled));
  EXPECT_THAT(list([](Filter& f) { f.add_states(v1::Capture::FAILED); }), ElementsAre(failed));
  EXPECT_THAT(list([](Filter& f) { f.set_pid(4000); }), SizeIs(3));
  EXPECT_THAT(list([](Filter& f) { f.set_pid(1); }), IsEmpty());
  EXPECT_THAT(list([](Filter& f) { f.mutable_since()->set_seconds(int64_t{1} << 33); }), IsEmpty());
  EXPECT_THAT(list([](Filter& f) {
                (*f.mutable_labels())["run"] = "b";
                f.set_display_name("base");
              }),
              IsEmpty());
}

TEST_F(ServerTest, CapturesAreFilteredByWhoAskedAndForWhichJob) {
  CaptureRecord sampled = StoreCapture(uid_, 1);
  StoreCapture(uid_, 1);
  sampled.schedule_id = "01HZZZZZZZZZZZZZZZZZZZZZZA";
  sampled.requested_by = "cn:alice";
  sampled.target.metadata["job"] = "88123";
  ASSERT_THAT(store_->UpdateCapture(sampled), IsOk());
  const auto list = [this](auto change) {
    v1::ListCapturesRequest request;
    change(*request.mutable_filter());
    return List(*me_, request);
  };
  using Filter = v1::ListCapturesRequest::Filter;
  const auto only = ElementsAre(NameOf(sampled));
  EXPECT_THAT(list([](Filter& f) { f.set_schedule("schedules/01hzz"); }), only);
  EXPECT_THAT(list([](Filter& f) { f.set_schedule("schedules/01HZY"); }), IsEmpty());
  EXPECT_THAT(list([](Filter& f) { f.set_requested_by("cn:alice"); }), only);
  EXPECT_THAT(list([](Filter& f) { f.set_requested_by("cn:al"); }), IsEmpty());
  EXPECT_THAT(list([](Filter& f) { f.set_job("88123"); }), only);
  EXPECT_THAT(list([](Filter& f) { f.set_job("8812"); }), IsEmpty());
}

TEST_F(ServerTest, DeletedCapturesAreListedWhenAskedFor) {
  const CaptureRecord record = StoreCapture(uid_, 1);
  ASSERT_THAT(store_->DeleteCapture(record.id), IsOk());
  v1::ListCapturesRequest request;
  EXPECT_THAT(List(*me_, request), IsEmpty());
  request.mutable_filter()->set_include_deleted(true);
  EXPECT_THAT(List(*me_, request), ElementsAre(NameOf(record)));
}

TEST_F(ServerTest, ALiveCaptureIsListedAsItIsNow) {
  const std::string target = "targets/" + std::to_string(targets_.Add(MyTarget(10)));
  v1::Capture created;
  ASSERT_THAT(Create(target, &created), Succeeds());
  const std::string id = targets_.LastArm().request.capture_id;
  targets_.Armed(id);
  targets_.Reached(id, Progress{.phase = RecordingPhase::kWaiting});
  manager_->DrainForTesting();
  v1::ListCapturesRequest request;
  request.mutable_filter()->add_states(v1::Capture::WAITING_STEP);
  EXPECT_THAT(List(*me_, request), ElementsAre(created.name()));
  request.mutable_filter()->set_states(0, v1::Capture::PENDING);
  EXPECT_THAT(List(*me_, request), IsEmpty()) << "the store still has it as PENDING";
}

TEST_F(ServerTest, FiltersAndTokensOutOfRangeAreRefused) {
  StoreCapture(uid_, 1);
  StoreCapture(uid_, 1);
  v1::ListCapturesRequest request;
  request.set_page_size(1);
  v1::ListCapturesResponse response;
  ASSERT_THAT(Do(*me_->captures, &Captures::ListCaptures, request, &response), Succeeds());
  const auto refused = [this, &response](auto change) {
    v1::ListCapturesRequest bad;
    bad.set_page_size(1);
    change(bad);
    EXPECT_THAT(Do(*me_->captures, &Captures::ListCaptures, bad, &response),
                Fails(grpc::INVALID_ARGUMENT));
  };
  const std::string token = response.next_page_token();
  refused([&](v1::ListCapturesRequest& r) {
    r.set_page_token(token);
    r.mutable_filter()->set_include_deleted(true);
  });
  refused([](v1::ListCapturesRequest& r) { r.set_page_size(1001); });
  refused([](v1::ListCapturesRequest& r) { r.mutable_filter()->set_pid(-1); });
  refused([](v1::ListCapturesRequest& r) { r.mutable_filter()->set_group("x"); });
  refused([](v1::ListCapturesRequest& r) { r.mutable_filter()->set_schedule("x"); });
  refused([](v1::ListCapturesRequest& r) { r.mutable_filter()->set_job(std::string(257, 'j')); });
  refused([](v1::ListCapturesRequest& r) { (*r.mutable_filter()->mutable_labels())["X"] = ""; });
  refused([](v1::ListCapturesRequest& r) {
    r.mutable_filter()->add_states(static_cast<v1::Capture::State>(99));
  });
  refused([](v1::ListCapturesRequest& r) { r.mutable_filter()->mutable_since()->set_nanos(-1); });
}

TEST_F(ServerTest, TheStartOfAnIdIsEnoughWhereItIsUnique) {
  const CaptureRecord record = StoreCapture(uid_, 1);
  v1::Capture capture;
  ASSERT_THAT(Get(*me_, "captures/" + record.id.substr(0, 24), &capture), Succeeds());
  EXPECT_EQ(capture.name(), NameOf(record));
  StoreCapture(uid_, 1);
  EXPECT_THAT(Get(*me_, "captures/0", &capture), Fails(grpc::INVALID_ARGUMENT));
  EXPECT_THAT(Get(*me_, "captures/7ZZZ", &capture), Fails(grpc::NOT_FOUND));
  EXPECT_THAT(Get(*me_, record.id, &capture), Fails(grpc::INVALID_ARGUMENT));
}

// ---- reports ----

TEST_F(ServerTest, OperatorsOfAStoredCapture) {
  const CaptureRecord record = StoreCapture(uid_, 100);
  v1::GetReportRequest request;
  request.set_capture(NameOf(record));
  request.set_report("ops");
  v1::Report ops;
  ASSERT_THAT(Do(*me_->reports, &Reports::GetReport, request, &ops), Succeeds());
  EXPECT_THAT(TextsOf(TableOf(ops, "rows"), "name"), ElementsAre("op"));
  EXPECT_THAT(IntsOf(TableOf(ops, "rows"), "calls"), ElementsAre(100));
  EXPECT_THAT(IntsOf(TableOf(ops, "rows"), "cpu_total_ns"), ElementsAre(Gt(100'000)));
  EXPECT_THAT(IntsOf(TableOf(ops, "rows"), "p50_ns"), ElementsAre(Gt(0)));
  (*request.mutable_options())["step"] = "100";
  EXPECT_THAT(Do(*me_->reports, &Reports::GetReport, request, &ops), Succeeds());
  (*request.mutable_options())["step"] = "7";
  EXPECT_THAT(Do(*me_->reports, &Reports::GetReport, request, &ops), Fails(grpc::INVALID_ARGUMENT));
}

TEST_F(ServerTest, TorchsTableOfAStoredCapture) {
  const v1::Report torch = ReportOf(NameOf(StoreCapture(uid_, 100)), "ops_torch");
  EXPECT_THAT(TextsOf(TableOf(torch, "rows"), "name"), ElementsAre("ProfilerStep*", "op"));
  EXPECT_THAT(IntsOf(TableOf(torch, "rows"), "calls"), ElementsAre(1, Gt(1)));
  EXPECT_LT(torch.ByteSizeLong(), 20'000U);
}

TEST_F(ServerTest, AUserWithoutReportTimeKeepsNobodyElseFromReports) {
  constexpr auto kReportTime = quota::Resource::kReportMilliseconds;
  const quota::Limit limit = ledger_.limit(kReportTime);
  ledger_.Charge(quota::LocalPrincipal(kNobody, uid_), kReportTime, limit.capacity - limit.reserve);
  v1::GetReportRequest request;
  request.set_capture(NameOf(StoreCapture(uid_)));
  request.set_report("steps");
  v1::Report steps;
  ASSERT_THAT(Do(*me_->reports, &Reports::GetReport, request, &steps), Succeeds());

  ledger_.Charge(quota::LocalPrincipal(uid_, uid_), kReportTime, limit.capacity);
  request.set_report("kernels");  // What was answered before costs nothing.
  const Outcome refused = Do(*me_->reports, &Reports::GetReport, request, &steps);
  EXPECT_THAT(refused, Fails(grpc::RESOURCE_EXHAUSTED));
  EXPECT_EQ(refused.reason, quota::kQuotaExceeded);
  v1::Quotas quotas;
  ASSERT_THAT(Do(*me_->node, &v1::NodeService::Stub::GetQuotas, v1::GetQuotasRequest(), &quotas),
              Succeeds());
  const auto shown = std::ranges::find(quotas.resources(), "report-milliseconds",
                                       [](const auto& resource) { return resource.name(); });
  ASSERT_NE(shown, quotas.resources().end());
  EXPECT_GE(shown->used(), limit.capacity);
  EXPECT_EQ(shown->refused_count(), 1);
}

TEST_F(ServerTest, StepsOfAStoredCapture) {
  const v1::Report steps = ReportOf(NameOf(StoreCapture(uid_)), "steps");
  EXPECT_THAT(IntsOf(TableOf(steps, "steps"), "index"), ElementsAre(100));
  EXPECT_THAT(IntsOf(steps.totals(), "median_ns"), ElementsAre(10'000'000));
}

TEST_F(ServerTest, MemoryOfAStoredCapture) {
  const v1::Report memory = ReportOf(NameOf(StoreCapture(uid_)), "memory");
  EXPECT_THAT(IntsOf(TableOf(memory, "devices"), "peak_bytes"), ElementsAre(4096));
  EXPECT_THAT(IntsOf(TableOf(memory, "samples"), "allocated_bytes"), testing::Contains(4096));
}

TEST_F(ServerTest, GpuReportsOfAStoredCapture) {
  const std::string name = NameOf(StoreCapture(uid_, 100, {.steps = 1}, /*gpu=*/true));
  const v1::Report ops = ReportOf(name, "ops");
  EXPECT_TRUE(ops.simulated());
  EXPECT_THAT(IntsOf(ops.totals(), "self_device_total_ns"), ElementsAre(700));
  EXPECT_THAT(IntsOf(ops.totals(), "unattributed_device_ns"), ElementsAre(200));
  int64_t self_device_ns = 0;
  for (const int64_t row_ns : IntsOf(TableOf(ops, "rows"), "self_device_ns")) {
    self_device_ns += row_ns;
  }
  EXPECT_EQ(self_device_ns, 500);

  const v1::Report kernels = ReportOf(name, "kernels");
  EXPECT_THAT(TextsOf(TableOf(kernels, "rows"), "name"), ElementsAre("_Z1kPf"));
  EXPECT_THAT(TextsOf(TableOf(kernels, "rows"), "display_name"), ElementsAre("k(float*)"));
  EXPECT_THAT(TextsOf(TableOf(kernels, "rows"), "op"), ElementsAre("op"));
  EXPECT_THAT(IntsOf(kernels.totals(), "busy_ns"), ElementsAre(600));
  EXPECT_TRUE(kernels.simulated());

  const v1::Report copies = ReportOf(name, "copies");
  EXPECT_THAT(TextsOf(TableOf(copies, "rows"), "name"),
              ElementsAre("Memcpy HtoD (Pageable -> Device)"));
  EXPECT_THAT(IntsOf(copies.totals(), "total_ns"), ElementsAre(200));
  EXPECT_TRUE(copies.simulated());

  const v1::Report syncs = ReportOf(name, "syncs");
  EXPECT_THAT(TextsOf(TableOf(syncs, "rows"), "name"), ElementsAre("Stream Sync"));
  EXPECT_THAT(TextsOf(TableOf(syncs, "rows"), "api"), ElementsAre("cudaLaunchKernel"));

  const v1::Report idle = ReportOf(name, "idle");
  EXPECT_EQ(IntsOf(TableOf(idle, "rows"), "busy_ns").at(0), 600);
  EXPECT_THAT(IntsOf(TableOf(idle, "rows"), "step"), ElementsAre(-1, 100));
  EXPECT_THAT(IntsOf(TableOf(idle, "streams"), "stream"), SizeIs(2));
}

TEST_F(ServerTest, AReportThatCannotBeMadeSaysWhy) {
  v1::GetReportRequest request;
  request.set_capture(NameOf(StoreCapture(uid_)));
  const auto refused = [&](std::string_view reason) {
    v1::Report report;
    const Outcome outcome = Do(*me_->reports, &Reports::GetReport, request, &report);
    EXPECT_THAT(outcome, Fails(grpc::INVALID_ARGUMENT));
    EXPECT_THAT(outcome.status.error_message(), HasSubstr(std::string(reason)));
  };
  refused("no report ''");
  request.set_report("nonsense\x1b");
  refused("no report 'nonsense");
  request.set_report("kernels");
  (*request.mutable_options())["step"] = "7";
  refused("step");
  (*request.mutable_options())["step"] = "-1";
  refused("step must be a number");
  request.clear_options();
  (*request.mutable_options())["colour"] = "red";
  refused("no option 'colour'");
  request.clear_options();
  (*request.mutable_options())["sort"] = "colour";
  refused("no column 'colour' to sort by; the columns are: display_name");
  request.clear_options();
  (*request.mutable_options())["limit"] = "-3";
  refused("limit must be a number");
  request.clear_options();
  request.set_report("ops_torch");
  (*request.mutable_options())["version"] = "9.9\x1b";
  refused("not a known release of PyTorch");
}

TEST_F(ServerTest, GpuReportsOfACaptureWithoutGpuAreEmpty) {
  const v1::Report kernels = ReportOf(NameOf(StoreCapture(uid_)), "kernels");
  EXPECT_THAT(IntsOf(TableOf(kernels, "rows"), "count"), IsEmpty());
  EXPECT_THAT(kernels.notes(0), HasSubstr("No kernels were recorded"));
  EXPECT_FALSE(kernels.simulated());
}

TEST_F(ServerTest, ACaptureWithoutTorchCompiledNothingAndHasNoInputs) {
  const std::string name = NameOf(StoreCapture(uid_));
  const v1::Report compile = ReportOf(name, "compile");
  EXPECT_THAT(compile.notes(0), HasSubstr("No torch.compile activity was recorded"));
  v1::GetReportRequest request;
  request.set_capture(name);
  request.set_report("ops");
  (*request.mutable_options())["group_by"] = "input_shape";
  v1::Report ops;
  ASSERT_THAT(Do(*me_->reports, &Reports::GetReport, request, &ops), Succeeds());
  EXPECT_THAT(TextsOf(TableOf(ops, "rows"), "dims"), ElementsAre(""));
}

TEST_F(ServerTest, CollectivesOfACaptureWithoutAnyAreItsSteps) {
  const v1::Report collectives = ReportOf(NameOf(StoreCapture(uid_)), "collectives");
  EXPECT_THAT(IntsOf(TableOf(collectives, "rows"), "start_ns"), IsEmpty());
  EXPECT_THAT(IntsOf(TableOf(collectives, "steps"), "step"), ElementsAre(100));
}

TEST_F(ServerTest, ReportsSayWhyThereIsNone) {
  const auto operators = [this](const std::string& name) {
    v1::GetReportRequest request;
    request.set_capture(name);
    request.set_report("ops");
    v1::Report response;
    return Do(*me_->reports, &Reports::GetReport, request, &response);
  };
  EXPECT_THAT(operators("captures/00000000000000000000000000"), Fails(grpc::NOT_FOUND));
  EXPECT_THAT(operators(NameOf(StoreFailedCapture(uid_))), Fails(grpc::NOT_FOUND, "NO_EVENTS"));
  const CaptureRecord deleted = StoreCapture(uid_);
  ASSERT_THAT(store_->DeleteCapture(deleted.id), IsOk());
  EXPECT_THAT(operators(NameOf(deleted)), Fails(grpc::NOT_FOUND, "NO_EVENTS"));
  v1::Capture live;
  ASSERT_THAT(Create("targets/" + std::to_string(targets_.Add(MyTarget(10))), &live), Succeeds());
  EXPECT_THAT(operators(live.name()), Fails(grpc::FAILED_PRECONDITION, "CAPTURE_LIVE"));
}

TEST_F(ServerTest, ADamagedFileIsDataLoss) {
  const CaptureRecord record = StoreCapture(uid_);
  const std::filesystem::path file = folder_.path() / "data/captures" / (record.id + ".profd");
  ASSERT_TRUE(std::filesystem::exists(file));
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  v1::GetReportRequest request;
  request.set_capture(NameOf(record));
  request.set_report("ops");
  v1::Report response;
  EXPECT_THAT(Do(*me_->reports, &Reports::GetReport, request, &response), Fails(grpc::DATA_LOSS));
  v1::Capture capture;
  EXPECT_THAT(Get(*me_, NameOf(record), &capture), Succeeds()) << "the record is still right";
  EXPECT_EQ(capture.steps_size(), 0);
}

TEST_F(ServerTest, TheSameReportIsNotMadeAgain) {
  const CaptureRecord record = StoreCapture(uid_);
  const v1::Report first = ReportOf(NameOf(record), "ops");
  // Shows that the file is not read again; a capture file does not change by itself.
  const std::filesystem::path file = folder_.path() / "data/captures" / (record.id + ".profd");
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  const v1::Report second = ReportOf(NameOf(record), "ops");
  EXPECT_EQ(second.SerializeAsString(), first.SerializeAsString());
  v1::GetReportRequest other;
  other.set_capture(NameOf(record));
  other.set_report("steps");
  v1::Report steps;
  EXPECT_THAT(Do(*me_->reports, &Reports::GetReport, other, &steps), Fails(grpc::DATA_LOSS));
  ASSERT_THAT(store_->DeleteCapture(record.id), IsOk());
  other.set_report("ops");
  EXPECT_THAT(Do(*me_->reports, &Reports::GetReport, other, &steps),
              Fails(grpc::NOT_FOUND, "NO_EVENTS"));
}

TEST_F(ServerTest, AReportIsNotWantedOnceItsCallerWentAwayOrProfdStops) {
  grpc::ServerBuilder builder;
  const auto completions = builder.AddCompletionQueue();
  WorkQueue queue({.thread_name = "test"});
  worker::ReportPool reports({}, clock_, [this] {
    return std::make_unique<worker::SpawnedProcess>(
        worker::SpawnOptions{.program = report_program_}, clock_);
  });
  AuditLog audit(*store_, targets_, clock_);
  Admission admission(
      Admission::Limits(), [](const grpc::ServerContext&) { return Peer(); }, nullptr, audit,
      *completions, queue, reports);
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  const CallInfo info{.caller = {.uid = uid_}, .cancelled = cancelled};
  EXPECT_THAT(StillWanted(admission, info), IsOk());
  cancelled->store(true);
  EXPECT_THAT(StillWanted(admission, info), StatusIs(absl::StatusCode::kCancelled));
  cancelled->store(false);
  admission.Close();
  EXPECT_THAT(StillWanted(admission, info), StatusIs(absl::StatusCode::kUnavailable));
  completions->Shutdown();
}

// ---- the node, health ----

TEST_F(ServerTest, TheNodeTellsOfItself) {
  targets_.Add(MyTarget(10));
  StoreCapture(uid_);
  v1::Node node;
  ASSERT_THAT(Do(*me_->node, &v1::NodeService::Stub::GetNode, v1::GetNodeRequest(), &node),
              Succeeds());
  EXPECT_EQ(node.name(), "node1");
  EXPECT_EQ(node.version(), "1.2.3");
  EXPECT_EQ(node.api_version(), 1);
  EXPECT_EQ(node.pid(), getpid());
  EXPECT_EQ(node.target_count(), 1);
  EXPECT_EQ(node.storage().capture_count(), 1);
  EXPECT_GT(node.storage().capture_bytes(), 0);
  EXPECT_THAT(node.storage().data_dir(), HasSubstr(folder_.path().string()));
  EXPECT_EQ(node.clock().event_clock(), "tsc");
  EXPECT_GT(node.clock().unix_ns(), 0);
  EXPECT_NE(node.clock().error_ns(), 0);
  EXPECT_FALSE(node.policy_stale());
  EXPECT_EQ(node.unknown_frame_count(), 3);
  EXPECT_EQ(node.refused_target_count(), 4);
  EXPECT_GT(node.resident_bytes(), 1 << 20);
}

TEST_F(ServerTest, HealthIsServingByName) {
  const auto stub = ::grpc::health::v1::Health::NewStub(Connect());
  using Health = ::grpc::health::v1::Health::Stub;
  ::grpc::health::v1::HealthCheckRequest request;
  ::grpc::health::v1::HealthCheckResponse response;
  for (const char* service : {"", "profd.v1.CaptureService"}) {
    request.set_service(service);
    ASSERT_THAT(Do(*stub, &Health::Check, request, &response), Succeeds());
    EXPECT_EQ(response.status(), ::grpc::health::v1::HealthCheckResponse::SERVING);
  }
  request.set_service("profd.v1.Other");
  EXPECT_THAT(Do(*stub, &Health::Check, request, &response), Fails(grpc::NOT_FOUND));
}

TEST_F(ServerTest, ARequestThatIsTooLargeIsRefused) {
  v1::CreateCaptureRequest request;
  request.set_target(std::string(2 << 20, 'x'));
  v1::Capture capture;
  EXPECT_THAT(Do(*me_->captures, &Captures::CreateCapture, request, &capture),
              Fails(grpc::RESOURCE_EXHAUSTED));
  v1::Node node;
  EXPECT_THAT(Do(*me_->node, &v1::NodeService::Stub::GetNode, v1::GetNodeRequest(), &node),
              Succeeds())
      << "the connection serves on";
}

TEST_F(ServerTest, CompressedRequestsAreRefused) {
  v1::CreateCaptureRequest request;
  request.set_target(std::string(1000, 'x'));
  v1::Capture capture;
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    const grpc::Status status = me_->captures->CreateCapture(&context, request, &capture);
    EXPECT_EQ(status.error_code(), grpc::UNIMPLEMENTED) << status.error_message();
  }
}

// ---- whose is what ----

TEST_F(ServerTest, OthersTargetsAndCapturesAreNotThere) {
  const std::unique_ptr<Stubs> nobody = Nobody();
  if (nobody == nullptr) GTEST_SKIP() << "only root can call as somebody else";
  const std::string theirs = "targets/" + std::to_string(targets_.Add(TargetOf(10, kSomeoneElse)));
  const std::string mine = "targets/" + std::to_string(targets_.Add(TargetOf(11, kNobody)));
  const CaptureRecord their_capture = StoreCapture(kSomeoneElse);
  const CaptureRecord my_capture = StoreCapture(kNobody);

  v1::ListTargetsResponse listed;
  ASSERT_THAT(Do(*nobody->targets, &Targets::ListTargets, v1::ListTargetsRequest(), &listed),
              Succeeds());
  ASSERT_EQ(listed.targets_size(), 1);
  EXPECT_EQ(listed.targets(0).name(), mine);
  EXPECT_THAT(List(*nobody, {}), ElementsAre(NameOf(my_capture)));

  v1::Capture capture;
  EXPECT_THAT(Get(*nobody, NameOf(my_capture), &capture), Succeeds());
  EXPECT_THAT(Get(*nobody, NameOf(their_capture), &capture), Fails(grpc::NOT_FOUND));
  EXPECT_THAT(Get(*nobody, NameOf(their_capture).substr(0, 30), &capture), Fails(grpc::NOT_FOUND));
  v1::CreateCaptureRequest create;
  create.set_target(theirs);
  create.mutable_spec()->set_steps(1);
  EXPECT_THAT(Do(*nobody->captures, &Captures::CreateCapture, create, &capture),
              Fails(grpc::PERMISSION_DENIED, "OTHER_OWNER"));
  v1::DeleteCaptureRequest remove;
  remove.set_name(NameOf(their_capture));
  EXPECT_THAT(Do(*nobody->captures, &Captures::DeleteCapture, remove, &capture),
              Fails(grpc::NOT_FOUND));
  v1::CancelCaptureRequest cancel;
  cancel.set_name(NameOf(their_capture));
  EXPECT_THAT(Do(*nobody->captures, &Captures::CancelCapture, cancel, &capture),
              Fails(grpc::NOT_FOUND));
  v1::GetReportRequest operators;
  operators.set_capture(NameOf(their_capture));
  operators.set_report("ops");
  v1::Report table;
  EXPECT_THAT(Do(*nobody->reports, &Reports::GetReport, operators, &table), Fails(grpc::NOT_FOUND));
  v1::Node node;
  ASSERT_THAT(Do(*nobody->node, &v1::NodeService::Stub::GetNode, v1::GetNodeRequest(), &node),
              Succeeds());
  EXPECT_EQ(node.storage().data_dir(), "");

  // Root sees all.
  EXPECT_THAT(List(*me_, {}), SizeIs(2));
}

TEST_F(ServerTest, ProtobufWritesNothingToStderrItself) {
  v1::Capture capture;
  testing::internal::CaptureStderr();
  const Outcome outcome = Get(*me_, "captures/\xff", &capture);
  const std::string written = testing::internal::GetCapturedStderr();
  EXPECT_FALSE(outcome.status.ok());
  EXPECT_THAT(written, testing::Not(HasSubstr("libprotobuf"))) << "would wait for its reader";
}

TEST_F(ServerTest, WhatWasDoneAndRefusedIsInTheAuditLog) {
  const std::string target = "targets/" + std::to_string(targets_.Add(MyTarget(10)));
  v1::Capture capture;
  ASSERT_THAT(Create(target, &capture), Succeeds());
  EXPECT_THAT(Create("targets/99", &capture), Fails(grpc::NOT_FOUND));
  const auto log = store_->ListAudit({}, 10);
  ASSERT_THAT(log, IsOk());
  ASSERT_THAT(log->entries, SizeIs(2));
  EXPECT_EQ(log->entries[0].outcome, "NOT_FOUND");
  EXPECT_EQ(log->entries[0].reason, "NO_SUCH_TARGET");
  EXPECT_EQ(log->entries[0].resource, "targets/99");
  EXPECT_EQ(log->entries[1].outcome, "OK");
  EXPECT_EQ(log->entries[1].method, "CreateCapture");
  EXPECT_EQ(log->entries[1].principal, "uid:" + std::to_string(uid_));
  EXPECT_EQ(log->entries[1].peer, "unix:" + std::to_string(getpid()));
  EXPECT_THAT(log->entries[1].resource, HasSubstr("captures/"));
}

TEST_F(ServerTest, WhoIsInAnotherNamespaceMayNotCall) {
  ForeignPeer outside(socket_path(), [] { return unshare(CLONE_NEWUSER) == 0; });
  if (!outside.connected()) GTEST_SKIP() << "this machine does not let us make user namespaces";
  Stubs stubs(ChannelOver(outside.TakeConnection()));
  v1::ListTargetsResponse response;
  EXPECT_THAT(Do(*stubs.targets, &Targets::ListTargets, v1::ListTargetsRequest(), &response),
              Fails(grpc::PERMISSION_DENIED, "OUTSIDE"));
}

TEST(AdmissionTest, WhoIsOutsideIsToldWhetherThatIsKnownOrCannotBe) {
  Peer peer;
  peer.principal.uid = 0;
  EXPECT_THAT(WhyOutside(peer, 1000), HasSubstr("run profctl as uid 1000"));
  EXPECT_THAT(WhyOutside(peer, 0), HasSubstr("in another pid or user namespace"));
  peer.place_known = true;  // A helper with privileges has looked.
  EXPECT_THAT(WhyOutside(peer, 1000), HasSubstr("in another pid or user namespace"));
  peer.place_known = false;
  peer.principal.uid = 1000;
  EXPECT_THAT(WhyOutside(peer, 1000), HasSubstr("in another pid or user namespace"));
}

}  // namespace
}  // namespace profd::rpc
