// Every RPC, with every verb: who has the one it needs may call it, and who has all others may
// not, which is written down and changes nothing.
#include <sqlite3.h>

#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/rpc/rpc_harness.h"

namespace profd::rpc {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kNoGroup[] = "groups/01HZZZZZZZZZZZZZZZZZZZZZZA";
constexpr char kSchedule[] = "schedules/01HZZZZZZZZZZZZZZZZZZZZZZA";

// Lets everybody do these things with everything.
class Granted final : public AccessRules {
 public:
  explicit Granted(std::vector<Verb> verbs) : verbs_(std::move(verbs)) {}
  bool Allows(const Principal&, Verb verb, const Ownership&) const override { return Has(verb); }
  bool AllowsAny(const Principal&, Verb verb) const override { return Has(verb); }
  bool AllowsAll(const Principal&, Verb verb) const override { return Has(verb); }

 private:
  bool Has(Verb verb) const { return std::ranges::find(verbs_, verb) != verbs_.end(); }
  const std::vector<Verb> verbs_;
};

class AccessTest : public RpcTest {
 protected:
  struct Row {
    std::string method;
    Verb verb;
    std::function<Outcome()> call;
    // What who may is answered: some ask for what is not there.
    grpc::StatusCode answer = grpc::StatusCode::OK;
  };

  AccessTest() {
    access_rules_ = [this] {
      const absl::MutexLock lock(&mu_);
      return std::make_shared<Granted>(granted_);
    };
  }

  template <typename Response, typename Stub, typename Request>
  static Outcome Ask(Stub& stub,
                     grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                     const Request& request) {
    Response response;
    return Do(stub, method, request, &response);
  }
  template <typename Response, typename Stub, typename Request>
  static Outcome AskStream(Stub& stub,
                           std::unique_ptr<grpc::ClientReader<Response>> (Stub::*method)(
                               grpc::ClientContext*, const Request&),
                           const Request& request, bool endless = false) {
    grpc::ClientContext context;
    const auto reader = (stub.*method)(&context, request);
    Response response;
    if (endless && reader->Read(&response)) {
      context.TryCancel();
      while (reader->Read(&response)) {
      }
      (void)reader->Finish();
      return {.status = grpc::Status::OK};
    }
    while (reader->Read(&response)) {
    }
    Outcome outcome;
    outcome.status = reader->Finish();
    outcome.reason = rpc::ReasonOf(context);
    return outcome;
  }

  Outcome ImportNothing() {
    grpc::ClientContext context;
    v1::Capture response;
    const auto writer = me_->captures->ImportCapture(&context, &response);
    writer->WritesDone();
    Outcome outcome;
    outcome.status = writer->Finish();
    outcome.reason = rpc::ReasonOf(context);
    return outcome;
  }

  template <typename Request>
  static Request Naming(const std::string& name) {
    Request request;
    request.set_name(name);
    return request;
  }
  template <typename Request>
  static Request Of(const std::string& capture) {
    Request request;
    request.set_capture(capture);
    return request;
  }

  template <typename Request>
  static Request OfGroup() {
    Request request;
    request.set_group(kNoGroup);
    return request;
  }

  // On a target and captures of `owner`.
  std::vector<Row> Rows(int64_t owner) {
    using Targets = v1::TargetService::Stub;
    using Captures = v1::CaptureService::Stub;
    using Reports = v1::ReportService::Stub;
    using Exports = v1::ExportService::Stub;
    using Nodes = v1::NodeService::Stub;
    using Schedules = v1::ScheduleService::Stub;
    const std::string target = "targets/" + std::to_string(targets_.Add(TargetOf(10, owner)));
    const std::string stored = "captures/" + StoreCapture(owner).id;
    const std::string doomed = "captures/" + StoreCapture(owner).id;
    v1::CreateCaptureRequest create;
    create.set_target(target);
    create.mutable_spec()->set_steps(1);
    v1::ResolveTargetsRequest resolve;
    resolve.set_all(true);
    v1::SetCapturesAllowedRequest allow;
    allow.set_allowed(true);
    v1::GetHistoryRequest history;
    history.set_step_time(true);
    v1::CreateCaptureGroupRequest group;
    group.add_targets("targets/" + std::to_string(targets_.Add(TargetOf(11, owner))));
    group.mutable_spec()->set_steps(1);
    v1::CreateScheduleRequest schedule;
    schedule.set_name(kSchedule);
    schedule.mutable_spec()->mutable_every()->set_seconds(1800);
    schedule.mutable_spec()->mutable_capture()->set_steps(3);
    return {
        {"ListTargets", Verb::kList,
         [=, this] { return Ask(*me_->targets, &Targets::ListTargets, v1::ListTargetsRequest()); }},
        {"ResolveTargets", Verb::kList,
         [=, this] { return Ask(*me_->targets, &Targets::ResolveTargets, resolve); }},
        {"WatchTargets", Verb::kList,
         [=, this] {
           return AskStream(*me_->targets, &Targets::WatchTargets, v1::WatchTargetsRequest(), true);
         }},
        {"ListCaptures", Verb::kList,
         [=, this] {
           return Ask(*me_->captures, &Captures::ListCaptures, v1::ListCapturesRequest());
         }},
        {"GetCapture", Verb::kList,
         [=, this] {
           return Ask(*me_->captures, &Captures::GetCapture, Naming<v1::GetCaptureRequest>(stored));
         }},
        {"WatchCapture", Verb::kList,
         [=, this] {
           return AskStream(*me_->captures, &Captures::WatchCapture,
                            Naming<v1::WatchCaptureRequest>(stored));
         }},
        {"DownloadCapture", Verb::kRead,
         [=, this] {
           return AskStream(*me_->captures, &Captures::DownloadCapture,
                            Naming<v1::DownloadCaptureRequest>(stored));
         }},
        {"GetReport", Verb::kRead,
         [=, this] {
           auto request = Of<v1::GetReportRequest>(stored);
           request.set_report("kernels");
           return Ask(*me_->reports, &Reports::GetReport, request);
         }},
        {"ExportTrace", Verb::kRead,
         [=, this] {
           auto request = Of<v1::ExportTraceRequest>(stored);
           request.set_format(v1::ExportTraceRequest::CHROME);
           return AskStream(*me_->exports, &Exports::ExportTrace, request);
         }},
        {"CreateCapture", Verb::kCapture,
         [=, this] { return Ask(*me_->captures, &Captures::CreateCapture, create); }},
        {"CancelCapture", Verb::kCapture,
         [=, this] {
           return Ask(*me_->captures, &Captures::CancelCapture,
                      Naming<v1::CancelCaptureRequest>(stored));
         }},
        {"ImportCapture", Verb::kCapture, [=, this] { return ImportNothing(); },
         grpc::INVALID_ARGUMENT},
        {"DeleteCapture", Verb::kDelete,
         [=, this] {
           return Ask(*me_->captures, &Captures::DeleteCapture,
                      Naming<v1::DeleteCaptureRequest>(doomed));
         }},
        {"SetCapturePinned", Verb::kDelete,
         [=, this] {
           return Ask(*me_->captures, &Captures::SetCapturePinned,
                      Naming<v1::SetCapturePinnedRequest>(stored));
         }},
        {"PurgeCaptures", Verb::kDelete,
         [=, this] {
           v1::PurgeCapturesRequest purge;
           purge.mutable_older_than()->set_seconds(1'500'000'000);
           return Ask(*me_->captures, &Captures::PurgeCaptures, purge);
         }},
        {"GetNode", Verb::kList,
         [=, this] { return Ask(*me_->node, &Nodes::GetNode, v1::GetNodeRequest()); }},
        {"GetClock", Verb::kList,
         [=, this] { return Ask(*me_->node, &Nodes::GetClock, v1::GetClockRequest()); }},
        {"GetQuotas", Verb::kList,
         [=, this] { return Ask(*me_->node, &Nodes::GetQuotas, v1::GetQuotasRequest()); }},
        {"ListAudit", Verb::kList,
         [=, this] { return Ask(*me_->node, &Nodes::ListAudit, v1::ListAuditRequest()); }},
        {"SetCapturesAllowed", Verb::kAdmin,
         [=, this] { return Ask(*me_->node, &Nodes::SetCapturesAllowed, allow); }},
        {"GetHistory", Verb::kRead,
         [=, this] { return Ask(*me_->reports, &Reports::GetHistory, history); }},
        {"ListRankSummaries", Verb::kRead,
         [=, this] {
           return Ask(*me_->reports, &Reports::ListRankSummaries, v1::ListRankSummariesRequest());
         }},
        {"CreateCaptureGroup", Verb::kCapture,
         [=, this] { return Ask(*me_->captures, &Captures::CreateCaptureGroup, group); }},
        {"GetCaptureGroup", Verb::kList,
         [=, this] {
           return Ask(*me_->captures, &Captures::GetCaptureGroup,
                      Naming<v1::GetCaptureGroupRequest>(kNoGroup));
         },
         grpc::NOT_FOUND},
        {"PrepareGroup", Verb::kCapture,
         [=, this] {
           return AskStream(*me_->captures, &Captures::PrepareGroup,
                            OfGroup<v1::PrepareGroupRequest>());
         },
         grpc::INVALID_ARGUMENT},
        {"CommitGroup", Verb::kCapture,
         [=, this] {
           return Ask(*me_->captures, &Captures::CommitGroup, OfGroup<v1::CommitGroupRequest>());
         },
         grpc::NOT_FOUND},
        {"AbortGroup", Verb::kCapture,
         [=, this] {
           return Ask(*me_->captures, &Captures::AbortGroup, OfGroup<v1::AbortGroupRequest>());
         },
         grpc::NOT_FOUND},
        {"CloseGroup", Verb::kCapture,
         [=, this] {
           return Ask(*me_->captures, &Captures::CloseGroup, OfGroup<v1::CloseGroupRequest>());
         },
         grpc::NOT_FOUND},
        {"CreateSchedule", Verb::kSchedule,
         [=, this] { return Ask(*me_->schedules, &Schedules::CreateSchedule, schedule); }},
        {"ApplySchedule", Verb::kSchedule,
         [=, this] {
           v1::ApplyScheduleRequest apply;
           apply.mutable_declaration()->set_name("schedules/01HZZZZZZZZZZZZZZZZZZZZZZB");
           apply.mutable_declaration()->set_version(1);
           *apply.mutable_declaration()->mutable_spec() = schedule.spec();
           return Ask(*me_->schedules, &Schedules::ApplySchedule, apply);
         }},
        {"GetSchedule", Verb::kList,
         [=, this] {
           return Ask(*me_->schedules, &Schedules::GetSchedule,
                      Naming<v1::GetScheduleRequest>(kSchedule));
         }},
        {"ListSchedules", Verb::kList,
         [=, this] {
           return Ask(*me_->schedules, &Schedules::ListSchedules, v1::ListSchedulesRequest());
         }},
        {"ListScheduleWindows", Verb::kList,
         [=, this] {
           return Ask(*me_->schedules, &Schedules::ListScheduleWindows,
                      Naming<v1::ListScheduleWindowsRequest>(kSchedule));
         }},
        {"PauseSchedule", Verb::kSchedule,
         [=, this] {
           return Ask(*me_->schedules, &Schedules::PauseSchedule,
                      Naming<v1::PauseScheduleRequest>(kSchedule));
         }},
        {"ResumeSchedule", Verb::kSchedule,
         [=, this] {
           return Ask(*me_->schedules, &Schedules::ResumeSchedule,
                      Naming<v1::ResumeScheduleRequest>(kSchedule));
         }},
        {"DeleteSchedule", Verb::kSchedule,
         [=, this] {
           return Ask(*me_->schedules, &Schedules::DeleteSchedule,
                      Naming<v1::DeleteScheduleRequest>(kSchedule));
         }},
    };
  }

  // From now on the audit log takes no line.
  void BreakAuditLog() {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open((folder_.path() / "data" / "catalog.db").c_str(), &db), SQLITE_OK);
    for (const char* change : {"INSERT", "UPDATE"}) {
      const std::string sql = absl::StrFormat(
          "CREATE TRIGGER broken_%s BEFORE %s ON audit_log BEGIN SELECT RAISE(ABORT, 'broken'); "
          "END",
          change, change);
      EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
    }
    sqlite3_close(db);
    EXPECT_FALSE(store_->AppendAudit({.time = clock_.Now(), .method = "GetReport"}).ok());
  }

  void Grant(std::vector<Verb> verbs) {
    const absl::MutexLock lock(&mu_);
    granted_ = std::move(verbs);
  }

 private:
  absl::Mutex mu_;
  std::vector<Verb> granted_ ABSL_GUARDED_BY(mu_);
};

TEST_F(AccessTest, TheTableHasEveryRpcOfTheApi) {
  std::vector<std::string> methods;
  for (const Row& row : Rows(uid_)) methods.push_back(row.method);
  std::vector<std::string> served;
  for (const google::protobuf::FileDescriptor* file :
       {v1::Capture::descriptor()->file(), v1::Node::descriptor()->file(),
        v1::Target::descriptor()->file(), v1::Schedule::descriptor()->file(),
        v1::Report::descriptor()->file(), v1::ExportTraceRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      for (int j = 0; j < file->service(i)->method_count(); ++j) {
        served.push_back(file->service(i)->method(j)->name());
      }
    }
  }
  EXPECT_THAT(methods, ::testing::UnorderedElementsAreArray(served));
}

TEST_F(AccessTest, WhoMayDoAllButThatIsRefusedAndItIsWrittenDown) {
  for (const Row& row : Rows(uid_)) {
    std::vector<Verb> others;
    for (int i = 0; i < kVerbCount; ++i) {
      if (static_cast<Verb>(i) != row.verb) others.push_back(static_cast<Verb>(i));
    }
    Grant(others);
    EXPECT_THAT(row.call(), Fails(grpc::PERMISSION_DENIED, "NOT_ALLOWED")) << row.method;
  }
  EXPECT_THAT(manager_->Live(), IsEmpty()) << "nothing was begun";
  const auto captures = store_->ListCaptures({.include_deleted = false}, 10, "");
  ASSERT_TRUE(captures.ok());
  EXPECT_EQ(captures->captures.size(), 2) << "nothing was deleted";

  server_->Shutdown(absl::ZeroDuration());  // What is to be written has been.
  for (const Row& row : Rows(uid_)) {
    const auto log = store_->ListAudit({.method = row.method, .refused_only = true}, 10);
    ASSERT_TRUE(log.ok());
    ASSERT_THAT(log->entries, Not(IsEmpty())) << row.method;
    EXPECT_EQ(log->entries[0].reason, "NOT_ALLOWED");
    EXPECT_EQ(log->entries[0].principal, "uid:" + std::to_string(uid_));
  }
}

TEST_F(AccessTest, WhoMaySeeItAndDoThatMay) {
  for (const Row& row : Rows(uid_)) {
    Grant({Verb::kList, row.verb});
    const Outcome outcome = row.call();
    EXPECT_EQ(outcome.status.error_code(), row.answer)
        << row.method << ": " << outcome.status.error_message();
  }
}

TEST_F(AccessTest, StacksNeedAVerbOfTheirOwn) {
  v1::CreateCaptureRequest create;
  create.set_target("targets/" + std::to_string(targets_.Add(MyTarget(10))));
  create.mutable_spec()->set_steps(1);
  create.mutable_spec()->mutable_torch()->set_stacks(true);
  v1::CreateCaptureGroupRequest group;
  group.add_targets("targets/" + std::to_string(targets_.Add(MyTarget(11))));
  *group.mutable_spec() = create.spec();
  v1::Capture capture;
  v1::CaptureGroup captures;
  const auto one = [&] {
    return Do(*me_->captures, &v1::CaptureService::Stub::CreateCapture, create, &capture);
  };
  const auto several = [&] {
    return Do(*me_->captures, &v1::CaptureService::Stub::CreateCaptureGroup, group, &captures);
  };
  Grant({Verb::kList, Verb::kCapture});
  EXPECT_THAT(one(), Fails(grpc::PERMISSION_DENIED, "NOT_ALLOWED"));
  EXPECT_THAT(several(), Fails(grpc::PERMISSION_DENIED, "NOT_ALLOWED"));
  EXPECT_THAT(manager_->Live(), IsEmpty());
  Grant({Verb::kList, Verb::kCapture, Verb::kCaptureStacks});
  EXPECT_THAT(one(), Succeeds());
  EXPECT_THAT(several(), Succeeds());
}

TEST_F(AccessTest, WhoMayDoNothingLearnsNothing) {
  for (const Row& row : Rows(uid_)) {
    Grant({});
    EXPECT_THAT(row.call(), Fails(grpc::PERMISSION_DENIED, "NOT_ALLOWED")) << row.method;
  }
}

class BrokenAuditTest : public AccessTest {
 protected:
  void SetUp() override {
    AccessTest::SetUp();
    std::vector<Verb> all;
    all.reserve(kVerbCount);
    for (int i = 0; i < kVerbCount; ++i) all.push_back(static_cast<Verb>(i));
    Grant(all);
    BreakAuditLog();
  }
};

TEST_F(BrokenAuditTest, WhatBelongsToOthersIsNeitherReadNorChanged) {
  const std::set<std::string> touching = {
      "DownloadCapture",    "GetReport",        "ExportTrace",   "CreateCapture",
      "CreateCaptureGroup", "SetCapturePinned", "CancelCapture", "DeleteCapture"};
  // What root may do in an emergency.
  const std::set<std::string> exempt = {"CancelCapture", "DeleteCapture"};
  for (const Row& row : Rows(uid_ + 1)) {
    const Outcome outcome = row.call();
    if (touching.contains(row.method) && !(uid_ == 0 && exempt.contains(row.method))) {
      EXPECT_THAT(outcome, Fails(grpc::RESOURCE_EXHAUSTED, "AUDIT_UNAVAILABLE")) << row.method;
    } else {
      EXPECT_EQ(outcome.status.error_code(), row.answer)
          << row.method << ": " << outcome.status.error_message();
    }
  }
  EXPECT_THAT(manager_->Live(), IsEmpty()) << "nothing was begun";
}

TEST_F(BrokenAuditTest, OwnDataIsReadAndChangedAsEver) {
  for (const Row& row : Rows(uid_)) {
    const Outcome outcome = row.call();
    EXPECT_EQ(outcome.status.error_code(), row.answer)
        << row.method << ": " << outcome.status.error_message();
  }
}

TEST_F(AccessTest, ThatThePolicyIsStaleIsNoSecretButWhatIsInItIs) {
  policy_error_ = "line 7: no such verb 'reed'";
  v1::Node node;
  for (const bool is_admin : {false, true}) {
    Grant(is_admin ? std::vector<Verb>{Verb::kList, Verb::kAdmin} : std::vector<Verb>{Verb::kList});
    ASSERT_THAT(Do(*me_->node, &v1::NodeService::Stub::GetNode, v1::GetNodeRequest(), &node),
                Succeeds());
    EXPECT_TRUE(node.policy_stale());
    EXPECT_EQ(node.policy_error(), is_admin ? policy_error_ : "");
  }
}

TEST_F(AccessTest, WhereCapturesAreSwitchedOffEveryoneIsToldWhy) {
  Grant({Verb::kList, Verb::kCapture, Verb::kAdmin});
  v1::SetCapturesAllowedRequest forbid;
  v1::Node node;
  EXPECT_THAT(Do(*me_->node, &v1::NodeService::Stub::SetCapturesAllowed, forbid, &node),
              Fails(grpc::INVALID_ARGUMENT))
      << "why?";
  forbid.set_reason("a benchmark runs");
  ASSERT_THAT(Do(*me_->node, &v1::NodeService::Stub::SetCapturesAllowed, forbid, &node),
              Succeeds());
  EXPECT_FALSE(node.captures_allowed());
  EXPECT_EQ(node.captures_forbidden_reason(), "a benchmark runs");

  v1::CreateCaptureRequest create;
  create.set_target("targets/" + std::to_string(targets_.Add(MyTarget(10))));
  create.mutable_spec()->set_steps(1);
  v1::Capture capture;
  const Outcome refused =
      Do(*me_->captures, &v1::CaptureService::Stub::CreateCapture, create, &capture);
  EXPECT_THAT(refused, Fails(grpc::FAILED_PRECONDITION, "CAPTURES_OFF"));
  EXPECT_THAT(refused.status.error_message(), ::testing::HasSubstr("a benchmark runs"));

  v1::SetCapturesAllowedRequest allow;
  allow.set_allowed(true);
  ASSERT_THAT(Do(*me_->node, &v1::NodeService::Stub::SetCapturesAllowed, allow, &node), Succeeds());
  EXPECT_THAT(Do(*me_->captures, &v1::CaptureService::Stub::CreateCapture, create, &capture),
              Succeeds());
}

// What holds now is what holds after a restart, too.
TEST_F(AccessTest, TwoSwitchesOfCapturesAtOnceLeaveOneState) {
  constexpr int kRounds = 100;
  Grant({Verb::kList, Verb::kCapture, Verb::kAdmin});
  v1::SetCapturesAllowedRequest forbid;
  forbid.set_reason("a benchmark runs");
  v1::SetCapturesAllowedRequest allow;
  allow.set_allowed(true);
  v1::CreateCaptureRequest create;
  create.set_target("targets/" + std::to_string(targets_.Add(MyTarget(10))));
  create.mutable_spec()->set_steps(1);
  for (int round = 0; round < kRounds; ++round) {
    {
      std::vector<std::jthread> operators;
      for (const auto* request : {&forbid, &allow}) {
        operators.emplace_back([this, request] {
          v1::Node node;
          EXPECT_THAT(Do(*me_->node, &v1::NodeService::Stub::SetCapturesAllowed, *request, &node),
                      Succeeds());
          EXPECT_EQ(node.captures_allowed(), request->allowed());
        });
      }
    }
    const auto saved = store_->CapturesForbidden();
    ASSERT_TRUE(saved.ok()) << saved.status();
    v1::Capture capture;
    const Outcome created =
        Do(*me_->captures, &v1::CaptureService::Stub::CreateCapture, create, &capture);
    ASSERT_EQ(created.reason == "CAPTURES_OFF", saved->has_value()) << "in round " << round;
  }
}

TEST_F(AccessTest, NobodyCapturesWhoOptedOut) {
  Grant({Verb::kList, Verb::kCapture});
  TargetInfo target = MyTarget(10);
  target.opted_out = true;
  v1::CreateCaptureRequest create;
  create.set_target("targets/" + std::to_string(targets_.Add(target)));
  create.mutable_spec()->set_steps(1);
  v1::Capture capture;
  EXPECT_THAT(Do(*me_->captures, &v1::CaptureService::Stub::CreateCapture, create, &capture),
              Fails(grpc::FAILED_PRECONDITION, "OPTED_OUT"));
}

}  // namespace
}  // namespace profd::rpc
