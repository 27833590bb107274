// The reports of one topic, of the ranks of a group.
#include <map>

#include "cli/base/flags.h"
#include "cli/captures/capture_set.h"
#include "cli/captures/one_run.h"
#include "cli/client/invocation.h"
#include "cli/render/group_reports.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/gpu/kernel_table.h"
#include "daemon/report/ranks/group_reports.h"
#include "daemon/report/reports.h"
#include "tests/cli/cli_fixture.h"
#include "tests/fakes/status_matchers.h"

namespace profd::cli {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

// Two steps; each launches `kernel` once, for `kernel_ns`, on `device`.
absl::Status WriteRank(const std::filesystem::path& directory, const std::string& id, int64_t rank,
                       int64_t kernel_ns, CaptureRecord& record) {
  store::CaptureFileWriter::Options options;
  options.directory = directory;
  record = store::NewRecord(id);
  record.target.pid += rank;
  record.target.metadata = {{"rank", StrCat(rank)}, {"world_size", "2"}};
  ASSIGN_OR_RETURN(const auto writer,
                   store::CaptureFileWriter::Create(record, Clock::Real(), std::move(options)));
  RETURN_IF_ERROR(writer->AddName(1, "cudaLaunchKernel"));
  RETURN_IF_ERROR(writer->AddName(2, "gemm"));
  RETURN_IF_ERROR(writer->AddName(3, StrCat("only_on_", rank)));
  RETURN_IF_ERROR(writer->AddThread({.index = 0, .os_thread = 77, .name = "main"}));
  for (int64_t step = 0; step < 3; ++step) {
    const StepRow mark = {.time_ns = step * 1'000'000, .step = 7 + step};
    RETURN_IF_ERROR(writer->Append(0, mark));
    if (step == 2) break;
    for (const uint32_t name : {2U, 3U}) {
      ApiRow call = {};
      call.start_ns = step * 1'000'000 + 10 * name;
      call.duration_ns = 5;
      call.name = 1;
      call.correlation = static_cast<uint32_t>(10 * step) + name;
      RETURN_IF_ERROR(writer->Append(0, call));
      GpuRow kernel = {};
      kernel.start_ns = step * 1'000'000 + 200'000 * name;
      kernel.duration_ns = name == 2 ? kernel_ns : 1'000;
      kernel.kind = GpuRowKind::kKernel;
      kernel.device = static_cast<uint16_t>(rank);
      kernel.name = name;
      kernel.correlation = call.correlation;
      RETURN_IF_ERROR(writer->Append(kernel));
    }
  }
  record = store::FinishedRecord(
      record, {.start_ns = 0, .end_ns = 2'000'000, .first_step = 7, .end_step = 9});
  record.gpu = {.outcome = GpuOutcome::kRecorded};
  return writer->Finish(record, 0);
}

class OverRanksCommandTest : public CliTest {
 protected:
  OverRanksCommandTest() {
    for (int64_t rank = 0; rank < 2; ++rank) {
      CaptureRecord record;
      const std::string id = TestId(static_cast<int>(rank) + 1);
      const absl::Status written = WriteRank(folder_.path(), id, rank, (rank + 1) * 10'000, record);
      EXPECT_TRUE(written.ok()) << written;
      files_.push_back(Path(id + ".profd"));
    }
  }
  std::vector<std::string> Words(const std::string& command,
                                 const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> words = {command, files_[0], files_[1], "--group"};
    words.insert(words.end(), flags.begin(), flags.end());
    return words;
  }
  static nlohmann::json RowOf(const nlohmann::json& table, const std::string& name) {
    for (const nlohmann::json& row : table) {
      if (row["name"] == name) return row;
    }
    ADD_FAILURE() << "no row " << name << " in " << table;
    return {};
  }

  std::vector<std::string> files_;
};

TEST_F(OverRanksCommandTest, KernelsAreComparedByTheirTotal) {
  const nlohmann::json table = RunJson(Words("kernels"));
  EXPECT_EQ(table["figure"], "total_ns");
  EXPECT_THAT(table["members"], SizeIs(2));
  const nlohmann::json gemm = RowOf(table["rows"], "gemm");
  EXPECT_EQ(gemm["min_over_ranks"], 20'000);
  EXPECT_EQ(gemm["median_over_ranks"], 30'000);
  EXPECT_EQ(gemm["max_over_ranks"], 40'000);
  EXPECT_EQ(gemm["rank_count"], 2);
  EXPECT_EQ(gemm["count"], 4);
  EXPECT_EQ(gemm["total_ns"], 60'000);
  const nlohmann::json other = RowOf(table["rows"], "only_on_1");
  EXPECT_EQ(other["rank_count"], 1);
  EXPECT_EQ(other["min_over_ranks"], 0) << "the other rank did not run it";
  ASSERT_THAT(table["ranks"], SizeIs(2));
  EXPECT_EQ(table["ranks"][1]["total_ns"], 42'000);
}

TEST_F(OverRanksCommandTest, TheTableNamesTheFigureAndTheRank) {
  const RunResult result = Run(Words("kernels"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("2 captures"), HasSubstr("Total median"),
                                ContainsRegex("gemm +20.000us +30.000us +40.000us +"),
                                ContainsRegex("Ranks\nRank +GPU busy")));
  EXPECT_THAT(Run(Words("kernels", {"--sort", "mean"})).out, HasSubstr("Mean max"));
}

TEST_F(OverRanksCommandTest, EachRankHasItsRows) {
  const nlohmann::json table = RunJson(Words("kernels", {"--group-by", "rank"}));
  EXPECT_EQ(table["figure"], "");
  ASSERT_THAT(table["rows"], SizeIs(4));
  EXPECT_EQ(table["rows"][0]["rank"], table["ranks"][0]["rank"]);
  // Of one capture, too.
  EXPECT_THAT(RunJson({"kernels", files_[0], "--group-by", "rank"})["rows"], SizeIs(2));
}

TEST_F(OverRanksCommandTest, RowsAreSortedAndLimitedAfterwards) {
  const auto first_of = [&](const std::vector<std::string>& flags) {
    const nlohmann::json table = RunJson(Words("kernels", flags));
    EXPECT_EQ(table["row_count"], 3);
    EXPECT_THAT(table["rows"], SizeIs(1));
    return table["rows"][0]["name"].get<std::string>();
  };
  EXPECT_EQ(first_of({"--limit", "1"}), "gemm");
  EXPECT_EQ(first_of({"--limit", "1", "--sort", "max_over_ranks"}), "gemm");
  EXPECT_EQ(first_of({"--limit", "1", "--sort", "name"}), "gemm");
  EXPECT_EQ(first_of({"--limit", "1", "--sort", "rank_count"}), "gemm");
  EXPECT_THAT(Run(Words("kernels", {"--csv"})).out,
              StartsWith("display_name,name,min_over_ranks,median_over_ranks,max_over_ranks,"
                         "max_rank,rank_count,total_ns,"));
}

TEST_F(OverRanksCommandTest, TheGpusOfRanksAreComparedStepByStep) {
  const nlohmann::json idle = RunJson(Words("idle"));
  EXPECT_EQ(idle["figure"], "idle_ns");
  ASSERT_THAT(idle["rows"], SizeIs(3)) << "the whole capture and two steps";
  EXPECT_EQ(idle["rows"][1]["step"], 7);
  EXPECT_EQ(idle["rows"][1]["device"], nullptr) << "GPU 0 of rank 0, GPU 1 of rank 1";
  EXPECT_EQ(idle["rows"][1]["rank_count"], 2);
  const nlohmann::json time = RunJson(Words("time", {"--sort", "busy"}));
  EXPECT_EQ(time["figure"], "busy_ns");
  ASSERT_THAT(time["steps"], SizeIs(2));
  EXPECT_EQ(time["steps"][0]["max_over_ranks"], 21'000);
  EXPECT_THAT(time["ranks"], SizeIs(2));
}

TEST_F(OverRanksCommandTest, EveryReportOfOneTopicTakesAGroup) {
  for (const std::string command :
       {"kernels", "copies", "syncs", "idle", "compile", "modules", "time", "memory"}) {
    for (const std::vector<std::string>& flags :
         {std::vector<std::string>{}, {"--group-by", "rank"}, {"--csv"}}) {
      const RunResult result = Run(Words(command, flags));
      EXPECT_EQ(result.exit_code, 0) << command << ": " << result.err;
      EXPECT_FALSE(result.out.empty()) << command;
    }
    RunJson(Words(command));
  }
}

TEST_F(OverRanksCommandTest, WhatIsOfOneCaptureIsRefused) {
  EXPECT_EQ(Run(Words("memory", {"--device", "cuda:0"})).exit_code, 2);
  EXPECT_EQ(Run(Words("memory", {"--max-points", "9"})).exit_code, 2);
  EXPECT_EQ(Run(Words("kernels", {"--json", "--csv"})).exit_code, 2);
  EXPECT_EQ(Run(Words("kernels", {"--group-by", "step"})).exit_code, 2);
  EXPECT_EQ(Run(Words("kernels", {"--group-by", "rank", "--sort", "max_rank"})).exit_code, 2);
  EXPECT_EQ(Run({"kernels", files_[0], "--sort", "max_rank"}).exit_code, 2);
}

TEST_F(OverRanksCommandTest, RanksAreAskedForTheirWholeTables) {
  report::KernelTable kernels;
  kernels.rows = {{.name = "gemm", .total_ns = 5}};
  profd_.Set(report::ToReport(kernels));
  for (const int number : {1, 2}) {
    profd_.captures[TestId(number)] = ACapture(TestId(number));
    profd_.captures[TestId(number)].set_group("groups/" + TestId(7000));
  }
  const std::string group = "groups/" + TestId(7000);
  EXPECT_EQ(RunJson({"kernels", group, "--sort", "mean", "--limit", "3"})["rows"][0]["rank_count"],
            2);
  const auto calls = profd_.report_calls();
  ASSERT_THAT(calls, SizeIs(2));
  const std::map<std::string, std::string> options(calls[0].options().begin(),
                                                   calls[0].options().end());
  EXPECT_EQ(options, (std::map<std::string, std::string>{{"sort", "mean"}}))
      << "what is a small row of one rank may be a large one of all";
}

// ---- the verdict on stragglers ----

TEST_F(OverRanksCommandTest, ARankWithAHighScoreAndLittleMoreWorkIsNamedAndIsNoStraggler) {
  CaptureRecord third;
  const absl::Status written = WriteRank(folder_.path(), TestId(3), 2, 10'000, third);
  ASSERT_TRUE(written.ok()) << written;
  const std::vector<std::string> words = {"--group", files_[0], files_[1],
                                          Path(TestId(3) + ".profd")};
  const std::vector<Flag> flags = {ForceGroupFlag()};
  const absl::StatusOr<ParsedFlags> parsed = ParseFlags(flags, words);
  ASSERT_THAT(parsed, IsOk());
  Invocation invocation(*parsed);
  const absl::StatusOr<CaptureSet> set = CaptureSet::Open(invocation);
  ASSERT_THAT(set, IsOk());
  report::GroupSteps steps;
  steps.verdict = report::StragglerVerdict::kNone;
  steps.ranking = {{.member = 0, .duration_ns = 10'000'000, .score = 0.2},
                   {.member = 2, .duration_ns = 10'000'000, .more_own_ns = 90'000, .score = 5.25},
                   {.member = 1, .duration_ns = 10'000'000, .score = -0.5}};
  EXPECT_EQ(RenderStragglerVerdict(*set, steps),
            "No straggler: rank 2 scores 5.2 (above 3.5), but its additional own work is small or "
            "in few steps (90.000us of 10.000ms per step).\n");
  steps.ranking[1].score = report::kStragglerScore;
  EXPECT_EQ(RenderStragglerVerdict(*set, steps), "No straggler (score above 3.5).\n");
}

}  // namespace
}  // namespace profd::cli
