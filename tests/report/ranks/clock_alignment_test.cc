#include "daemon/report/ranks/clock_alignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "daemon/report/ranks/collective_match.h"

namespace profd::report {
namespace {

constexpr int64_t kStartUnixNs = 1'790'000'000'000'000'000;

// A job as it was, and as its ranks saw it: true time is ns since kStartUnixNs.
class SimulatedJob {
 public:
  struct Clock {
    double offset_ns = 0;
    double drift = 0;
    double probed_ns = 0;  // What somebody measured of its offset.
  };

  explicit SimulatedJob(size_t ranks) : clocks(ranks), tables_(ranks) {}

  std::vector<Clock> clocks;
  std::vector<std::string> hosts;  // By rank; empty: none is known.
  int64_t bound_ns = 5000;         // Of the probes.
  std::mt19937 random{5};

  double Uniform(double most) {
    return std::uniform_real_distribution<double>(-most, most)(random);
  }

  // Rank `rank`, which began with the others, sees its end `late_ns` after it was.
  void End(size_t rank, const Communicator& communicator, int64_t sequence, double true_ns,
           double late_ns) {
    CollectiveTable& table = tables_[rank];
    auto at = std::find(table.communicators.begin(), table.communicators.end(), communicator);
    if (at == table.communicators.end()) at = table.communicators.insert(at, communicator);
    const int64_t start_ns = std::llround(Own(rank, true_ns)) - 1000;
    table.rows.push_back({.start_ns = start_ns,
                          .duration_ns = std::llround(Own(rank, true_ns + late_ns)) - start_ns,
                          .sequence = sequence,
                          .communicator = static_cast<uint32_t>(at - table.communicators.begin()),
                          .kind = CollectiveKind::kAllReduce});
  }

  // Shifts a rank's collectives by one: the k-th is taken for the next one.
  void PairOffByOne(size_t rank) {
    for (CollectiveRow& row : tables_[rank].rows) ++row.sequence;
  }

  ClockAlignment Align(bool with_probes) {
    std::vector<const CollectiveTable*> tables;
    std::vector<ClockMember> members;
    for (size_t rank = 0; rank < clocks.size(); ++rank) {
      tables.push_back(&tables_[rank]);
      ClockMember member = {.start_unix_ns = kStartUnixNs, .collectives = &tables_[rank]};
      if (rank < hosts.size()) member.host = hosts[rank];
      if (with_probes) {
        member.probe = {.offset_ns = std::llround(clocks[rank].probed_ns), .bound_ns = bound_ns};
      }
      members.push_back(member);
    }
    return AlignClocks(members, MatchCollectives(tables));
  }

  // How far each rank's aligned clock is from the middle one's, at this time.
  std::vector<double> Errors(const ClockAlignment& alignment, double true_ns) const {
    std::vector<double> common;
    for (size_t rank = 0; rank < clocks.size(); ++rank) {
      const int64_t unix_ns = kStartUnixNs + std::llround(Own(rank, true_ns));
      common.push_back(
          static_cast<double>(alignment.members[rank].ToCommon(unix_ns) - kStartUnixNs));
    }
    std::vector<double> sorted = common;
    std::sort(sorted.begin(), sorted.end());
    const double middle = sorted[sorted.size() / 2];
    for (double& time_ns : common) time_ns = std::abs(time_ns - middle);
    return common;
  }

 private:
  double Own(size_t rank, double true_ns) const {
    return true_ns * (1 + clocks[rank].drift) + clocks[rank].offset_ns;
  }

  std::vector<CollectiveTable> tables_;
};

double Percentile(std::vector<double> values, double percent) {
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<size_t>(std::ceil(percent / 100 * values.size()));
  return values[std::max<size_t>(rank, 1) - 1];
}

Communicator World(int64_t size) { return {.size = size, .first_rank = 0, .rank_stride = 1}; }

// 64 ranks, 10 s, offsets of +-500 us, drifts of +-2 ppm, 400 collectives, whose ends each rank
// sees late by 8 us on average.
TEST(ClockAlignmentTest, SixtyFourRanksAreAlignedBelowAMicrosecondAndItIsStated) {
  SimulatedJob job(64);
  for (SimulatedJob::Clock& clock : job.clocks) clock = {job.Uniform(500e3), job.Uniform(2e-6)};
  std::exponential_distribution<double> jitter(1 / 8e3);
  for (int64_t k = 0; k < 400; ++k) {
    for (size_t rank = 0; rank < 64; ++rank) {
      job.End(rank, World(64), k, 25e6 * static_cast<double>(k), jitter(job.random));
    }
  }
  const ClockAlignment alignment = job.Align(false);
  std::vector<double> before;
  std::vector<double> after;
  for (const SimulatedJob::Clock& clock : job.clocks) before.push_back(std::abs(clock.offset_ns));
  for (const double at_ns : {0.0, 5e9, 10e9}) {
    const std::vector<double> errors = job.Errors(alignment, at_ns);
    after.insert(after.end(), errors.begin(), errors.end());
  }
  const double true_p50_ns = Percentile(after, 50);
  const double true_p99_ns = Percentile(after, 99);
  std::cout << "before p50 " << Percentile(before, 50) << " ns; after p50 " << true_p50_ns
            << " p99 " << true_p99_ns << " ns; stated p50 " << alignment.residual_p50_ns << " p99 "
            << alignment.residual_p99_ns << " ns; spread of ends p50 " << alignment.spread_p50_ns
            << " p99 " << alignment.spread_p99_ns << " ns\n";
  EXPECT_EQ(alignment.collective_count, 400);
  EXPECT_EQ(alignment.refined_count, 64);
  EXPECT_LE(true_p50_ns, 1000);
  EXPECT_LE(alignment.residual_p50_ns, 1000);
  // What is stated is what is.
  EXPECT_GT(static_cast<double>(alignment.residual_p50_ns), true_p50_ns / 2);
  EXPECT_LT(static_cast<double>(alignment.residual_p50_ns), true_p50_ns * 2);
  EXPECT_GT(static_cast<double>(alignment.residual_p99_ns), true_p99_ns / 2);
  EXPECT_NE(alignment.members[0].drift, 0);
}

TEST(ClockAlignmentTest, OneLateEndInTenMovesNothingFar) {
  SimulatedJob job(8);
  for (SimulatedJob::Clock& clock : job.clocks) clock = {job.Uniform(5e6), job.Uniform(20e-6)};
  std::uniform_real_distribution<double> chance(0, 1);
  for (int64_t k = 0; k < 200; ++k) {
    for (size_t rank = 0; rank < 8; ++rank) {
      const double late_ns = chance(job.random) < 0.1 ? 3e6 : 1e3 * chance(job.random);
      job.End(rank, World(8), k, 50e6 * static_cast<double>(k), late_ns);
    }
  }
  EXPECT_LT(Percentile(job.Errors(job.Align(false), 5e9), 100), 1000);
}

TEST(ClockAlignmentTest, FewCollectivesGiveAnOffsetAndNoDrift) {
  SimulatedJob job(4);
  for (SimulatedJob::Clock& clock : job.clocks) clock.offset_ns = job.Uniform(500e3);
  for (int64_t k = 0; k < 12; ++k) {
    for (size_t rank = 0; rank < 4; ++rank) {
      job.End(rank, World(4), k, 250e6 * static_cast<double>(k), std::abs(job.Uniform(2e3)));
    }
  }
  const ClockAlignment alignment = job.Align(false);
  for (const AlignedClock& clock : alignment.members) EXPECT_EQ(clock.drift, 0);
  EXPECT_LT(Percentile(job.Errors(alignment, 1e9), 100), 2000);
}

// Ranks 0..3 and 2..5 reduce among each other, ranks 6 and 7 by themselves.
TEST(ClockAlignmentTest, CommunicatorsAreJoinedWhereTheyShareRanksAndProbesTellTheRest) {
  SimulatedJob job(8);
  for (SimulatedJob::Clock& clock : job.clocks) {
    clock.offset_ns = job.Uniform(500e3);
    clock.probed_ns = clock.offset_ns;
  }
  // Probes are good to 5 us; collectives put right what they do not.
  for (const size_t rank : {1, 3, 5}) job.clocks[rank].probed_ns += 5000;
  const std::vector<std::vector<size_t>> groups = {{0, 1, 2, 3}, {2, 3, 4, 5}, {6, 7}};
  for (int64_t k = 0; k < 20; ++k) {
    for (size_t group = 0; group < groups.size(); ++group) {
      for (const size_t rank : groups[group]) {
        job.End(rank, {.size = 4, .first_rank = static_cast<int64_t>(group), .rank_stride = 1}, k,
                10e6 * static_cast<double>(k), 0);
      }
    }
  }
  const ClockAlignment alignment = job.Align(true);
  EXPECT_EQ(alignment.refined_count, 8);
  const std::vector<double> errors = job.Errors(alignment, 1e8);
  // Within what hangs together by collectives, none; to the rest, that of the probes.
  for (size_t rank = 1; rank < 6; ++rank) EXPECT_NEAR(errors[rank], errors[0], 2);
  EXPECT_NEAR(errors[6], errors[7], 2);
  EXPECT_LE(std::abs(errors[6] - errors[0]), 5002);
}

TEST(ClockAlignmentTest, WithoutCollectivesTheProbesCountAndWithoutThoseTheWallClocks) {
  CollectiveTable none;
  const std::vector<ClockMember> members = {{.start_unix_ns = kStartUnixNs,
                                             .probe = ClockProbe{.offset_ns = 700, .bound_ns = 30},
                                             .collectives = &none},
                                            {.start_unix_ns = kStartUnixNs + 5}};
  const ClockAlignment alignment = AlignClocks(members, {});
  EXPECT_EQ(alignment.members[0].basis, ClockBasis::kProbe);
  EXPECT_EQ(alignment.members[0].error_ns, 30);
  EXPECT_EQ(alignment.members[0].ToCommon(kStartUnixNs + 1000), kStartUnixNs + 300);
  EXPECT_EQ(alignment.members[1].basis, ClockBasis::kWallClock);
  EXPECT_EQ(alignment.members[1].error_ns, -1);
  EXPECT_EQ(alignment.members[1].ToCommon(kStartUnixNs), kStartUnixNs);
  EXPECT_EQ(alignment.residual_p50_ns, -1);
  EXPECT_TRUE(AlignClocks({}, {}).members.empty());
}

TEST(ClockAlignmentTest, ABroadcastAlignsNothing) {
  CollectiveTable a = {.communicators = {World(2)},
                       .rows = {{.sequence = 1, .kind = CollectiveKind::kBroadcast}}};
  const std::vector<const CollectiveTable*> tables = {&a, &a};
  const std::vector<ClockMember> members = {{.start_unix_ns = 1, .collectives = &a},
                                            {.start_unix_ns = 9, .collectives = &a}};
  const auto matches = MatchCollectives(tables);
  ASSERT_EQ(matches.size(), 1u);
  EXPECT_EQ(AlignClocks(members, matches).refined_count, 0);
}

TEST(ClockAlignmentTest, RanksOfOneHostShareAClockAndAreNeverShifted) {
  SimulatedJob job(3);
  job.hosts = {"a", "a", "a"};
  // Rank 1 sees every end 3 ms late, which looks like a clock that is ahead.
  for (int64_t k = 0; k < 40; ++k) {
    for (size_t rank = 0; rank < 3; ++rank) {
      job.End(rank, World(3), k, 50e6 * static_cast<double>(k), rank == 1 ? 3e6 : 0);
    }
  }
  const ClockAlignment alignment = job.Align(false);
  EXPECT_EQ(alignment.residual_p99_ns, 0);
  EXPECT_EQ(alignment.rejected_count, 0);
  EXPECT_EQ(alignment.collective_count, 40);
  EXPECT_GT(alignment.spread_p99_ns, 2'000'000);
  for (const AlignedClock& clock : alignment.members) {
    EXPECT_EQ(clock.basis, ClockBasis::kShared);
    EXPECT_EQ(clock.error_ns, 0);
    EXPECT_EQ(clock.ToCommon(kStartUnixNs + 5), kStartUnixNs + 5);
  }
}

TEST(ClockAlignmentTest, TheNodeThatImportsATraceSaysNothingOfItsClock) {
  CaptureRecord record;
  record.node = "a";
  EXPECT_EQ(ClockHostOf(record), "a");
  record.imported.source = "trace.json";
  EXPECT_EQ(ClockHostOf(record), "");
}

TEST(ClockAlignmentTest, PairsOffByOneOfOneHostAreRejectedAndReported) {
  SimulatedJob job(2);
  job.hosts = {"a", "a"};
  for (int64_t k = 0; k < 10; ++k) {
    for (size_t rank = 0; rank < 2; ++rank) {
      job.End(rank, World(2), k, 14.7e6 * static_cast<double>(k), 0);
    }
  }
  job.PairOffByOne(1);
  const ClockAlignment alignment = job.Align(false);
  EXPECT_EQ(alignment.rejected_count, 9);
  EXPECT_NEAR(static_cast<double>(alignment.largest_shift_ns), 14.7e6, 2000);
  for (const AlignedClock& clock : alignment.members) {
    EXPECT_EQ(clock.ToCommon(kStartUnixNs), kStartUnixNs);
  }
  EXPECT_TRUE(AcceptedMatches(std::vector<MatchedCollective>(9), alignment).empty());
}

TEST(ClockAlignmentTest, HostsKeepOneClockEachWhenTheyAreAligned) {
  SimulatedJob job(4);
  job.hosts = {"a", "a", "b", "b"};
  job.clocks[2].offset_ns = job.clocks[3].offset_ns = 700e3;
  for (int64_t k = 0; k < 40; ++k) {
    for (size_t rank = 0; rank < 4; ++rank) {
      job.End(rank, World(4), k, 50e6 * static_cast<double>(k), std::abs(job.Uniform(2e3)));
    }
  }
  const ClockAlignment alignment = job.Align(false);
  EXPECT_EQ(alignment.members[0].offset_ns, alignment.members[1].offset_ns);
  EXPECT_EQ(alignment.members[2].offset_ns, alignment.members[3].offset_ns);
  EXPECT_NEAR(alignment.members[2].offset_ns - alignment.members[0].offset_ns, 700e3, 2000);
  EXPECT_EQ(alignment.members[0].basis, ClockBasis::kCollectives);
}

// Six of ten pairs are 14 to 134 ms apart, as two real ranks had them whose events were thinned.
TEST(ClockAlignmentTest, PairsThatMostlyDoNotOverlapAlignNothingAndTheResidualSaysSo) {
  SimulatedJob job(2);
  for (int64_t k = 0; k < 10; ++k) {
    const double true_ns = 200e6 * static_cast<double>(k);
    job.End(0, World(2), k, true_ns, 0);
    job.End(1, World(2), k, true_ns + (k < 6 ? 14e6 + 24e6 * static_cast<double>(k) : 0), 0);
  }
  const ClockAlignment alignment = job.Align(false);
  EXPECT_EQ(alignment.rejected_count, 10);
  EXPECT_EQ(alignment.refined_count, 0);
  EXPECT_EQ(alignment.members[0].basis, ClockBasis::kWallClock);
  EXPECT_GE(alignment.residual_p50_ns, 10'000'000);
  EXPECT_GE(alignment.residual_p99_ns, 130'000'000);
}

TEST(ClockAlignmentTest, ClocksThatAreSecondsApartAreAlignedIfAllCollectivesAgree) {
  SimulatedJob job(3);
  for (size_t rank = 0; rank < 3; ++rank) {
    job.clocks[rank].offset_ns = 7e9 * static_cast<double>(rank);
  }
  for (int64_t k = 0; k < 10; ++k) {
    for (size_t rank = 0; rank < 3; ++rank) {
      job.End(rank, World(3), k, 200e6 * static_cast<double>(k * k), 0);
    }
  }
  const ClockAlignment alignment = job.Align(false);
  EXPECT_EQ(alignment.rejected_count, 0);
  EXPECT_EQ(alignment.refined_count, 3);
  EXPECT_NEAR(alignment.members[2].offset_ns - alignment.members[0].offset_ns, 14e9, 10);
}

// Pairs that are off by one look the same if steps take seconds.
TEST(ClockAlignmentTest, WithoutNumbersAShiftOfManyStepsIsOneOfTheClocks) {
  for (const double step_ns : {200e6, 7e9}) {
    SimulatedJob job(2);
    job.clocks[1].offset_ns = 7e9;
    for (int64_t k = 0; k < 10; ++k) {
      for (size_t rank = 0; rank < 2; ++rank) {
        job.End(rank, World(2), -1, step_ns * static_cast<double>(k), 0);
      }
    }
    EXPECT_EQ(job.Align(false).rejected_count, step_ns < 1e9 ? 0 : 10) << step_ns;
  }
}

TEST(ClockAlignmentTest, ClocksThatAreSecondsApartAreNotAlignedOnCollectivesThatDisagree) {
  SimulatedJob job(2);
  for (int64_t k = 0; k < 10; ++k) {
    const double true_ns = 200e6 * static_cast<double>(k);
    job.End(0, World(2), k, true_ns, 0);
    job.End(1, World(2), k, true_ns + 7e9 + 50e6 * static_cast<double>(k), 0);
  }
  EXPECT_EQ(job.Align(false).rejected_count, 10);
}

TEST(ClockAlignmentTest, OnePairThatDoesNotOverlapIsRejectedAndTheRestAlign) {
  SimulatedJob job(2);
  job.clocks[1].offset_ns = 400e3;
  for (int64_t k = 0; k < 10; ++k) {
    const double true_ns = 200e6 * static_cast<double>(k);
    job.End(0, World(2), k, true_ns, 0);
    job.End(1, World(2), k, true_ns + (k == 3 ? 55e6 : 0), 0);
  }
  const ClockAlignment alignment = job.Align(false);
  EXPECT_EQ(alignment.rejected_count, 1);
  EXPECT_TRUE(alignment.rejected[3]);
  EXPECT_EQ(alignment.refined_count, 2);
  EXPECT_NEAR(alignment.members[1].offset_ns - alignment.members[0].offset_ns, 400e3, 10);
  EXPECT_GE(alignment.residual_p99_ns, 50'000'000);  // The rejected one counts.
}

TEST(ClockAlignmentTest, CollectivesDoNotPutAClockBeyondTheBoundOfItsProbe) {
  SimulatedJob job(3);
  // Rank 2 sees all ends 800 us late; its clock was measured to 5 us.
  for (int64_t k = 0; k < 20; ++k) {
    for (size_t rank = 0; rank < 3; ++rank) {
      job.End(rank, World(3), k, 50e6 * static_cast<double>(k), rank == 2 ? 800e3 : 0);
    }
  }
  const ClockAlignment alignment = job.Align(true);
  EXPECT_EQ(alignment.members[2].basis, ClockBasis::kProbe);
  EXPECT_EQ(alignment.members[2].offset_ns, 0);
  EXPECT_EQ(alignment.members[2].error_ns, 5000);
  EXPECT_EQ(alignment.members[0].basis, ClockBasis::kCollectives);
}

// Rank 1 is held up at the end of three of four. So its clock seems to be 5 ms ahead, and would
// make it end the fourth one before rank 0 had begun.
TEST(ClockAlignmentTest, APairThatTheClocksAllowIsNotRejectedForEndsThatAreLate) {
  SimulatedJob job(2);
  job.bound_ns = 4'000'000;
  for (int64_t k = 0; k < 4; ++k) {
    job.End(0, World(2), k, 50e6 * static_cast<double>(k), 0);
    job.End(1, World(2), k, 50e6 * static_cast<double>(k), k < 3 ? 5e6 : 0);
  }
  for (const bool with_probes : {true, false}) {
    const ClockAlignment alignment = job.Align(with_probes);
    EXPECT_EQ(alignment.rejected_count, 0) << with_probes;
    EXPECT_EQ(alignment.collective_count, 4) << with_probes;
  }
  // The bounds of the probes allow it, whatever the probes themselves say.
  job.clocks[0].probed_ns = -3e6;
  EXPECT_EQ(job.Align(true).rejected_count, 0);
}

TEST(ClockAlignmentTest, NumbersAtTheirEndsAreSafe) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  CollectiveTable table = {.communicators = {World(2)}};
  for (const int64_t start_ns : {kLeast, int64_t{0}, kMost}) {
    table.rows.push_back({.start_ns = start_ns,
                          .duration_ns = kMost,
                          .sequence = start_ns / 2 + kMost / 2 + 1,
                          .kind = CollectiveKind::kBarrier});
  }
  const std::vector<const CollectiveTable*> tables = {&table, &table};
  const std::vector<ClockMember> members = {
      {.start_unix_ns = kLeast,
       .probe = ClockProbe{.offset_ns = kLeast, .bound_ns = kMost},
       .collectives = &table},
      {.start_unix_ns = kMost, .collectives = &table}};
  const ClockAlignment alignment = AlignClocks(members, MatchCollectives(tables));
  for (const AlignedClock& clock : alignment.members) {
    clock.ToCommon(kLeast);
    clock.ToCommon(kMost);
    EXPECT_FALSE(std::isnan(clock.offset_ns));
  }
}

}  // namespace
}  // namespace profd::report
