// SealPool with the real profd-report, and with programs that the test plays.
#include "daemon/worker/seal_pool.h"

#include <cstdlib>
#include <deque>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/catalog_summaries.h"
#include "daemon/report/findings/quality.h"
#include "daemon/store/file/reader.h"
#include "daemon/store/file/writer.h"
#include "daemon/worker/seal_answers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/status_matchers.h"
#include "tests/store/store_fixture.h"

namespace profd::worker {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

class SealPoolTest : public store::StoreFixture {
 protected:
  void SetUp() override {
    StoreFixture::SetUp();
    file_ = File(StoreCapture(1).id, ".profd");
  }
  std::unique_ptr<SealPool> MakePool(const std::filesystem::path& program) {
    return std::make_unique<SealPool>(SealPool::Options(), Clock::Real(), [program] {
      return std::make_unique<SpawnedProcess>(
          SpawnOptions{.program = program, .yields_to_training = false}, Clock::Real());
    });
  }
  std::unique_ptr<SealPool> MakePool() {
    return MakePool(std::filesystem::path(std::getenv("PROFD_BUILD_DIR")) / "bin/profd-report");
  }

  std::filesystem::path file_;
};

TEST_F(SealPoolTest, AnswersWhatTheAnalysisAnswers) {
  const auto pool = MakePool();
  const auto reader = store::CaptureReader::Open(file_);
  ASSERT_THAT(reader, IsOk());
  const auto checks = pool->CheckEvents(file_);
  ASSERT_THAT(checks, IsOk());
  const auto expected = report::CheckEventsForSeal(**reader);
  ASSERT_THAT(expected, IsOk());
  EXPECT_EQ(checks->range_count, 2);
  EXPECT_EQ(EncodeEventChecks(*checks), EncodeEventChecks(*expected));

  for (const bool is_urgent : {false, true}) {
    const store::SummaryRequest request = {.devices = true, .ranks = true, .is_urgent = is_urgent};
    const auto summaries = pool->Summarize(file_, request);
    ASSERT_THAT(summaries, IsOk());
    ASSERT_THAT(summaries->ops, IsOk());
    ASSERT_EQ(summaries->ops->size(), 1u);
    EXPECT_EQ((*summaries->ops)[0].name, "op");
    EXPECT_EQ((*summaries->ops)[0].calls, 2);
    EXPECT_EQ(EncodeEventSummaries(*summaries),
              EncodeEventSummaries(report::SummarizeForCatalog(**reader, request)));
  }
  const auto only_ops = pool->Summarize(file_, {});
  ASSERT_THAT(only_ops, IsOk());
  EXPECT_THAT(only_ops->ranks, IsOkAndHolds(""));
}

TEST_F(SealPoolTest, ChecksAFileThatIsBeingSealed) {
  const auto pool = MakePool();
  int checked = 0;
  auto made = store::CaptureFileWriter::Create(
      store::NewRecord(store::IdOf(2)), clock_,
      {.directory = folder_.path(), .check_events = [&](const std::filesystem::path& file) {
         EXPECT_EQ(file.extension(), ".part");
         auto checks = pool->CheckEvents(file);
         EXPECT_THAT(checks, IsOk());
         if (checks.ok()) checked = static_cast<int>(checks->range_count);
         return checks;
       }});
  ASSERT_THAT(made, IsOk());
  ASSERT_THAT(AppendTwoSteps(**made), IsOk());
  CaptureRecord record = store::FinishedRecord(store::NewRecord(store::IdOf(2)), TwoSteps());
  ASSERT_THAT((*made)->Finish(record, 0), IsOk());
  EXPECT_EQ(checked, 2);
  EXPECT_EQ(record.error_message, "");
  EXPECT_THAT(store::CaptureReader::Open(folder_ / StrCat(record.id, ".profd")), IsOk());
}

TEST_F(SealPoolTest, AMissingProgramIsNamedToTheOperatorOnly) {
  const auto pool = MakePool("/nonexistent/profd-report");
  const absl::Status status = pool->CheckEvents(file_).status();
  EXPECT_THAT(status, StatusIs(StatusCode::kUnavailable, HasSubstr("/nonexistent/profd-report")));
  EXPECT_EQ(ReasonOf(status), "") << "so that the record does not quote it";
}

TEST_F(SealPoolTest, DamagedAndMissingFilesAreErrorsAndTheNextSealIsMade) {
  const auto pool = MakePool();
  const std::filesystem::path damaged = folder_ / "damaged.profd";
  std::ofstream(damaged) << std::string(100'000, 'x');
  EXPECT_THAT(pool->CheckEvents(damaged), StatusIs(StatusCode::kDataLoss));
  EXPECT_THAT(pool->Summarize(damaged, {}), StatusIs(StatusCode::kDataLoss));
  EXPECT_THAT(pool->Summarize(folder_ / "none.profd", {}), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(pool->Summarize(file_, {}), IsOk());
}

// ---- programs that the test plays ----

// What all programs of a test answer, by request.
class Script {
 public:
  void Answer(std::string_view table, std::string answer) {
    absl::MutexLock lock(&mu_);
    answers_[std::string(table)].push_back(std::move(answer));
  }
  void Fail(std::string_view table, absl::Status status) {
    absl::MutexLock lock(&mu_);
    answers_[std::string(table)].push_back(std::move(status));
  }
  void Begin() {
    absl::MutexLock lock(&mu_);
    ++begun_;
  }
  void AwaitBegun(int count) {
    absl::MutexLock lock(&mu_);
    const auto has_begun = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return begun_ >= count; };
    mu_.Await(absl::Condition(&has_begun));
  }
  // nullopt: none came within `timeout`.
  std::optional<absl::StatusOr<std::string>> Take(const std::string& table,
                                                  absl::Duration timeout) {
    absl::MutexLock lock(&mu_);
    auto& answers = answers_[table];
    const auto has_answer = [&answers] { return !answers.empty(); };
    if (!mu_.AwaitWithTimeout(absl::Condition(&has_answer), timeout)) return std::nullopt;
    absl::StatusOr<std::string> answer = std::move(answers.front());
    answers.pop_front();
    return answer;
  }

 private:
  absl::Mutex mu_;
  std::map<std::string, std::deque<absl::StatusOr<std::string>>> answers_ ABSL_GUARDED_BY(mu_);
  int begun_ ABSL_GUARDED_BY(mu_) = 0;
};

class ScriptedProcess final : public ReportProcess {
 public:
  explicit ScriptedProcess(Script& script) : script_(script) {}
  absl::Status EnsureStarted(absl::FunctionRef<absl::Status()> /*still_wanted*/) override {
    return absl::OkStatus();
  }
  absl::Status Send(const ReportRequest& request) override {
    table_ = request.table;
    ended_ = false;
    script_.Begin();
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<Frame>> Receive(absl::Duration timeout) override {
    if (std::exchange(ended_, false))
      return FrameOf(FrameKind::kEnd, EncodeStatus(absl::OkStatus()));
    auto answer = script_.Take(table_, timeout);
    if (!answer.has_value()) return std::nullopt;
    if (!answer->ok()) return answer->status();
    ended_ = true;
    return FrameOf(FrameKind::kData, **std::move(answer));
  }
  void RequestCancel() override {}
  void Pause() override {}
  void Resume() override {}
  void Kill() override {}

 private:
  static std::optional<Frame> FrameOf(FrameKind kind, std::string payload) {
    return Frame{.kind = kind, .payload = std::move(payload), .file = UniqueFd()};
  }

  Script& script_;
  std::string table_;
  bool ended_ = false;
};

class ScriptedSealTest : public SealPoolTest {
 protected:
  Script script_;
  SealPool pool_{SealPool::Options(), Clock::Real(),
                 [this] { return std::make_unique<ScriptedProcess>(script_); }};
};

absl::Status Killed() { return WithReason(absl::UnavailableError("killed"), kKilled); }

TEST_F(ScriptedSealTest, WhenProfdEndsASealMayStillBeMadeForAWhile) {
  pool_.CancelAfter(absl::Hours(1));
  script_.Answer(kCheckEvents, EncodeEventChecks({}));
  EXPECT_THAT(pool_.CheckEvents(file_), IsOk());
  pool_.CancelAfter(absl::Milliseconds(20));
  EXPECT_THAT(pool_.CheckEvents(file_), StatusIs(StatusCode::kCancelled)) << "it never answers";
}

TEST_F(ScriptedSealTest, AKilledProgramIsStartedAgainOnce) {
  script_.Fail(kCheckEvents, Killed());
  script_.Answer(kCheckEvents, EncodeEventChecks({.launch_count = 7}));
  const auto checks = pool_.CheckEvents(file_);
  ASSERT_THAT(checks, IsOk());
  EXPECT_EQ(checks->launch_count, 7);

  script_.Fail(kCheckEvents, Killed());
  script_.Fail(kCheckEvents, Killed());
  const absl::Status status = pool_.CheckEvents(file_).status();
  EXPECT_EQ(ReasonOf(status), kKilled);
}

TEST_F(ScriptedSealTest, ACrashIsReturnedAtOnce) {
  script_.Fail(kSummarizeEvents, WithReason(absl::InternalError("crashed"), kCrashed));
  EXPECT_EQ(ReasonOf(pool_.Summarize(file_, {}).status()), kCrashed);
}

TEST_F(ScriptedSealTest, WrongAnswersAreErrorsWithoutAReason) {
  script_.Answer(kCheckEvents, "garbage");
  EXPECT_THAT(pool_.CheckEvents(file_), StatusIs(StatusCode::kInternal, HasSubstr("wrongly")));
  script_.Answer(kSummarizeEvents, std::string(kMaxSealAnswerBytes + 1, 'x'));
  EXPECT_THAT(pool_.Summarize(file_, {}),
              StatusIs(StatusCode::kInternal, HasSubstr("too many bytes")));
  script_.Fail(kCheckEvents, WithReason(absl::InternalError("?"), "MADE_UP"));
  const absl::Status made_up = pool_.CheckEvents(file_).status();
  EXPECT_THAT(made_up, StatusIs(StatusCode::kInternal));
  EXPECT_EQ(ReasonOf(made_up), "");
}

TEST_F(ScriptedSealTest, ARecordingIsSealedWhileAnImportTakesForever) {
  absl::Status import;
  std::thread importing([&] { import = pool_.Summarize(file_, {}).status(); });
  script_.AwaitBegun(1);
  std::thread second([&] { (void)pool_.Summarize(file_, {}); });
  script_.Answer(kCheckEvents, EncodeEventChecks({.launch_count = 7}));
  EXPECT_THAT(pool_.CheckEvents(file_), IsOk());
  // When profd ends, the others do not keep it.
  pool_.CancelAfter(absl::ZeroDuration());
  importing.join();
  second.join();
  EXPECT_THAT(import, StatusIs(StatusCode::kCancelled));
  EXPECT_THAT(pool_.CheckEvents(file_), StatusIs(StatusCode::kCancelled));
}

}  // namespace
}  // namespace profd::worker
