// Reports over traces of real GPUs, imported as users do, beside what torch and Holistic Trace
// Analysis say of them. The traces are no part of the source: PROFD_TEST_DATA names the folder that
// has them in traces/.
#include "tests/import/real_traces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "daemon/report/gpu/idle_table.h"
#include "daemon/report/gpu/kernel_table.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/time/time_report.h"
#include "tests/fakes/status_matchers.h"
#include "tests/report/imported_trace.h"
#include "tests/report/time/hta_time.h"

namespace profd::report {
namespace {

class RealTraceTest : public testing::TestWithParam<const char*> {
 protected:
  // False: skipped.
  bool Read(GpuWorkKept kept) {
    if (!std::filesystem::exists(Path())) return false;
    EXPECT_THAT(trace_.Import(Path(), kept), IsOk());
    return !HasFatalFailure() && !HasNonfatalFailure();
  }
  static std::filesystem::path Path() { return RealTrace(GetParam()); }
  static nlohmann::json Expected() {
    std::ifstream file(Path().parent_path() / "expected_hta" / (std::string(GetParam()) + ".json"));
    return nlohmann::json::parse(file, nullptr, false);
  }
  // The trace holds waits in streams.
  bool HasWaits() {
    size_t count = 0;
    EXPECT_THAT(trace_.reader().ForEach<SyncRow>([&](const SyncBatch& batch) {
      count += batch.size;
      return absl::OkStatus();
    }),
                IsOk());
    return count > 0;
  }

  // It knows the kernels of NCCL alone, and takes those of symmetric memory for computation.
  static bool IsUnknownToHta(std::string_view kernel) {
    return kernel.find("multimem_all_reduce_kernel") != std::string_view::npos;
  }
  bool HasCollectivesThatHtaDoesNotKnow() {
    const auto& names = trace_.reader().names();
    return std::any_of(names.begin(), names.end(), IsUnknownToHta);
  }
  static int64_t NanosecondsOf(const nlohmann::json& us) {
    return static_cast<int64_t>(us.get<double>() * 1000);
  }

  // Holistic Trace Analysis cuts every activity to whole microseconds, begin and end; and what
  // overlaps in its stream counts as a gap below zero.
  static void ExpectMicroseconds(int64_t ours_ns, const nlohmann::json& theirs_us,
                                 int64_t activities) {
    EXPECT_NEAR(static_cast<double>(ours_ns) / 1000, theirs_us.get<double>(),
                2 * static_cast<double>(activities));
  }

  ImportedTrace trace_;
};

#define READ_OR_SKIP(kept) \
  if (!Read(kept)) GTEST_SKIP() << Path() << " is not there; set PROFD_TEST_DATA"

// Traces that say, by "External id", which operator each kernel belongs to.
class LinkedTraceTest : public RealTraceTest {};

TEST_P(LinkedTraceTest, ByThreadAndTimeKernelsGoToTheOperatorTorchLinkedThemTo) {
  READ_OR_SKIP(GpuWorkKept::kAll);
  absl::StatusOr<GpuAttribution> attribution = GpuAttribution::Build(trace_.reader());
  ASSERT_THAT(attribution, IsOk());
  const std::map<uint32_t, std::string> linked_op = ReadTorchFacts(Path()).linked_op;
  size_t same = 0;
  for (const auto& [correlation, op] : linked_op) {
    const GpuAttribution::Call* call = attribution->Find(correlation);
    if (call == nullptr || call->path == RangePaths::kNone) continue;
    if (trace_.reader().names()[attribution->paths()[call->path].name] == op) ++same;
  }
  EXPECT_GT(linked_op.size(), 500u);
  EXPECT_GE(same, linked_op.size() * 99 / 100) << "of " << linked_op.size();
}

TEST_P(RealTraceTest, BusyAndIdleTimesAreThoseOfHolisticTraceAnalysis) {
  READ_OR_SKIP(GpuWorkKept::kAllButOfTheLastStep);
  const nlohmann::json expected = Expected();
  absl::StatusOr<TimeReport> report = SummarizeTime(trace_.reader(), {});
  ASSERT_THAT(report, IsOk());
  const TimeBreakdown& whole = report->whole;
  int64_t activities = 0;
  for (const StreamIdleRow& row : report->streams) activities += row.activity_count;

  // It takes waits in the trace for work of the GPU, so that only this can be compared there.
  const nlohmann::json& temporal = expected["temporal"];
  if (temporal.is_array()) {
    if (HasCollectivesThatHtaDoesNotKnow()) {
      EXPECT_LT(whole.compute_ns, NanosecondsOf(temporal[0]["compute_time(us)"]));
      ExpectMicroseconds(whole.kernel_time_ns, temporal[0]["kernel_time(us)"], activities);
      ExpectMicroseconds(whole.idle_ns, temporal[0]["idle_time(us)"], activities);
    } else {
      ExpectMicroseconds(whole.compute_ns, temporal[0]["compute_time(us)"], activities);
    }
    if (!HasWaits() && !HasCollectivesThatHtaDoesNotKnow()) {
      ExpectMicroseconds(whole.kernel_time_ns, temporal[0]["kernel_time(us)"], activities);
      ExpectMicroseconds(whole.idle_ns, temporal[0]["idle_time(us)"], activities);
      ExpectMicroseconds(whole.busy_ns - whole.compute_ns, temporal[0]["non_compute_time(us)"],
                         activities);
    }
  }
  int compared = 0;
  for (const nlohmann::json& row : expected["idle"]) {
    for (const StreamIdleRow& stream : report->streams) {
      if (stream.stream != row["stream"]) continue;
      const std::string cause = row["idle_category"];
      const int64_t ours = cause == "host_wait"     ? stream.host_wait_ns
                           : cause == "kernel_wait" ? stream.kernel_wait_ns
                                                    : stream.other_ns;
      SCOPED_TRACE(testing::Message() << "stream " << stream.stream << ", " << cause);
      ExpectMicroseconds(ours, row["idle_time"], stream.activity_count);
      ++compared;
    }
  }
  EXPECT_GT(compared, 0);
}

// What we know to differ from Holistic Trace Analysis, in microseconds.
int64_t KnownDifference(std::string_view trace) {
  // An operator of Triton has the argument "stream", so that it takes it for a kernel of 73 us.
  if (trace == "b200_eager") return 73;
  // A kernel whose launch is not in the trace counts as launched with the file's first event.
  if (trace == "h100_qwen1.5_0.5b") return 18;
  // Its microseconds are binary fractions: an end may be rounded down by one too many.
  return trace == "nccl_rank" ? 1 : 0;
}

// As Holistic Trace Analysis itself has them, to the microsecond.
class HtaTest : public RealTraceTest {
 protected:
  static constexpr double kMicrosecond = 1000;
  TimeReport Report() {
    absl::StatusOr<TimeReport> report = SummarizeAsHta(trace_.reader());
    EXPECT_THAT(report, IsOk());
    return report.ok() ? *std::move(report) : TimeReport();
  }
  static void ExpectSame(int64_t ours_ns, const nlohmann::json& theirs_us) {
    EXPECT_NEAR(static_cast<double>(ours_ns) / kMicrosecond, theirs_us.get<double>(),
                static_cast<double>(KnownDifference(GetParam())));
  }
};

TEST_P(HtaTest, TemporalBreakdown) {
  READ_OR_SKIP(GpuWorkKept::kAll);
  const nlohmann::json expected = Expected()["temporal"];
  const TimeBreakdown whole = Report().whole;
  const IdleCauses& causes = whole.idle_by_cause;
  EXPECT_EQ(causes.host_wait_ns + causes.kernel_wait_ns + causes.other_ns, whole.idle_ns);
  if (!expected.is_array()) GTEST_SKIP() << "it has no answer to this trace: " << expected;
  ExpectSame(whole.kernel_time_ns, expected[0]["kernel_time(us)"]);
  ExpectSame(whole.idle_ns, expected[0]["idle_time(us)"]);
  ExpectSame(whole.compute_ns, expected[0]["compute_time(us)"]);
  ExpectSame(whole.busy_ns - whole.compute_ns, expected[0]["non_compute_time(us)"]);
}

TEST_P(HtaTest, IdleTimeByStream) {
  READ_OR_SKIP(GpuWorkKept::kAll);
  const nlohmann::json expected = Expected()["idle"];
  const TimeReport report = Report();
  size_t compared = 0;
  for (const nlohmann::json& row : expected) {
    for (const StreamIdleRow& stream : report.streams) {
      if (stream.stream != row["stream"]) continue;
      const std::string cause = row["idle_category"];
      SCOPED_TRACE(testing::Message() << "stream " << stream.stream << ", " << cause);
      ExpectSame(cause == "host_wait"     ? stream.host_wait_ns
                 : cause == "kernel_wait" ? stream.kernel_wait_ns
                                          : stream.other_ns,
                 row["idle_time"]);
      ++compared;
    }
  }
  EXPECT_EQ(compared, expected.size());
  EXPECT_GT(compared, 0u);
}

TEST_P(HtaTest, OverlapAndTypesOfKernels) {
  READ_OR_SKIP(GpuWorkKept::kAll);
  const nlohmann::json expected = Expected();
  const TimeReport report = Report();
  const nlohmann::json& overlap = expected["overlap"][0]["comp_comm_overlap_pctg"];
  if (overlap.is_null()) {
    EXPECT_EQ(report.overlap, -1);
  } else {
    EXPECT_NEAR(100 * report.overlap, overlap.get<double>(), 0.0051);
  }
  const nlohmann::json& types = expected["kernel_breakdown"]["type"];
  ASSERT_EQ(report.kernel_types.size(), types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    EXPECT_EQ(ToString(report.kernel_types[i]), types[i]["kernel_type"]);
    ExpectSame(report.kernel_types[i].total_ns, types[i]["sum"]);
    const double tolerance = GetParam() == std::string_view("b200_eager") ? 0.1 : 0.0501;
    EXPECT_NEAR(100 * report.kernel_types[i].share, types[i]["percentage"].get<double>(),
                tolerance);
  }
}

TEST_P(HtaTest, Launches) {
  READ_OR_SKIP(GpuWorkKept::kAll);
  const nlohmann::json expected = Expected()["launch"];
  const LaunchStatistics launches = Report().launches;
  EXPECT_EQ(launches.count, expected["n"]);
  ExpectSame(launches.call_ns, expected["cpu_sum"]);
  ExpectSame(launches.device_ns, expected["gpu_sum"]);
  ExpectSame(launches.delay_ns, expected["delay_sum"]);
  EXPECT_EQ(launches.median_delay_ns / kMicrosecond, expected["delay_median"]);
}

TEST_P(HtaTest, QueueLengths) {
  READ_OR_SKIP(GpuWorkKept::kAll);
  const nlohmann::json expected = Expected()["queue"];
  const TimeReport report = Report();
  ASSERT_EQ(report.queues.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const QueueRow& row = report.queues[i];
    const auto of = [&](const char* what) {
      return expected[i]["('queue_length', '" + std::string(what) + "')"].get<double>();
    };
    EXPECT_EQ(row.stream, expected[i]["('stream', '')"]);
    EXPECT_EQ(static_cast<double>(row.change_count), of("count"));
    // It leaves the order of what is launched and what begins in one microsecond to chance.
    EXPECT_NEAR(row.mean, of("mean"), 0.025);
    EXPECT_NEAR(row.standard_deviation, of("std"), 0.01);
    EXPECT_EQ(row.min, of("min"));
    EXPECT_EQ(row.p25, of("25%"));
    EXPECT_EQ(row.p50, of("50%"));
    EXPECT_EQ(row.p75, of("75%"));
    EXPECT_EQ(row.max, of("max"));
  }
}

TEST_P(RealTraceTest, TotalsOfKernelsAreThoseOfHolisticTraceAnalysis) {
  READ_OR_SKIP(GpuWorkKept::kAllButOfTheLastStep);
  const nlohmann::json expected = Expected();
  absl::StatusOr<KernelTable> kernels = SummarizeKernels(trace_.reader(), {});
  ASSERT_THAT(kernels, IsOk());
  int compared = 0;
  for (const nlohmann::json& top : expected["kernel_breakdown"]["top"]) {
    for (const KernelRow& row : kernels->rows) {
      if (row.name != top["name"]) continue;
      SCOPED_TRACE(row.name);
      ExpectMicroseconds(row.total_ns, top["sum (us)"], row.count);
      EXPECT_EQ(row.is_communication,
                top["kernel_type"] == "COMMUNICATION" || IsUnknownToHta(row.name));
      ++compared;
    }
  }
  EXPECT_GT(compared, 0);
}

TEST_P(RealTraceTest, OccupancyIsWhatTorchEstimates) {
  READ_OR_SKIP(GpuWorkKept::kAll);
  absl::StatusOr<KernelTable> kernels = SummarizeKernels(trace_.reader(), {});
  ASSERT_THAT(kernels, IsOk());
  const TorchFacts facts = ReadTorchFacts(Path());
  int compared = 0;
  for (const KernelRow& row : kernels->rows) {
    const auto [least, greatest] = facts.occupancy_percent.at(row.name);
    // Torch gives 0 for kernels that ask for more shared memory than they get by default.
    if (least <= 0) continue;
    EXPECT_GE(100 * row.occupancy, static_cast<double>(least) - 1.01) << row.name;
    EXPECT_LE(100 * row.occupancy, static_cast<double>(greatest) + 1.01) << row.name;
    ++compared;
  }
  EXPECT_GT(compared, 5);
}

INSTANTIATE_TEST_SUITE_P(Traces, LinkedTraceTest,
                         testing::Values("b200_eager", "h100_owlv2_large", "h100_qwen1.5_0.5b",
                                         "nccl_rank"));
INSTANTIATE_TEST_SUITE_P(Traces, HtaTest,
                         testing::Values("alexnet_train", "b200_eager", "h100_qwen1.5_0.5b",
                                         "h100_owlv2_large", "nccl_rank", "diff_control",
                                         "diff_test"));
INSTANTIATE_TEST_SUITE_P(Traces, RealTraceTest,
                         testing::Values("alexnet_train", "b200_eager", "h100_qwen1.5_0.5b",
                                         "nccl_rank", "diff_control"));

}  // namespace
}  // namespace profd::report
