// `profctl diff` of two captures of a fake profd, and of files.
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "daemon/base/clock.h"
#include "daemon/base/status_macros.h"
#include "daemon/report/gpu/kernel_table.h"
#include "daemon/report/ops/profile.h"
#include "daemon/report/time/time_report.h"
#include "daemon/store/file/writer.h"
#include "tests/cli/cli_fixture.h"

namespace profd::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kUsage = 2;
constexpr int kCondition = 3;
constexpr int kPartial = 4;

// A file of eight steps, each in an operator of as long.
absl::StatusOr<std::string> WriteSteps(const std::filesystem::path& folder, const std::string& id,
                                       int64_t step_ns) {
  constexpr int64_t kSteps = 8;
  CaptureRecord record = store::NewRecord(id);
  store::CaptureFileWriter::Options options;
  options.directory = folder;
  ASSIGN_OR_RETURN(const auto writer,
                   store::CaptureFileWriter::Create(record, Clock::Real(), std::move(options)));
  RETURN_IF_ERROR(writer->AddName(1, "aten::mm"));
  RETURN_IF_ERROR(writer->AddThread({.index = 0, .os_thread = 77, .name = "main"}));
  for (int64_t step = 0; step <= kSteps; ++step) {
    const StepRow mark = {.time_ns = step * step_ns, .step = step};
    RETURN_IF_ERROR(writer->Append(0, mark));
    if (step == kSteps) break;
    const RangeRow range = {.start_ns = step * step_ns,
                            .duration_ns = step_ns - 1,
                            .name = 1,
                            .depth = 0,
                            .category = 1,
                            .flags = 0};
    RETURN_IF_ERROR(writer->Append(0, std::span(&range, 1)));
  }
  record = store::FinishedRecord(
      record, {.start_ns = 0, .end_ns = kSteps * step_ns, .first_step = 0, .end_step = kSteps});
  RETURN_IF_ERROR(writer->Finish(record, 0));
  return (folder / (id + ".profd")).string();
}

class DiffTest : public CliTest {
 protected:
  DiffTest() {
    for (const int id : {1, 2}) profd_.captures[TestId(id)] = ACapture(TestId(id));
    report::OpProfile ops = {.self_cpu_total_ns = 5};
    ops.rows.resize(3);
    const char* const names[] = {"aten::mm", "aten::add", "aten::relu"};
    for (size_t i = 0; i < ops.rows.size(); ++i) {
      ops.rows[i].name = names[i];
      ops.rows[i].calls = 5;
      ops.rows[i].self_cpu_ns = 1000 * static_cast<int64_t>(i + 1);
    }
    profd_.Set(report::ToReport(ops));
    SetSteps(profd_, 5);
  }
  // Steps of a millisecond.
  static void SetSteps(FakeProfd& profd, int64_t count) {
    report::TimeReport time;
    for (int64_t i = 0; i < count; ++i) {
      time.steps.push_back({.index = i, .duration_ns = 1'000'000 + i});
      time.steps.back().host.operators_ns = 1'000'000 + i;
    }
    profd.Set(report::ToReport(time));
  }
  // The file of a capture with steps of that length.
  std::string Written(int id, int64_t step_ns) {
    const absl::StatusOr<std::string> file = WriteSteps(folder_.path(), TestId(id), step_ns);
    EXPECT_TRUE(file.ok()) << file.status();
    return file.value_or("");
  }
  const std::string before_ = TestId(1);
  const std::string after_ = TestId(2);
};

TEST_F(DiffTest, EqualCapturesAreTheSame) {
  const RunResult result = Run({"diff", before_, after_, "--fail-above", "0"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("Before: Capture " + before_), HasSubstr("After:  Capture " + after_),
                    HasSubstr("Steps take as long as before, within noise: 1 ms, and 1 ms before"),
                    HasSubstr("Parts of a step"), HasSubstr("Operators per step"),
                    HasSubstr("aten::mm"), Not(HasSubstr("Kernels")), Not(HasSubstr("Mostly"))));
}

TEST_F(DiffTest, JsonHasWhatPeopleRead) {
  nlohmann::json diff = RunJson({"diff", before_, after_});
  EXPECT_EQ(diff["before"], before_);
  EXPECT_EQ(diff["after"], after_);
  EXPECT_EQ(diff["verdict"], "same");
  EXPECT_EQ(diff["before_steps"], 5);
  EXPECT_EQ(diff["operators"].size(), 3U);
  EXPECT_EQ(diff["operators"][0]["change_ns"], 0);
  EXPECT_EQ(diff["parts"][0]["name"], "operators");
  EXPECT_TRUE(diff["facts"].empty());
  const nlohmann::json schema = nlohmann::json::parse(Run({"schema", "diff"}).out);
  for (const auto& [key, value] : diff.items())
    EXPECT_TRUE(schema["properties"].contains(key)) << key;
  for (const auto& key : schema["required"]) EXPECT_TRUE(diff.contains(key)) << key;
}

TEST_F(DiffTest, TablesAreSortedLimitedAndPrintedAsCsv) {
  EXPECT_EQ(RunJson({"diff", before_, after_, "--limit", "1"})["operators"].size(), 1U);
  EXPECT_EQ(RunJson({"diff", before_, after_, "--sort", "name"})["operators"][0]["name"],
            "aten::add");
  const RunResult text = Run({"diff", before_, after_, "--limit", "1"});
  EXPECT_THAT(text.out, HasSubstr("(2 more rows: --limit 0)"));
  EXPECT_THAT(Run({"diff", before_, after_, "--csv"}).out,
              HasSubstr("name,before_calls,after_calls,before_ns,after_ns,change_ns,why\n"));
  EXPECT_THAT(Run({"explain", "change_ns", "--table", "diff"}).out, HasSubstr("after - before"));
}

TEST_F(DiffTest, TooFewStepsToTellAreAnAnswerOfTheirOwn) {
  SetSteps(profd_, 3);
  const RunResult result = Run({"diff", before_, after_, "--fail-above", "3"});
  EXPECT_EQ(result.exit_code, kPartial);
  EXPECT_THAT(result.out, HasSubstr("3 before and 3 after are too few"));
  EXPECT_EQ(Run({"diff", before_, after_}).exit_code, 0);
  EXPECT_TRUE(RunJson({"diff", before_, after_})["step_change_low"].is_null());
}

TEST_F(DiffTest, WhatIsCertainlySlowerFailsAndANumberThatIsNoneIsRefused) {
  const std::string fast = Written(11, 1'000'000);
  const std::string slow = Written(12, 1'100'000);
  EXPECT_EQ(Run({"diff", fast, slow, "--fail-above", "5"}).exit_code, kCondition);
  EXPECT_EQ(Run({"diff", fast, slow, "--fail-above", "15%"}).exit_code, 0);
  EXPECT_EQ(Run({"diff", slow, fast, "--fail-above", "5"}).exit_code, 0);
  for (const std::string percent : {"-1", "many", "", "nan"}) {
    EXPECT_EQ(Run({"diff", fast, slow, "--fail-above", percent}).exit_code, kUsage) << percent;
  }
}

TEST_F(DiffTest, SeveralCapturesShowWhatRunsDifferBy) {
  const std::string before = Written(11, 1'000'000) + "," + Written(12, 1'200'000);
  const std::string after =
      Written(13, 1'250'000) + "," + Written(14, 1'050'000) + "," + Written(15, 1'150'000);
  const RunResult result = Run({"diff", before, after, "--fail-above", "0"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("Before: Capture " + TestId(12)),
                                HasSubstr("After:  Capture " + TestId(15)),
                                HasSubstr("2 captures before, 3 after)")));
  const nlohmann::json diff = RunJson({"diff", before, after});
  EXPECT_EQ(diff["before"], TestId(11) + "," + TestId(12));
  EXPECT_EQ(diff["after_captures"], 3);
  EXPECT_EQ(diff["before_step_ns"], 1'100'000);
  EXPECT_EQ(Run({"diff", TestId(1) + "," + TestId(2), after}).exit_code, 0);
}

TEST_F(DiffTest, ACommaMayBePartOfAFile) {
  const std::filesystem::path odd = folder_.path() / "lr=1,wd=2.profd";
  std::filesystem::rename(Written(11, 1'000'000), odd);
  const std::string other = Written(12, 1'000'000);
  EXPECT_EQ(RunJson({"diff", odd.string(), other})["before"], TestId(11));
}

TEST_F(DiffTest, OfACaptureThatLostMuchOperatorsAreNotCompared) {
  v1::Capture& lossy = profd_.captures[after_];
  lossy.set_dropped_event_count(9 * lossy.event_count());
  const RunResult result = Run({"diff", before_, after_});
  EXPECT_THAT(result.out, AllOf(HasSubstr("capture " + after_ + " lost 90% of its events."),
                                Not(HasSubstr("aten::mm"))));
  const nlohmann::json diff = RunJson({"diff", before_, after_});
  EXPECT_THAT(diff["not_compared"].get<std::string>(), HasSubstr("lost 90%"));
  EXPECT_TRUE(diff["operators"].empty());
}

TEST_F(DiffTest, WrongWordsSayWhatIsWrong) {
  const std::string twice = before_ + "," + before_;
  EXPECT_EQ(Run({"diff", twice, after_}).exit_code, kUsage);
  EXPECT_THAT(Run({"diff", twice, after_}).err, HasSubstr("is there twice"));
  EXPECT_THAT(Run({"diff", before_ + ",", after_}).err, HasSubstr("a comma too many"));
  EXPECT_EQ(Run({"diff", before_}).exit_code, kUsage);
  EXPECT_EQ(Run({"diff", before_, after_, "--csv", "--json"}).exit_code, kUsage);
  const RunResult sorted = Run({"diff", before_, after_, "--sort", "colour"});
  EXPECT_EQ(sorted.exit_code, kUsage);
  EXPECT_THAT(sorted.err, HasSubstr("change"));
  EXPECT_THAT(Run({"diff", before_, TestId(9)}).err, HasSubstr(TestId(9)));
}

}  // namespace
}  // namespace profd::cli
