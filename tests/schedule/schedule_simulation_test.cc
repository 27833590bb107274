// A cluster on a fake clock: 200 nodes, each with the real runner, for a day or more. What
// schedules promise must hold: the share that was asked for, fairly spread, and budgets never
// exceeded. The figures that it prints are in daemon/schedule/README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/stable_hash.h"
#include "daemon/base/str_cat.h"
#include "daemon/schedule/schedule_runner.h"
#include "tests/fakes/callers.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_schedule_store.h"
#include "tests/fakes/fake_scheduled_captures.h"
#include "tests/fakes/fake_target_port.h"
#include "tests/fakes/status_matchers.h"

namespace profd {
namespace {

constexpr int kNodes = 200;
constexpr int kRanksPerNode = 8;
// A day is enough for every budget. PROFD_SIMULATION_DAYS=7 makes the figures of the README.
absl::Duration SimulatedTime() {
  const char* days = std::getenv("PROFD_SIMULATION_DAYS");
  return absl::Hours(24) * (days == nullptr ? 1 : std::max(1, std::atoi(days)));
}
const absl::Duration kTime = SimulatedTime();

// Ids as a coordinator would have made them.
constexpr char kByNodes[] = "01HZZZZZZZZZZZZZZZZZZZZZZA";
constexpr char kByRank[] = "01HZZZZZZZZZZZZZZZZZZZZZZB";
constexpr char kByJob[] = "01HZZZZZZZZZZZZZZZZZZZZZZC";

constexpr int64_t kCapturesPerHour = 4;
constexpr int64_t kBytesPerDay = int64_t{256} << 20;
constexpr double kTimeShare = 0.002;
constexpr double kFraction = 0.05;
constexpr double kJobFraction = 0.25;

class Node {
 public:
  Node(int number, FakeClock& clock) : clock_(clock), captures_(targets_, clock) {
    for (int i = 0; i < kRanksPerNode; ++i) {
      const int64_t rank = int64_t{number} * kRanksPerNode + i;
      // A job is on ten nodes.
      targets_.Add({.pid = 100 + i,
                    .uid = 1000,
                    .process_start_ticks = rank,
                    .metadata = {{"rank", StrCat(rank)}, {"job", StrCat("job", number / 10)}}});
    }
    runner_ = std::make_unique<ScheduleRunner>(
        ScheduleRunner::Options{.node_name = StrCat("gpu", number)}, store_, captures_, targets_,
        clock);
    EXPECT_THAT(runner_->Start(), IsOk());
  }

  void Place(const ScheduleSpec& spec, std::string_view id) {
    EXPECT_THAT(runner_->Create(kRoot, spec, id), IsOk());
    next_wake_ = runner_->RunTimersForTesting();
  }
  absl::Duration next_wake() const { return next_wake_; }
  void Run() {
    next_wake_ = runner_->RunTimersForTesting();
    NoteBegun();
  }
  // What was told of ends is handled.
  void Drain() { runner_->DrainForTesting(); }

  absl::Duration next_end() const {
    return ends_.empty() ? absl::InfiniteDuration() : ends_.begin()->first;
  }
  void EndDue() {
    while (!ends_.empty() && ends_.begin()->first <= clock_.Monotonic()) {
      const auto asked = ends_.begin()->second;
      ends_.erase(ends_.begin());
      const auto mebibytes = static_cast<int64_t>(1 + StableHash().Add(asked.id).Below(8));
      captures_.End(asked.id, [&](CaptureRecord& record) {
        record.file_bytes = std::min(mebibytes << 20, asked.spec.max_bytes);
      });
    }
  }
  std::vector<ScheduleWindow> Windows(std::string_view schedule) const {
    std::vector<ScheduleWindow> windows = store_.windows();
    std::erase_if(windows, [&](const ScheduleWindow& w) { return w.schedule_id != schedule; });
    return windows;
  }

 private:
  // Captures take from 1 to 20 s, and from 1 to 8 MiB as far as they may.
  void NoteBegun() {
    for (; seen_ < captures_.asked.size(); ++seen_) {
      const auto& asked = captures_.asked[seen_];
      const StableHash hash = StableHash().Add(asked.id).Add(asked.schedule.window_unix_ns);
      const auto seconds = static_cast<int64_t>(1 + hash.Below(20));
      ends_.emplace(clock_.Monotonic() + absl::Seconds(seconds), asked);
    }
  }

  FakeClock& clock_;
  FakeTargetPort targets_;
  FakeScheduledCaptures captures_;
  FakeScheduleStore store_;
  std::unique_ptr<ScheduleRunner> runner_;
  std::multimap<absl::Duration, FakeScheduledCaptures::Asked> ends_;
  size_t seen_ = 0;
  absl::Duration next_wake_ = absl::InfiniteDuration();
};

class Cluster {
 public:
  Cluster() {
    for (int i = 0; i < kNodes; ++i) nodes_.push_back(std::make_unique<Node>(i, clock_));
  }
  std::vector<std::unique_ptr<Node>>& nodes() { return nodes_; }

  void Run(absl::Duration time) {
    const absl::Duration end = clock_.Monotonic() + time;
    for (;;) {
      absl::Duration next = end;
      for (const auto& node : nodes_) {
        next = std::min({next, node->next_wake(), node->next_end()});
      }
      if (next == end) break;
      clock_.Advance(next - clock_.Monotonic());
      for (const auto& node : nodes_) {
        if (node->next_end() <= next) node->EndDue();
        if (node->next_wake() <= next) node->Run();
      }
    }
    for (const auto& node : nodes_) node->Drain();
  }

 private:
  FakeClock clock_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

// A share of nodes is that share, and fairly spread.
void CheckFraction(Cluster& cluster) {
  int64_t windows = 0;
  std::vector<int64_t> of_node;
  std::map<absl::Time, int64_t> of_window;
  double weights = 0;
  for (const auto& node : cluster.nodes()) {
    std::map<absl::Time, bool> sampled;  // Every window has a row, or one per rank.
    for (const ScheduleWindow& window : node->Windows(kByNodes)) {
      const bool captured = !window.capture_id.empty();
      sampled[window.time] = sampled[window.time] || captured;
      weights += captured ? window.sampling_weight : 0;
    }
    windows = static_cast<int64_t>(sampled.size());
    int64_t count = 0;
    for (const auto& [time, captured] : sampled) {
      count += captured ? 1 : 0;
      of_window[time] += captured ? 1 : 0;
    }
    of_node.push_back(count);
  }
  ASSERT_GE(windows, absl::FDivDuration(kTime, absl::Minutes(30)) - 1);
  EXPECT_EQ(of_window.size(), static_cast<size_t>(windows)) << "nodes disagree about the windows";

  int64_t total = 0;
  double chi_square = 0;
  const double expected = kFraction * static_cast<double>(windows);
  for (const int64_t count : of_node) {
    total += count;
    chi_square += (static_cast<double>(count) - expected) *
                  (static_cast<double>(count) - expected) / (expected * (1 - kFraction));
  }
  const double draws = static_cast<double>(windows) * kNodes;
  const double sigma = std::sqrt(draws * kFraction * (1 - kFraction));
  EXPECT_NEAR(static_cast<double>(total), draws * kFraction, 4 * sigma);
  // Of 200 degrees of freedom: four standard deviations on either side.
  EXPECT_NEAR(chi_square, kNodes, 4 * std::sqrt(2.0 * kNodes));
  // What the weights add up to is all there was to sample.
  const double population = draws * kRanksPerNode;
  EXPECT_NEAR(weights / population, 1, 4 * sigma / (draws * kFraction));

  const auto [least, most] = std::ranges::minmax(of_node);
  std::printf(
      "%d nodes, %lld windows: %lld of %.0f node windows sampled, %.3f %% (asked for: 5 %%); per "
      "node %lld to %lld (mean %.1f); chi-square %.0f of %d; weights add up to %.4f of all\n",
      kNodes, static_cast<long long>(windows), static_cast<long long>(total), draws,
      100 * static_cast<double>(total) / draws, static_cast<long long>(least),
      static_cast<long long>(most), static_cast<double>(total) / kNodes, chi_square, kNodes,
      weights / population);
}

// In every rolling hour and day, and for every target.
void CheckBudgets(Cluster& cluster) {
  int64_t most_an_hour = 0;
  int64_t most_bytes_a_day = 0;
  double most_share = 0;
  int64_t captures = 0;
  int64_t over_budget = 0;
  std::map<int64_t, int64_t> of_rank;
  for (const auto& node : cluster.nodes()) {
    std::vector<ScheduleWindow> captured;
    for (const ScheduleWindow& window : node->Windows(kByRank)) {
      over_budget += window.outcome == WindowOutcome::kOverBudget ? 1 : 0;
      if (!window.capture_id.empty()) captured.push_back(window);
    }
    captures += static_cast<int64_t>(captured.size());
    size_t hour = 0;
    size_t day = 0;
    int64_t bytes = 0;
    std::map<int64_t, const ScheduleWindow*> last;  // By pid.
    for (size_t i = 0; i < captured.size(); ++i) {
      const ScheduleWindow& window = captured[i];
      bytes += window.bytes;
      while (captured[hour].time <= window.time - absl::Hours(1)) ++hour;
      while (captured[day].time <= window.time - absl::Hours(24)) bytes -= captured[day++].bytes;
      most_an_hour = std::max(most_an_hour, static_cast<int64_t>(i - hour + 1));
      most_bytes_a_day = std::max(most_bytes_a_day, bytes);
      if (const auto before = last.find(window.pid); before != last.end()) {
        const double between = absl::ToDoubleSeconds(window.time - before->second->time);
        most_share =
            std::max(most_share, 1e-9 * static_cast<double>(before->second->busy_ns) / between);
      }
      last[window.pid] = &window;
      ++of_rank[window.process_start_ticks];
    }
  }
  EXPECT_LE(most_an_hour, kCapturesPerHour);
  EXPECT_LE(most_bytes_a_day, kBytesPerDay);
  EXPECT_LE(most_share, kTimeShare);
  // They do bind, and they do not starve anybody.
  EXPECT_EQ(most_an_hour, kCapturesPerHour);
  EXPECT_GT(over_budget, 0);
  EXPECT_EQ(of_rank.size(), static_cast<size_t>(kNodes * kRanksPerNode));
  int64_t least = captures;
  int64_t most = 0;
  for (const auto& [rank, count] : of_rank) {
    least = std::min(least, count);
    most = std::max(most, count);
  }
  std::printf(
      "%lld captures, %lld windows over budget; at most %lld captures in an hour (budget %lld), "
      "%.1f MiB in a day (budget %.0f), %.3f %% of a target's time (budget %.1f %%); per rank %lld "
      "to %lld\n",
      static_cast<long long>(captures), static_cast<long long>(over_budget),
      static_cast<long long>(most_an_hour), static_cast<long long>(kCapturesPerHour),
      static_cast<double>(most_bytes_a_day) / (1 << 20),
      static_cast<double>(kBytesPerDay) / (1 << 20), 100 * most_share, 100 * kTimeShare,
      static_cast<long long>(least), static_cast<long long>(most));
}

// A chosen job is sampled on all its nodes at once.
void CheckJobs(Cluster& cluster) {
  // By window and job: how many ranks were sampled.
  std::map<std::pair<absl::Time, int>, int64_t> sampled;
  std::map<absl::Time, bool> windows;
  for (size_t i = 0; i < cluster.nodes().size(); ++i) {
    for (const ScheduleWindow& window : cluster.nodes()[i]->Windows(kByJob)) {
      windows[window.time] = true;
      if (window.capture_id.empty()) continue;
      ++sampled[{window.time, static_cast<int>(i) / 10}];
    }
  }
  for (const auto& [window, ranks] : sampled) EXPECT_EQ(ranks, 10 * kRanksPerNode);
  const double draws = static_cast<double>(windows.size()) * kNodes / 10;
  EXPECT_NEAR(static_cast<double>(sampled.size()), draws * kJobFraction,
              4 * std::sqrt(draws * kJobFraction * (1 - kJobFraction)));
  std::printf("%zu of %.0f job windows sampled, %.1f %% (asked for: 25 %%), each on all 80 ranks\n",
              sampled.size(), draws, 100 * static_cast<double>(sampled.size()) / draws);
}

// One test: the simulation takes seconds.
TEST(ScheduleSimulationTest, FractionBudgetsAndFairnessHold) {
  Cluster cluster;
  for (const auto& node : cluster.nodes()) {
    node->Place(
        {.every = absl::Minutes(30), .capture = {.steps = 3}, .sample = {.fraction = kFraction}},
        kByNodes);
    node->Place({.every = absl::Minutes(12),
                 .jitter = absl::Minutes(1),
                 .capture = {.steps = 3},
                 .sample = {.unit = SampleUnit::kTargets, .count = 1},
                 .budget = {.captures_per_hour = kCapturesPerHour,
                            .bytes_per_day = kBytesPerDay,
                            .time_share = kTimeShare}},
                kByRank);
    node->Place({.cron = "15 * * * *",
                 .capture = {.steps = 3},
                 .sample = {.unit = SampleUnit::kJobs, .fraction = kJobFraction}},
                kByJob);
  }
  cluster.Run(kTime);
  CheckFraction(cluster);
  CheckBudgets(cluster);
  CheckJobs(cluster);
}

}  // namespace
}  // namespace profd
