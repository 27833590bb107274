// How targets and their GPUs are named in metrics, and what is told of them without a capture.
#include "daemon/metrics/target_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "daemon/base/str_cat.h"
#include "daemon/metrics/counters.h"
#include "daemon/metrics/gpu_places.h"
#include "tests/fakes/fake_target_port.h"
#include "tests/metrics/metrics_fixture.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd::metrics {
namespace {

using ::testing::Contains;
using ::testing::SizeIs;

TargetInfo ARank(TargetNumber number, const std::string& job, const std::string& rank) {
  return {.number = number,
          .pid = 1000 + number,
          .metadata = {{"job", job}, {"rank", rank}},
          .state = TargetState::kRunning,
          .step_mark_count = 100,
          .current_step = 99,
          .steps_per_second = 4};
}

LabelMap MapOf(const Labels& labels) {
  LabelMap map;
  for (const auto& label : labels) map[label.name] = label.value;
  return map;
}

TEST(TargetLabelsTest, ARankOfAJobIsNamedByThemAndOthersByTheirPid) {
  TargetInfo in_pod = ARank(1, "88123", "3");
  in_pod.workload = {.pod_namespace = "ml", .pod_name = "train-0"};
  const ShownTargets shown =
      ShowTargets({in_pod, ARank(2, "", "3"), ARank(3, "88123", "x")}, "gpu001");
  ASSERT_THAT(shown.targets, SizeIs(3));
  EXPECT_EQ(MapOf(shown.targets[2].labels), (LabelMap{{"Hostname", "gpu001"},
                                                      {"hpc_job", "88123"},
                                                      {"rank", "3"},
                                                      {"pod", "train-0"},
                                                      {"namespace", "ml"}}));
  EXPECT_THAT(MapOf(shown.targets[1].labels), Contains(std::pair("pid", "1002")));
  EXPECT_THAT(MapOf(shown.targets[0].labels), Contains(std::pair("pid", "1003")));
}

TEST(TargetLabelsTest, OfTwoWithTheSameLabelsTheNewerIsShown) {
  const ShownTargets shown = ShowTargets({ARank(1, "j", "0"), ARank(2, "j", "0")}, "n");
  ASSERT_THAT(shown.targets, SizeIs(1));
  EXPECT_EQ(shown.targets[0].target.number, 2);
  EXPECT_EQ(shown.left_out, 0U);
}

// Any process may say that it is a rank of a job.
TEST(TargetLabelsTest, AnotherUsersProcessTakesNoSeries) {
  TargetInfo first = ARank(1, "j", "0");
  TargetInfo liar = ARank(2, "j", "0");
  first.uid = 1000;
  liar.uid = 65534;
  ShownTargets shown = ShowTargets({first, liar}, "n");
  ASSERT_THAT(shown.targets, SizeIs(2));
  EXPECT_EQ(shown.targets[1].target.number, 1);
  EXPECT_EQ(MapOf(shown.targets[1].labels).count("pid"), 0U);
  EXPECT_THAT(MapOf(shown.targets[0].labels), Contains(std::pair("pid", "1002")));
  // The one whose job is known, although the other one came first.
  liar.workload.slurm_job = "j";
  shown = ShowTargets({first, liar}, "n");
  ASSERT_THAT(shown.targets, SizeIs(2));
  EXPECT_EQ(MapOf(shown.targets[0].labels).count("pid"), 0U);
  EXPECT_THAT(MapOf(shown.targets[1].labels), Contains(std::pair("pid", "1001")));
}

TEST(TargetLabelsTest, ACrowdIsCutAndCounted) {
  std::vector<TargetInfo> crowd;
  for (int i = 1; i <= 300; ++i) crowd.push_back(ARank(i, "j", StrCat(i)));
  const ShownTargets shown = ShowTargets(crowd, "n");
  EXPECT_THAT(shown.targets, SizeIs(kMaxShownTargets));
  EXPECT_EQ(shown.left_out, 300 - kMaxShownTargets);
}

TEST(TargetLabelsTest, WhatATargetSaysIsCleanedAndCut) {
  const ShownTargets shown =
      ShowTargets({ARank(1, "a\nb\"}\xff" + std::string(5000, 'x'), "0")}, "n");
  const std::string job = MapOf(shown.targets.at(0).labels)["hpc_job"];
  EXPECT_LE(job.size(), kMaxLabelBytes);
  EXPECT_EQ(job.find('\n'), std::string::npos);
}

TEST(TargetMetricsTest, StepTimesComeFromTheStatusPage) {
  FakeTargetPort targets;
  const TargetNumber known = targets.Add(ARank(0, "j", "0"));
  targets.Add(ARank(0, "j", "1"));
  TargetInfo stepless = ARank(0, "j", "2");
  stepless.step_mark_count = 0;
  targets.Add(stepless);
  targets.SetMedianStepNs(known, 125'000'000);
  const auto metrics = TargetMetrics(ShowTargets(targets.List(), "n"), targets);
  EXPECT_EQ(ValueOf(metrics, "profd_target_step_seconds", {{"rank", "0"}}), 0.125);
  EXPECT_EQ(ValueOf(metrics, "profd_target_step_seconds", {{"rank", "1"}}), 0.25)
      << "no median: the rate";
  EXPECT_EQ(ValueOf(metrics, "profd_target_step_seconds", {{"rank", "2"}}), std::nullopt);
  EXPECT_EQ(ValueOf(metrics, "profd_target_steps_total", {{"rank", "0"}}), 100);
  EXPECT_EQ(CountOf(metrics, "profd_target_dropped_events_total"), 3);
}

TEST(CountersTest, CapturesAreCountedByStateReasonAndOrigin) {
  Counters counters;
  CaptureRecord record;
  record.create_time = absl::FromUnixSeconds(100);
  record.end_time = absl::FromUnixSeconds(103);
  record.state = CaptureState::kComplete;
  record.ended_by = EndedBy::kSteps;
  record.event_count = 500;
  record.file_bytes = 4096;
  record.drops[static_cast<size_t>(DropReason::kNoChunk)] = 7;
  counters.CaptureEnded(record);
  record.schedule_id = "01J";
  counters.CaptureEnded(record);
  counters.CaptureEnded(record);
  const auto metrics = counters.Collect();
  EXPECT_EQ(ValueOf(metrics, "profd_captures_total",
                    {{"state", "COMPLETE"}, {"reason", "steps"}, {"origin", "request"}}),
            1);
  EXPECT_EQ(ValueOf(metrics, "profd_captures_total", {{"origin", "schedule"}}), 2);
  EXPECT_EQ(ValueOf(metrics, "profd_capture_events_total"), 1500);
  EXPECT_EQ(ValueOf(metrics, "profd_capture_file_bytes_total"), 3 * 4096);
  EXPECT_EQ(ValueOf(metrics, "profd_capture_dropped_events_total", {{"reason", "no_chunk"}}), 21);
  EXPECT_EQ(ValueOf(metrics, "profd_capture_dropped_events_total", {{"reason", "disk"}}), 0);
}

TEST(CountersTest, CallsAreCountedByMethodCodeAndReason) {
  Counters counters;
  counters.CallEnded("CreateCapture", absl::StatusCode::kOk, "", absl::Milliseconds(3), 0);
  counters.CallEnded("CreateCapture", absl::StatusCode::kPermissionDenied, "NOT_ALLOWED",
                     absl::Milliseconds(1), 0);
  counters.CallEnded("DownloadCapture", absl::StatusCode::kOk, "", absl::Seconds(2), 1 << 20);
  const auto metrics = counters.Collect();
  EXPECT_EQ(
      ValueOf(metrics, "profd_rpc_calls_total", {{"method", "CreateCapture"}, {"code", "OK"}}), 1);
  EXPECT_EQ(ValueOf(metrics, "profd_rpc_calls_total",
                    {{"code", "PERMISSION_DENIED"}, {"reason", "NOT_ALLOWED"}}),
            1);
  EXPECT_EQ(ValueOf(metrics, "profd_rpc_sent_bytes_total", {{"method", "DownloadCapture"}}),
            1 << 20);
  EXPECT_EQ(CountOf(metrics, "profd_rpc_duration_seconds"), 2);
}

TEST(GpuPlacesTest, TheDriversGpusAreCountedInTheOrderOfTheBus) {
  const store::TemporaryFolder folder;
  const auto add = [&folder](const std::string& bus, const std::string& text) {
    std::filesystem::create_directory(folder / bus);
    std::ofstream(folder / bus / "information") << text;
  };
  add("0000:b1:00.0",
      "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-AAAA\nBus Location: \t 0000:b1:00.0\n"
      "Device Minor: \t 4\n");
  add("0000:3b:00.0", "GPU UUID: \t GPU-BBBB\nBus Location: \t 0000:3b:00.0\nDevice Minor: \t 5\n");
  add("0000:00:00.0", "no colon here\nGPU UUID:\n\n");
  std::filesystem::create_directory(folder / "empty");
  const auto places = ReadGpuPlaces(folder.path());
  ASSERT_THAT(places, SizeIs(2));
  EXPECT_EQ(places.at("gpu-bbbb").gpu, "0");
  EXPECT_EQ(places.at("gpu-aaaa").gpu, "1");
  EXPECT_EQ(places.at("gpu-aaaa").device, "nvidia4");
  EXPECT_EQ(places.at("gpu-aaaa").pci_bus_id, "00000000:B1:00.0");
  EXPECT_THAT(ReadGpuPlaces(folder / "nowhere"), SizeIs(0));
}

}  // namespace
}  // namespace profd::metrics
