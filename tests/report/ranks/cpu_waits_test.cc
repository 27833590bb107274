// Waits for a CPU in the comparison of ranks: from a capture's record to the verdict.
#include "daemon/report/ranks/cpu_waits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "daemon/report/findings/rank_excess.h"
#include "daemon/report/ranks/collective_match.h"
#include "daemon/report/ranks/group_reports.h"
#include "daemon/report/ranks/rank_summary.h"
#include "daemon/store/file/column_codec.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::report {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

// ---- of one capture ----

// 200 ms in which thread 1 waited for 40 ms, and thread 2 for 10 ms.
CpuRecord Waited() {
  return {.watched_ns = 200 * kMs,
          .thread_count = 2,
          .ran_ns = 150 * kMs,
          .waited_ns = 50 * kMs,
          .threads = {{.os_thread = 1, .ran_ns = 90 * kMs, .waited_ns = 40 * kMs},
                      {.os_thread = 2, .ran_ns = 60 * kMs, .waited_ns = 10 * kMs}}};
}
int64_t InStep(const CpuRecord& cpu, const std::vector<int64_t>& threads, int64_t start_ns,
               int64_t duration_ns) {
  return StepCpuWaits(cpu, threads).In(start_ns, duration_ns);
}

TEST(StepCpuWaitsTest, WithoutSamplesTheWaitIsSpreadEvenly) {
  EXPECT_EQ(InStep(Waited(), {1}, 0, 20 * kMs), 4 * kMs);
  EXPECT_EQ(InStep(Waited(), {1, 2}, 0, 20 * kMs), 5 * kMs);
  // Unknown step thread: the one that ran longest.
  EXPECT_EQ(InStep(Waited(), {}, 0, 20 * kMs), 4 * kMs);
}

TEST(StepCpuWaitsTest, OnAverageTheWaitIsSpreadEvenlyWhateverTheSamplesSay) {
  CpuRecord cpu = Waited();
  cpu.samples = {{.time_ns = 0}, {.time_ns = 200 * kMs, .waited_ns = 50 * kMs}};
  const StepCpuWaits waits(cpu, {});
  EXPECT_EQ(waits.OnAverage(20 * kMs), 4 * kMs);
  EXPECT_EQ(waits.OnAverage(kMost), 40 * kMs);
  EXPECT_EQ(waits.OnAverage(-1), -1);
  EXPECT_EQ(StepCpuWaits(CpuRecord(), {}).OnAverage(20 * kMs), -1);
}

TEST(StepCpuWaitsTest, SamplesSayInWhichStepsThreadsWaited) {
  CpuRecord cpu = Waited();
  cpu.samples = {{.time_ns = -kMs},
                 {.time_ns = 100 * kMs},
                 {.time_ns = 120 * kMs, .waited_ns = 50 * kMs},
                 {.time_ns = 210 * kMs, .waited_ns = 50 * kMs}};
  EXPECT_EQ(InStep(cpu, {1}, 0, 20 * kMs), 0);
  EXPECT_EQ(InStep(cpu, {1}, 100 * kMs, 20 * kMs), 20 * kMs) << "no longer than the step";
  EXPECT_EQ(InStep(cpu, {1}, 110 * kMs, 40 * kMs), 20 * kMs) << "half of the time between samples";
  // Beyond the samples.
  EXPECT_EQ(InStep(cpu, {1}, 200 * kMs, 20 * kMs), 4 * kMs);
}

TEST(StepCpuWaitsTest, WhatWasNotMeasuredIsNotZero) {
  EXPECT_EQ(InStep({}, {1}, 0, 20 * kMs), -1);
  EXPECT_EQ(InStep(Waited(), {3}, 0, 20 * kMs), -1) << "the step thread is not among them";
  CpuRecord cpu = Waited();
  cpu.watched_ns = kShortestCpuWatchNs - 1;
  EXPECT_EQ(InStep(cpu, {1}, 0, 20 * kMs), -1);
  cpu = Waited();
  cpu.unwatched_ran_ns = cpu.ran_ns;
  EXPECT_EQ(InStep(cpu, {1}, 0, 20 * kMs), -1) << "threads were not watched";
}

TEST(StepCpuWaitsTest, AnyNumbersAreSafe) {
  CpuRecord cpu = Waited();
  for (ThreadCpuRecord& thread : cpu.threads) thread.waited_ns = kMost;
  cpu.samples = {{.time_ns = std::numeric_limits<int64_t>::min(), .waited_ns = kMost},
                 {.time_ns = 0, .waited_ns = -kMost},
                 {.time_ns = kMost, .waited_ns = kMost}};
  for (const int64_t start_ns : {std::numeric_limits<int64_t>::min(), int64_t{0}, kMost}) {
    for (const int64_t duration_ns : {int64_t{0}, 20 * kMs, kMost}) {
      const int64_t waited_ns = InStep(cpu, {1, 2}, start_ns, duration_ns);
      EXPECT_GE(waited_ns, 0);
      EXPECT_LE(waited_ns, duration_ns);
    }
  }
  EXPECT_EQ(InStep(cpu, {1}, 0, -5), -1);
  for (ThreadCpuRecord& thread : cpu.threads) thread.waited_ns = -kMost;
  EXPECT_EQ(InStep(cpu, {1}, 0, 20 * kMs), 0);
}

TEST(StepCpuWaitsTest, TheThreadsOfTheStepsCountAndOthersDoNot) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(1, "main");
  const uint32_t backward = reader.AddThread(2, "backward");
  reader.AddThread(3, "loader");
  reader.Range(main, "forward", 0, 50 * kMs)
      .Range(backward, "autograd::engine::evaluate_function: AddmmBackward0", 50 * kMs, 90 * kMs)
      .Step(0, 0, 100 * kMs)
      .StepThread(main);
  CpuRecord& cpu = reader.mutable_record().cpu = Waited();
  cpu.threads.push_back({.os_thread = 3, .ran_ns = kMs, .waited_ns = 100 * kMs});
  absl::StatusOr<CollectiveTable> table = SummarizeCollectives(reader, 0);
  ASSERT_THAT(table, IsOk());
  ASSERT_EQ(table->steps.size(), 1u);
  EXPECT_EQ(table->steps[0].cpu_wait_ns, 25 * kMs);
  cpu = {};
  table = SummarizeCollectives(reader, 0);
  ASSERT_THAT(table, IsOk());
  EXPECT_EQ(table->steps[0].cpu_wait_ns, -1);
}

TEST(StepCpuWaitsTest, TheHostOfAGpuIsLateByNoMoreThanTheGpuIdles) {
  const auto wait_in_step = [](int64_t busy_ns, GpuOutcome outcome) {
    FakeCaptureReader reader;
    const uint32_t main = reader.AddThread(1, "main");
    reader.Range(main, "forward", 0, 100 * kMs).Step(0, 0, 100 * kMs).StepThread(main);
    if (busy_ns > 0) reader.Kernel("gemm", 0, busy_ns, 1);
    reader.mutable_record().cpu = Waited();
    reader.mutable_record().gpu.outcome = outcome;
    const absl::StatusOr<CollectiveTable> table = SummarizeCollectives(reader, 0);
    EXPECT_THAT(table, IsOk());
    return table.ok() && table->steps.size() == 1 ? table->steps[0].cpu_wait_ns : -2;
  };
  EXPECT_EQ(wait_in_step(50 * kMs, GpuOutcome::kRecorded), 20 * kMs);
  EXPECT_EQ(wait_in_step(95 * kMs, GpuOutcome::kRecorded), 5 * kMs);
  EXPECT_EQ(wait_in_step(100 * kMs, GpuOutcome::kRecorded), 0);
  EXPECT_EQ(wait_in_step(0, GpuOutcome::kNoCuda), 20 * kMs);
  // What the GPU did is not known.
  EXPECT_EQ(wait_in_step(50 * kMs, GpuOutcome::kBroken), -1);
  EXPECT_EQ(wait_in_step(0, GpuOutcome::kUnknown), -1);
}

// ---- what other nodes and the catalog send ----

CollectiveTable TableWith(const std::vector<int64_t>& cpu_waits_ns) {
  CollectiveTable table = {.communicators = {{.size = 4}}};
  for (const int64_t wait_ns : cpu_waits_ns) {
    const auto step = std::ssize(table.steps);
    table.rows.push_back({.duration_ns = 10, .exposed_ns = 10, .sequence = step, .step = step});
    table.steps.push_back(
        {.step = step, .duration_ns = 1000, .exposed_ns = 10, .cpu_wait_ns = wait_ns});
  }
  return table;
}
std::vector<int64_t> CpuWaitsOf(const CollectiveTable& table) {
  std::vector<int64_t> waits;
  for (const StepWorkRow& step : table.steps) waits.push_back(step.cpu_wait_ns);
  return waits;
}

TEST(SentCpuWaitsTest, WhatCannotBeIsNotKnown) {
  const CollectiveTable table = TableWith({0, 1000, 1001, -7, kMost, -1});
  const absl::StatusOr<CollectiveTable> sent = CollectivesFrom(ToReport(table));
  ASSERT_THAT(sent, IsOk());
  EXPECT_THAT(CpuWaitsOf(*sent), ElementsAre(0, 1000, -1, -1, -1, -1));
  const absl::StatusOr<std::string> bytes = EncodeRankSummary(table);
  ASSERT_THAT(bytes, IsOk());
  const absl::StatusOr<RankSummary> kept = DecodeRankSummary(*bytes);
  ASSERT_THAT(kept, IsOk());
  EXPECT_THAT(CpuWaitsOf(kept->collectives), ElementsAre(0, 1000, -1, -1, -1, -1));
}

TEST(SentCpuWaitsTest, AReportOfAnOlderDaemonHasNoneAndRealNumbersAreRefused) {
  table::Report report = ToReport(TableWith({5, 5}));
  table::Table* steps = nullptr;
  for (table::Table& each : report.tables) {
    if (each.key == "steps") steps = &each;
  }
  ASSERT_NE(steps, nullptr);
  const size_t column = steps->Find("cpu_wait_ns");
  ASSERT_NE(column, table::Table::npos);
  table::Report real = report;
  for (table::Table& each : real.tables) {
    if (each.key != "steps") continue;
    each.columns[column].type = table::Type::kReal;
    each.cells[column] = std::vector<double>{std::nan(""), 1e300};
  }
  EXPECT_THAT(CollectivesFrom(real), StatusIs(absl::StatusCode::kDataLoss));
  steps->columns.erase(steps->columns.begin() + static_cast<std::ptrdiff_t>(column));
  steps->cells.erase(steps->cells.begin() + static_cast<std::ptrdiff_t>(column));
  const absl::StatusOr<CollectiveTable> older = CollectivesFrom(report);
  ASSERT_THAT(older, IsOk());
  EXPECT_THAT(CpuWaitsOf(*older), ElementsAre(-1, -1));
}

// Version 1: the same columns without the last one.
TEST(SentCpuWaitsTest, ASummaryOfAnOlderDaemonIsReadAndHasNone) {
  constexpr size_t kHeaderBytes = 56;
  constexpr size_t kColumns = 18;
  CollectiveTable table = TableWith({5, 700});
  const absl::StatusOr<std::string> bytes = EncodeRankSummary(table);
  ASSERT_THAT(bytes, IsOk());
  uint32_t last_bytes = 0;
  std::memcpy(&last_bytes, bytes->data() + kHeaderBytes + (kColumns - 1) * 4, 4);
  std::string older = bytes->substr(0, kHeaderBytes + (kColumns - 1) * 4) +
                      bytes->substr(kHeaderBytes + kColumns * 4);
  older.resize(older.size() - last_bytes);
  const uint32_t version = 1;
  std::memcpy(older.data() + 4, &version, 4);
  const uint32_t crc =
      store::Crc32(0, std::string_view(older).substr(12, kHeaderBytes + (kColumns - 1) * 4 - 12));
  std::memcpy(older.data() + 8, &crc, 4);
  const absl::StatusOr<RankSummary> kept = DecodeRankSummary(older);
  ASSERT_THAT(kept, IsOk());
  EXPECT_EQ(kept->collectives.rows, table.rows);
  EXPECT_THAT(CpuWaitsOf(kept->collectives), ElementsAre(-1, -1));
  for (size_t size = 0; size < older.size(); ++size) {
    EXPECT_THAT(DecodeRankSummary(older.substr(0, size)), StatusIs(absl::StatusCode::kDataLoss));
  }
  EXPECT_THAT(DecodeRankSummary(older + "x"), StatusIs(absl::StatusCode::kDataLoss));
}

// ---- the verdict ----

// Ranks that all-reduce at the end of each of their steps. By rank: what each works before, and
// how much of that it waits for a CPU, in ms; -1: not known.
class RanksThatWaitTest : public testing::Test {
 protected:
  struct Rank {
    std::vector<int64_t> own_ms;
    std::vector<int64_t> cpu_wait_ms;
  };
  static Rank Steady(int64_t own_ms, int64_t cpu_wait_ms) {
    return {.own_ms = std::vector<int64_t>(6, own_ms),
            .cpu_wait_ms = std::vector<int64_t>(6, cpu_wait_ms)};
  }

  GroupSteps Compare(const std::vector<Rank>& ranks) {
    tables_.clear();
    for (const Rank& rank : ranks) {
      CollectiveTable table = {.communicators = {{.size = std::ssize(ranks)}}};
      for (size_t i = 0; i < rank.own_ms.size(); ++i) {
        const auto step = static_cast<int64_t>(i);
        int64_t last_ms = 0;
        for (const Rank& other : ranks) last_ms = std::max(last_ms, other.own_ms[i]);
        const int64_t in_collective_ns = (last_ms - rank.own_ms[i] + 1) * kMs;
        table.rows.push_back({.duration_ns = in_collective_ns,
                              .exposed_ns = in_collective_ns,
                              .sequence = step,
                              .step = step,
                              .kind = CollectiveKind::kAllReduce});
        const int64_t wait_ms = rank.cpu_wait_ms[i];
        table.steps.push_back({.step = step,
                               .duration_ns = (last_ms + 1) * kMs,
                               .exposed_ns = in_collective_ns,
                               .cpu_wait_ns = wait_ms < 0 ? -1 : wait_ms * kMs});
      }
      tables_.push_back(std::move(table));
    }
    std::vector<const CollectiveTable*> members;
    members.reserve(tables_.size());
    for (const CollectiveTable& table : tables_) members.push_back(&table);
    return CompareSteps(members, MatchCollectives(members));
  }
  static const RankScore& Of(const GroupSteps& steps, size_t member) {
    return *std::ranges::find(steps.ranking, member, &RankScore::member);
  }
  // As it would be without the waits being known.
  GroupSteps CompareUnknown(std::vector<Rank> ranks) {
    for (Rank& rank : ranks) rank.cpu_wait_ms.assign(rank.own_ms.size(), -1);
    return Compare(ranks);
  }

  std::vector<CollectiveTable> tables_;
};

TEST_F(RanksThatWaitTest, WaitsThatCanBeHalfOfARanksAdditionalWorkAreAPossibleCause) {
  const GroupSteps steps = Compare({Steady(20, 0), Steady(20, 1), Steady(30, 9), Steady(20, 0)});
  EXPECT_EQ(steps.verdict, StragglerVerdict::kStraggler);
  EXPECT_TRUE(steps.cpu_waits_can_explain);
  const RankScore& slow = steps.ranking[0];
  EXPECT_EQ(slow.member, 2u);
  EXPECT_TRUE(slow.straggler);
  EXPECT_EQ(slow.more_own_ns, 10 * kMs);
  EXPECT_EQ(slow.cpu_wait_ns, 9 * kMs);
  EXPECT_EQ(slow.more_cpu_wait_ns, 9 * kMs);
  EXPECT_EQ(slow.slow_by_cpu_waits, CpuWaitCause::kPossible);
  EXPECT_EQ(Of(steps, 1).slow_by_cpu_waits, CpuWaitCause::kNo);

  const RankExcess excess = ExplainRankByCpuWaits("rank 2", slow, steps.ranking);
  EXPECT_THAT(excess.text, HasSubstr("Compared with 3 other ranks, rank 2 waits longer for a CPU: "
                                     "9 ms per step instead of 0 ns, which can be at least half"));
  EXPECT_THAT(excess.text, Not(HasSubstr("not known")));
  EXPECT_THAT(excess.advice, HasSubstr("OMP_NUM_THREADS"));
  ASSERT_EQ(excess.evidence.size(), 1u);
  EXPECT_EQ(excess.evidence[0].duration_ns, 9 * kMs);
}

TEST_F(RanksThatWaitTest, ARankThatWorksMoreIsNotExcusedByWaitsThatOthersHaveToo) {
  for (const int64_t wait_ms : {0, 4, 12}) {
    const GroupSteps steps = Compare(
        {Steady(20, wait_ms), Steady(20, wait_ms), Steady(30, wait_ms + 4), Steady(20, wait_ms)});
    EXPECT_EQ(steps.verdict, StragglerVerdict::kStraggler);
    EXPECT_FALSE(steps.cpu_waits_can_explain);
    EXPECT_EQ(steps.ranking[0].slow_by_cpu_waits, CpuWaitCause::kNo) << wait_ms;
    EXPECT_THAT(ExplainRankByCpuWaits("rank 2", steps.ranking[0], steps.ranking).text, IsEmpty());
  }
  // Exactly half of its additional work.
  EXPECT_EQ(Compare({Steady(20, 2), Steady(20, 2), Steady(24, 4)}).ranking[0].slow_by_cpu_waits,
            CpuWaitCause::kPossible);
}

// On a busy machine, one that computes more also waits more.
TEST_F(RanksThatWaitTest, WhatElseTakesLongerIsNamedToo) {
  const GroupSteps steps = Compare({Steady(20, 10), Steady(20, 10), Steady(40, 20)});
  EXPECT_EQ(steps.verdict, StragglerVerdict::kStraggler);
  const auto figures_of = [](int64_t outside_ns) {
    RankFigures figures;
    for (int i = 0; i < 3; ++i) {
      TimeStep& step = figures.time.steps.emplace_back();
      step.index = i;
      step.host.outside_ns = outside_ns;
    }
    return figures;
  };
  const std::vector<RankFigures> others(2, figures_of(kMs));
  const RankExcess waits = ExplainRankByCpuWaits("rank 2", steps.ranking[0], steps.ranking);
  const RankExcess both =
      ExplainRank("rank 2", figures_of(21 * kMs), others, 20 * kMs, RankExcess(waits));
  EXPECT_EQ(both.text,
            waits.text + " It also spends 20 ms more per step outside operators on its host.");
  EXPECT_THAT(both.advice, AllOf(HasSubstr("OMP_NUM_THREADS"), HasSubstr("between operators")));
  ASSERT_EQ(both.evidence.size(), 2u);
  EXPECT_EQ(both.evidence[0].name, "waiting for a CPU");
  // Healthy control of the sentence: without waits, it begins with the comparison.
  EXPECT_THAT(ExplainRank("rank 2", figures_of(21 * kMs), others, 20 * kMs).text,
              StartsWith("Compared with 2 other ranks, rank 2 spends 20 ms more"));
  // Nothing else does.
  EXPECT_EQ(ExplainRank("rank 2", figures_of(kMs), others, 20 * kMs, RankExcess(waits)).text,
            waits.text);
  EXPECT_EQ(ExplainRank("rank 2", figures_of(kMs), {}, 20 * kMs, RankExcess(waits)).text,
            waits.text);
}

TEST_F(RanksThatWaitTest, ABurstInOneStepDoesNotExplainAllOthers) {
  Rank slow = Steady(30, 0);
  slow.cpu_wait_ms[3] = 30;
  const GroupSteps steps = Compare({Steady(20, 0), Steady(20, 0), slow, Steady(20, 0)});
  EXPECT_EQ(steps.ranking[0].slow_by_cpu_waits, CpuWaitCause::kNo);
  EXPECT_EQ(steps.ranking[0].mean_more_cpu_wait_ns, 5 * kMs);
}

TEST_F(RanksThatWaitTest, WithoutRecordsAllIsAsBeforeAndNothingIsSaidOfWaits) {
  const GroupSteps steps =
      CompareUnknown({Steady(20, 0), Steady(20, 0), Steady(30, 0), Steady(20, 0)});
  EXPECT_EQ(steps.verdict, StragglerVerdict::kStraggler);
  EXPECT_FALSE(steps.cpu_waits_can_explain);
  for (const RankScore& rank : steps.ranking) {
    EXPECT_EQ(rank.cpu_wait_ns, -1);
    EXPECT_EQ(rank.more_cpu_wait_ns, 0);
    EXPECT_EQ(rank.mean_more_cpu_wait_ns, 0);
    EXPECT_EQ(rank.slow_by_cpu_waits, CpuWaitCause::kUnknown);
  }
  EXPECT_THAT(ExplainRankByCpuWaits("rank 2", steps.ranking[0], steps.ranking).text, IsEmpty());
}

TEST_F(RanksThatWaitTest, WaitsOfOtherRanksThatAreNotKnownLeaveItOpen) {
  // The others may have waited for as long: that is said.
  GroupSteps steps = Compare({Steady(20, -1), Steady(20, -1), Steady(30, 9), Steady(20, -1)});
  EXPECT_EQ(steps.ranking[0].slow_by_cpu_waits, CpuWaitCause::kPossible);
  EXPECT_TRUE(steps.cpu_waits_can_explain);
  EXPECT_THAT(ExplainRankByCpuWaits("rank 2", steps.ranking[0], steps.ranking).text,
              AllOf(HasSubstr("rank 2 waits for a CPU: 9 ms per step, which can be at least half"),
                    HasSubstr("But the waits of the other ranks are not known."),
                    Not(HasSubstr("instead"))));
  steps = Compare({Steady(20, 1), Steady(20, -1), Steady(30, 9), Steady(20, 1)});
  EXPECT_EQ(steps.ranking[0].slow_by_cpu_waits, CpuWaitCause::kPossible);
  EXPECT_THAT(ExplainRankByCpuWaits("rank 2", steps.ranking[0], steps.ranking).text,
              AllOf(HasSubstr("instead of 1 ms"),
                    HasSubstr("But the waits of 1 other rank are not known.")));
  // Whatever the others waited, this rank did not wait for long enough.
  steps = Compare({Steady(20, -1), Steady(20, -1), Steady(30, 4), Steady(20, -1)});
  EXPECT_EQ(steps.ranking[0].slow_by_cpu_waits, CpuWaitCause::kNo);
  // Its own are not known.
  steps = Compare({Steady(20, 0), Steady(20, 0), Steady(30, -1), Steady(20, 0)});
  EXPECT_EQ(steps.ranking[0].slow_by_cpu_waits, CpuWaitCause::kUnknown);
  EXPECT_FALSE(steps.cpu_waits_can_explain);
}

TEST_F(RanksThatWaitTest, OfTwoRanksTheCauseIsNamedToo) {
  GroupSteps steps = Compare({Steady(20, 0), Steady(30, 10)});
  EXPECT_EQ(steps.verdict, StragglerVerdict::kPair);
  EXPECT_EQ(steps.ranking[0].slow_by_cpu_waits, CpuWaitCause::kPossible);
  EXPECT_TRUE(steps.cpu_waits_can_explain);
  steps = Compare({Steady(20, 10), Steady(30, 10)});
  EXPECT_EQ(steps.verdict, StragglerVerdict::kPair);
  EXPECT_EQ(steps.ranking[0].slow_by_cpu_waits, CpuWaitCause::kNo);
}

TEST_F(RanksThatWaitTest, NoiseOfRanksThatWaitForACpuHasThatReason) {
  const std::vector<int64_t> noisy_ms = {14, 14, 9, 14, 14, 14};
  const auto ranks = [&](int64_t wait_ms, int64_t other_ms) {
    return std::vector<Rank>{Steady(10, other_ms),
                             Steady(10, 0),
                             {.own_ms = noisy_ms, .cpu_wait_ms = std::vector(6, wait_ms)}};
  };
  EXPECT_EQ(CompareUnknown(ranks(0, 0)).reason, StragglerReason::kWithinNoise);
  // Healthy control: no waits.
  GroupSteps steps = Compare(ranks(0, 0));
  EXPECT_EQ(steps.reason, StragglerReason::kWithinNoise);
  EXPECT_FALSE(steps.cpu_waits_can_explain);
  // Waits of the rank that seems slow, or of another one.
  for (const auto& [wait_ms, other_ms] : {std::pair(2, 0), std::pair(0, 3)}) {
    steps = Compare(ranks(wait_ms, other_ms));
    EXPECT_EQ(steps.verdict, StragglerVerdict::kWithheld);
    EXPECT_EQ(steps.reason, StragglerReason::kCpuWaits);
    EXPECT_TRUE(steps.cpu_waits_can_explain);
    for (const RankScore& rank : steps.ranking) EXPECT_FALSE(rank.straggler);
  }
  EXPECT_EQ(Compare(ranks(1, 1)).reason, StragglerReason::kWithinNoise) << "too short";
  // Equal waits explain no difference.
  const GroupSteps equal =
      Compare({Steady(10, 3),
               Steady(10, 3),
               {.own_ms = noisy_ms, .cpu_wait_ms = std::vector(6, int64_t{3})}});
  EXPECT_EQ(equal.reason, StragglerReason::kWithinNoise);
  EXPECT_FALSE(equal.cpu_waits_can_explain);
}

// Why ranks contradict each other is another matter than noise.
TEST_F(RanksThatWaitTest, OtherReasonsAreKeptNextToWaits) {
  const auto compare = [&](int64_t wait_ms) {
    // Rank 2 has the most own work, but the others wait for rank 0.
    Compare({Steady(20, 0), Steady(20, 0), Steady(30, wait_ms), Steady(20, 0)});
    for (size_t rank = 0; rank < tables_.size(); ++rank) {
      for (CollectiveRow& row : tables_[rank].rows) row.duration_ns = (rank == 0 ? 1 : 12) * kMs;
      for (CollectiveRow& row : tables_[rank].rows) row.exposed_ns = row.duration_ns;
    }
    std::vector<const CollectiveTable*> members;
    members.reserve(tables_.size());
    for (const CollectiveTable& table : tables_) members.push_back(&table);
    return CompareSteps(members, MatchCollectives(members));
  };
  for (const int64_t wait_ms : {0, 9}) {
    const GroupSteps steps = compare(wait_ms);
    EXPECT_EQ(steps.verdict, StragglerVerdict::kWithheld);
    EXPECT_EQ(steps.reason, StragglerReason::kContradiction);
    EXPECT_EQ(steps.cpu_waits_can_explain, wait_ms == 9);
  }
}

TEST_F(RanksThatWaitTest, BalancedRanksThatAllWaitAreNoStragglers) {
  const GroupSteps steps = Compare({Steady(20, 8), Steady(20, 8), Steady(20, 8)});
  EXPECT_EQ(steps.verdict, StragglerVerdict::kNone);
  EXPECT_EQ(steps.reason, StragglerReason::kNone);
  EXPECT_FALSE(steps.cpu_waits_can_explain) << "there is nothing to explain";
}

TEST_F(RanksThatWaitTest, WaitsOfOtherNodesThatCannotBeAreLimited) {
  Compare({Steady(20, 0), Steady(20, 0), Steady(30, 0), Steady(20, 0)});
  for (StepWorkRow& step : tables_[2].steps) step.cpu_wait_ns = kMost;
  for (StepWorkRow& step : tables_[0].steps) step.cpu_wait_ns = std::numeric_limits<int64_t>::min();
  tables_[1].steps[2].cpu_wait_ns = -3;
  std::vector<const CollectiveTable*> members;
  for (const CollectiveTable& table : tables_) members.push_back(&table);
  const GroupSteps steps = CompareSteps(members, MatchCollectives(members));
  EXPECT_EQ(steps.verdict, StragglerVerdict::kStraggler);
  EXPECT_EQ(Of(steps, 2).cpu_wait_ns, 30 * kMs) << "no longer than its own work";
  EXPECT_EQ(Of(steps, 0).cpu_wait_ns, -1);
  EXPECT_EQ(Of(steps, 1).cpu_wait_ns, -1) << "one step is not known";
  EXPECT_THAT(CpuWaitsOf(tables_[3]), Each(0));
}

}  // namespace
}  // namespace profd::report
