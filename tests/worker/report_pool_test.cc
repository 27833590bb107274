// ReportPool with programs that the test plays: they answer when it says so.
#include "daemon/worker/report_pool.h"

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "daemon/base/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/status_matchers.h"

namespace profd::worker {
namespace {

using absl::StatusCode;
using testing::ElementsAre;

// What all programs of a test do, in order: "A: start", "A: pause". A program is named by the
// options of the request that it works on.
class Stage {
 public:
  void Note(const std::string& what) {
    absl::MutexLock lock(&mu_);
    notes_.push_back(what);
  }
  std::vector<std::string> notes() {
    absl::MutexLock lock(&mu_);
    return notes_;
  }
  void Await(const std::string& what) {
    absl::MutexLock lock(&mu_);
    const auto has_it = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return std::ranges::count(notes_, what) > 0;
    };
    mu_.Await(absl::Condition(&has_it));
  }
  // The next piece of the answer to the request of this name.
  void Answer(const std::string& name, FrameKind kind, std::string payload) {
    absl::MutexLock lock(&mu_);
    answers_[name].push_back({.kind = kind, .payload = std::move(payload), .file = UniqueFd()});
  }
  void End(const std::string& name, const absl::Status& status = absl::OkStatus()) {
    Answer(name, FrameKind::kEnd, EncodeStatus(status));
  }
  void Crash(const std::string& name, absl::Status status) {
    absl::MutexLock lock(&mu_);
    crashes_[name] = std::move(status);
  }
  absl::StatusOr<std::optional<Frame>> Take(const std::string& name, absl::Duration timeout) {
    absl::MutexLock lock(&mu_);
    const auto there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return !answers_[name].empty() || crashes_.contains(name);
    };
    if (!mu_.AwaitWithTimeout(absl::Condition(&there), timeout)) return std::nullopt;
    if (const auto crash = crashes_.find(name); crash != crashes_.end()) {
      return std::exchange(crash->second, absl::OkStatus());
    }
    Frame frame = std::move(answers_[name].front());
    answers_[name].pop_front();
    return frame;
  }

 private:
  absl::Mutex mu_;
  std::vector<std::string> notes_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::deque<Frame>> answers_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, absl::Status> crashes_ ABSL_GUARDED_BY(mu_);
};

class FakeProcess final : public ReportProcess {
 public:
  explicit FakeProcess(Stage& stage) : stage_(stage) {}
  absl::Status EnsureStarted(absl::FunctionRef<absl::Status()> /*still_wanted*/) override {
    return absl::OkStatus();
  }
  absl::Status Send(const ReportRequest& request) override {
    name_ = request.options;
    stage_.Note(name_ + ": start");
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<Frame>> Receive(absl::Duration timeout) override {
    return stage_.Take(name_, timeout);
  }
  void RequestCancel() override { stage_.Note(name_ + ": cancel"); }
  void Pause() override { stage_.Note(name_ + ": pause"); }
  void Resume() override { stage_.Note(name_ + ": resume"); }
  void Kill() override { stage_.Note(name_ + ": kill"); }

 private:
  Stage& stage_;
  std::string name_;
};

class TextSink final : public ReportSink {
 public:
  bool AwaitReady(absl::Duration timeout) override {
    absl::MutexLock lock(&mu_);
    return mu_.AwaitWithTimeout(absl::Condition(&ready_), timeout);
  }
  absl::Status Append(std::string_view bytes) override {
    text += bytes;
    return absl::OkStatus();
  }
  void SetReady(bool ready) {
    absl::MutexLock lock(&mu_);
    ready_ = ready;
  }
  std::string text;

 private:
  absl::Mutex mu_;
  bool ready_ ABSL_GUARDED_BY(mu_) = true;
};

// One posted report and how it ended.
struct Report {
  absl::Notification done;
  absl::Status status;
  TextSink sink;
  std::atomic<bool> cancelled{false};
};

class ReportPoolTest : public testing::Test {
 protected:
  void Make(ReportPool::Options options) {
    pool_ = std::make_unique<ReportPool>(std::move(options), clock_,
                                         [this] { return std::make_unique<FakeProcess>(stage_); });
  }
  std::unique_ptr<Report> Post(const std::string& principal, const std::string& name) {
    auto report = std::make_unique<Report>();
    EXPECT_TRUE(pool_->TryPost(principal, [name, r = report.get()](ReportTurn& turn) {
      const auto wanted = [r] {
        return r->cancelled ? absl::CancelledError("gone") : absl::OkStatus();
      };
      r->status = turn.Run({.table = "GetSteps", .options = name, .capture = 0}, wanted, r->sink);
      r->done.Notify();
    }));
    return report;
  }

  Stage stage_;
  FakeClock clock_;
  std::unique_ptr<ReportPool> pool_;
};

TEST_F(ReportPoolTest, AnAnswerComesInPieces) {
  Make({});
  const auto report = Post("uid:1", "A");
  stage_.Answer("A", FrameKind::kData, "ab");
  stage_.Answer("A", FrameKind::kData, "cd");
  stage_.End("A");
  report->done.WaitForNotification();
  EXPECT_THAT(report->status, IsOk());
  EXPECT_EQ(report->sink.text, "abcd");
}

TEST_F(ReportPoolTest, ALongReportIsPausedWhileAnotherUserGoesFirst) {
  Make({});
  const auto slow = Post("uid:1", "A");
  stage_.Await("A: start");
  clock_.Advance(absl::Seconds(1));  // Its slice is over.
  const auto quick = Post("uid:2", "B");
  stage_.End("B");
  quick->done.WaitForNotification();
  EXPECT_THAT(quick->status, IsOk());
  EXPECT_FALSE(slow->done.HasBeenNotified());
  stage_.Await("A: resume");
  stage_.End("A");
  slow->done.WaitForNotification();
  EXPECT_THAT(slow->status, IsOk());
  EXPECT_THAT(stage_.notes(), ElementsAre("A: start", "A: pause", "B: start", "A: resume"));
}

TEST_F(ReportPoolTest, ASlowReaderHoldsNobody) {
  Make({});
  const auto slow = Post("uid:1", "A");
  slow->sink.SetReady(false);
  stage_.Await("A: pause");
  const auto other = Post("uid:2", "B");
  stage_.End("B");
  other->done.WaitForNotification();
  EXPECT_THAT(other->status, IsOk());
  slow->sink.SetReady(true);
  stage_.Await("A: resume");
  stage_.Answer("A", FrameKind::kData, "late");
  stage_.End("A");
  slow->done.WaitForNotification();
  EXPECT_EQ(slow->sink.text, "late");
}

TEST_F(ReportPoolTest, AReportThatTakesTooLongIsRefusedAsAWhole) {
  Make({.max_duration = absl::Seconds(60)});
  const auto report = Post("uid:1", "A");
  stage_.Await("A: start");
  clock_.Advance(absl::Seconds(61));
  stage_.Await("A: cancel");
  stage_.End("A", absl::CancelledError(""));
  report->done.WaitForNotification();
  EXPECT_THAT(report->status, StatusIs(StatusCode::kResourceExhausted));
  EXPECT_EQ(ReasonOf(report->status), "REPORT_TOO_LONG");
}

TEST_F(ReportPoolTest, ACancelledReportThatDoesNotStopIsKilled) {
  Make({});
  const auto report = Post("uid:1", "A");
  stage_.Await("A: start");
  report->cancelled = true;
  stage_.Await("A: cancel");
  clock_.Advance(absl::Seconds(1));  // More than its grace.
  report->done.WaitForNotification();
  EXPECT_THAT(report->status, StatusIs(StatusCode::kCancelled));
  stage_.Await("A: kill");
}

TEST_F(ReportPoolTest, ACancelledReportThatIsPausedIsKilled) {
  Make({});
  const auto report = Post("uid:1", "A");
  report->sink.SetReady(false);
  stage_.Await("A: pause");
  report->cancelled = true;
  report->done.WaitForNotification();
  EXPECT_THAT(report->status, StatusIs(StatusCode::kCancelled));
  stage_.Await("A: kill");
}

TEST_F(ReportPoolTest, ACrashEndsOneReportOnly) {
  Make({});
  const auto crashing = Post("uid:1", "A");
  const auto other = Post("uid:2", "B");
  stage_.End("B");
  stage_.Crash("A", WithReason(absl::InternalError("signal 11"), kCrashed));
  crashing->done.WaitForNotification();
  EXPECT_EQ(ReasonOf(crashing->status), "REPORT_CRASHED");
  other->done.WaitForNotification();
  EXPECT_THAT(other->status, IsOk());
}

TEST_F(ReportPoolTest, AProgramThatBreaksTheProtocolIsKilled) {
  Make({});
  const auto report = Post("uid:1", "A");
  stage_.Answer("A", FrameKind::kRequest, "");
  report->done.WaitForNotification();
  EXPECT_EQ(ReasonOf(report->status), "REPORT_CRASHED");
  stage_.Await("A: kill");
}

TEST_F(ReportPoolTest, WorkThatGivesUpItsTurnLetsOthersRun) {
  Make({});
  absl::Notification given_up;
  absl::Notification may_end;
  ASSERT_TRUE(pool_->TryPost("uid:1", [&](ReportTurn& turn) {
    turn.GiveUp();
    given_up.Notify();
    may_end.WaitForNotification();
  }));
  given_up.WaitForNotification();
  const auto other = Post("uid:2", "B");
  stage_.End("B");
  other->done.WaitForNotification();
  may_end.Notify();
  pool_->Stop();  // The work uses what ends here.
}

TEST_F(ReportPoolTest, StopRunsWhatWaitsAndTakesNothingMore) {
  Make({});
  const auto running = Post("uid:1", "A");
  const auto waiting = Post("uid:2", "B");
  stage_.Await("A: start");
  running->cancelled = waiting->cancelled = true;
  stage_.End("A");
  stage_.End("B");
  pool_->Stop();
  EXPECT_TRUE(running->done.HasBeenNotified());
  EXPECT_TRUE(waiting->done.HasBeenNotified());
  EXPECT_FALSE(pool_->TryPost("uid:3", [](ReportTurn&) {}));
}

}  // namespace
}  // namespace profd::worker
