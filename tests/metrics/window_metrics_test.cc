// What metrics tell of windows that schedules recorded.
#include "daemon/metrics/window_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "daemon/base/str_cat.h"
#include "tests/fakes/status_matchers.h"
#include "tests/metrics/metrics_fixture.h"
#include "tests/store/store_fixture.h"

namespace profd::metrics {
namespace {

class WindowMetricsTest : public store::StoreFixture {
 protected:
  void SetUp() override {
    summarize_ops_ =
        [this](store::CaptureReader&) -> absl::StatusOr<std::vector<store::OpSummaryRow>> {
      return ops_;
    };
    summarize_devices_ =
        [](store::CaptureReader&) -> absl::StatusOr<std::vector<store::DeviceSummaryRow>> {
      return std::vector<store::DeviceSummaryRow>{{0, 1'000, 750, 400, 100}, {1, 1'000, 0, 0, 0}};
    };
    Reopen();
    metrics_.emplace(WindowMetrics::Options{.operators = 2, .gpus_folder = folder_ / "gpus"},
                     *store_, clock_);
  }

  static TargetInfo TargetOf(int64_t pid, int64_t start_ticks = 5) {
    return {.number = pid,
            .pid = pid,
            .process_start_ticks = start_ticks,
            .metadata = {{"job", "j"}, {"rank", StrCat(pid)}},
            .state = TargetState::kRunning};
  }
  // A stored capture of `target`, made now.
  void Store(const TargetInfo& target, const std::string& schedule) {
    CaptureRecord record = store::NewRecord(store::IdOf(++number_));
    record.target = target;
    record.schedule_id = schedule;
    record.create_time = clock_.Now();
    record.covered_ns = 3'000'000'000;
    record.covered_steps = 3;
    record.gpu.record_count = 1;
    record.gpu.devices = {{.number = 0, .name = "NVIDIA H200", .uuid = "GPU-aaaa"},
                          {.number = 1, .name = "NVIDIA H200", .uuid = "GPU-bbbb"}};
    StoreCapture(record);
    metrics_->CaptureEnded();
  }
  std::vector<prometheus::MetricFamily> Collect(std::vector<TargetInfo> targets) {
    return metrics_->Collect(ShowTargets(std::move(targets), "node1"));
  }

  std::vector<store::OpSummaryRow> ops_ = {{"matmul", 1, 50, 50, 1, 1, 600},
                                           {"relu", 1, 40, 40, 1, 1, 300},
                                           {"copy\n", 1, 10, 10, 1, 1, 100},
                                           {"idle", 1, 0, 0, 1, 1, 0}};
  int number_ = 0;
  std::optional<WindowMetrics> metrics_;
};

TEST_F(WindowMetricsTest, OnlyWhatASchedulesCapturesShowIsTold) {
  Store(TargetOf(1), "");
  EXPECT_EQ(CountOf(Collect({TargetOf(1)}), "profd_window_start_time_seconds"), 0);
  Store(TargetOf(1), "01SCHEDULE");
  const auto metrics = Collect({TargetOf(1)});
  EXPECT_EQ(CountOf(metrics, "profd_window_start_time_seconds", {{"rank", "1"}}), 1);
  EXPECT_EQ(ValueOf(metrics, "profd_window_gpu_busy_ratio", {{"UUID", "GPU-aaaa"}}), 0.75);
  EXPECT_EQ(ValueOf(metrics, "profd_window_gpu_busy_ratio", {{"UUID", "GPU-bbbb"}}), 0);
  EXPECT_EQ(ValueOf(metrics, "profd_window_gpu_communication_ratio",
                    {{"UUID", "GPU-aaaa"}, {"modelName", "NVIDIA H200"}, {"Hostname", "node1"}}),
            0.4);
  EXPECT_EQ(
      ValueOf(metrics, "profd_window_gpu_exposed_communication_ratio", {{"UUID", "GPU-aaaa"}}),
      0.1);
}

TEST_F(WindowMetricsTest, TheLargestOperatorsHaveTheirShareOnCpuAndGpu) {
  Store(TargetOf(1), "01SCHEDULE");
  const auto metrics = Collect({TargetOf(1)});
  EXPECT_EQ(
      ValueOf(metrics, "profd_window_operator_ratio", {{"operator", "matmul"}, {"on", "cpu"}}),
      0.5);
  EXPECT_EQ(
      ValueOf(metrics, "profd_window_operator_ratio", {{"operator", "matmul"}, {"on", "gpu"}}),
      0.6);
  EXPECT_EQ(CountOf(metrics, "profd_window_operator_ratio"), 4) << "two on each";
}

TEST_F(WindowMetricsTest, ANewerWindowAndANewTargetAreSeenByTheNextScrape) {
  Store(TargetOf(1), "01SCHEDULE");
  Store(TargetOf(2), "01SCHEDULE");
  EXPECT_EQ(CountOf(Collect({TargetOf(1)}), "profd_window_start_time_seconds"), 1);
  EXPECT_EQ(CountOf(Collect({TargetOf(1), TargetOf(2)}), "profd_window_start_time_seconds"), 2);
  ops_ = {{"other", 1, 50, 50, 1, 1}};
  Store(TargetOf(1), "01SCHEDULE");
  EXPECT_EQ(ValueOf(Collect({TargetOf(1)}), "profd_window_operator_ratio", {{"operator", "other"}}),
            1);
}

TEST_F(WindowMetricsTest, AnotherProcessOfThatPidAndAWindowOfYesterdayAreNotShown) {
  Store(TargetOf(1, 5), "01SCHEDULE");
  EXPECT_EQ(CountOf(Collect({TargetOf(1, 6)}), "profd_window_start_time_seconds"), 0);
  EXPECT_EQ(CountOf(Collect({TargetOf(1, 5)}), "profd_window_start_time_seconds"), 1);
  clock_.Advance(absl::Hours(25));
  EXPECT_EQ(CountOf(Collect({TargetOf(1, 5)}), "profd_window_start_time_seconds"), 0);
}

TEST_F(WindowMetricsTest, GpusHaveTheNumbersOfTheDriverWhereItTellsThem) {
  std::filesystem::create_directories(folder_ / "gpus" / "0000:3b:00.0");
  std::ofstream(folder_ / "gpus" / "0000:3b:00.0" / "information")
      << "GPU UUID: GPU-BBBB\nBus Location: 0000:3b:00.0\nDevice Minor: 5\n";
  Store(TargetOf(1), "01SCHEDULE");
  const auto metrics = Collect({TargetOf(1)});
  EXPECT_EQ(CountOf(metrics, "profd_window_gpu_busy_ratio",
                    {{"UUID", "GPU-bbbb"}, {"gpu", "0"}, {"device", "nvidia5"}}),
            1);
}

}  // namespace
}  // namespace profd::metrics
