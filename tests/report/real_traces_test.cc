// Reports over traces of real GPUs beside what Holistic Trace Analysis says of them. The traces
// are no part of the source: PROFD_TRACE_DATA names their folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "daemon/report/gpu_attribution.h"
#include "daemon/report/reports.h"
#include "tests/fakes/status_matchers.h"
#include "tests/report/kineto_trace.h"

namespace profd::report {
namespace {

std::filesystem::path TraceFolder() {
  if (const char* folder = std::getenv("PROFD_TRACE_DATA")) return folder;
  const char* source = std::getenv("PROFD_SOURCE_DIR");
  const std::filesystem::path checkout =
      std::filesystem::absolute(source == nullptr ? "." : source);
  return checkout.parent_path() / "shared" / "data" / "traces";
}

class RealTraceTest : public testing::TestWithParam<const char*> {
 protected:
  // False: skipped.
  bool Read(StepsKept kept) {
    const std::filesystem::path path = TraceFolder() / (std::string(GetParam()) + ".json.gz");
    if (!std::filesystem::exists(path)) return false;
    EXPECT_THAT(ReadKinetoTrace(path, kept, trace_), IsOk());
    return true;
  }
  nlohmann::json Expected() const {
    std::ifstream file(TraceFolder() / "expected_hta" / (std::string(GetParam()) + ".json"));
    return nlohmann::json::parse(file, nullptr, false);
  }

  // Holistic Trace Analysis cuts every activity to whole microseconds, begin and end; and what
  // overlaps in its stream counts as a gap below zero.
  static void ExpectMicroseconds(int64_t ours_ns, const nlohmann::json& theirs_us,
                                 int64_t activities) {
    EXPECT_NEAR(static_cast<double>(ours_ns) / 1000, theirs_us.get<double>(),
                2 * static_cast<double>(activities));
  }

  KinetoTrace trace_;
};

#define READ_OR_SKIP(kept) \
  if (!Read(kept)) GTEST_SKIP() << "no traces in " << TraceFolder() << "; set PROFD_TRACE_DATA"

// Traces that say, by "External id", which operator each kernel belongs to.
class LinkedTraceTest : public RealTraceTest {};

TEST_P(LinkedTraceTest, ByThreadAndTimeKernelsGoToTheOperatorTorchLinkedThemTo) {
  READ_OR_SKIP(StepsKept::kAll);
  absl::StatusOr<GpuAttribution> attribution = GpuAttribution::Build(trace_.reader);
  ASSERT_THAT(attribution, IsOk());
  size_t same = 0;
  for (const auto& [correlation, op] : trace_.linked_op) {
    const GpuAttribution::Call* call = attribution->Find(correlation);
    if (call == nullptr || call->path == RangePaths::kNone) continue;
    if (trace_.reader.names()[attribution->paths()[call->path].name] == op) ++same;
  }
  EXPECT_GT(trace_.linked_op.size(), 500u);
  EXPECT_GE(same, trace_.linked_op.size() * 99 / 100) << "of " << trace_.linked_op.size();
}

TEST_P(RealTraceTest, BusyAndIdleTimesAreThoseOfHolisticTraceAnalysis) {
  READ_OR_SKIP(StepsKept::kAllButTheLast);
  const nlohmann::json expected = Expected();
  absl::StatusOr<IdleTable> idle = SummarizeIdle(trace_.reader);
  ASSERT_THAT(idle, IsOk());
  ASSERT_EQ(idle->rows.front().step, -1);
  const IdleRow& whole = idle->rows.front();
  int64_t activities = 0;
  for (const StreamIdleRow& row : idle->streams) activities += row.activity_count;

  // It takes waits in the trace for work of the GPU, so that only this can be compared there.
  const nlohmann::json& temporal = expected["temporal"];
  if (temporal.is_array()) {
    ExpectMicroseconds(whole.compute_ns, temporal[0]["compute_time(us)"], activities);
    if (!trace_.has_syncs) {
      ExpectMicroseconds(whole.duration_ns, temporal[0]["kernel_time(us)"], activities);
      ExpectMicroseconds(whole.idle_ns, temporal[0]["idle_time(us)"], activities);
      ExpectMicroseconds(whole.busy_ns - whole.compute_ns, temporal[0]["non_compute_time(us)"],
                         activities);
    }
  }
  int compared = 0;
  for (const nlohmann::json& row : expected["idle"]) {
    for (const StreamIdleRow& stream : idle->streams) {
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

TEST_P(RealTraceTest, TotalsOfKernelsAreThoseOfHolisticTraceAnalysis) {
  READ_OR_SKIP(StepsKept::kAllButTheLast);
  const nlohmann::json expected = Expected();
  absl::StatusOr<KernelTable> kernels = SummarizeKernels(trace_.reader, {});
  ASSERT_THAT(kernels, IsOk());
  int compared = 0;
  for (const nlohmann::json& top : expected["kernel_breakdown"]["top"]) {
    for (const KernelRow& row : kernels->rows) {
      if (row.name != top["name"]) continue;
      SCOPED_TRACE(row.name);
      ExpectMicroseconds(row.total_ns, top["sum (us)"], row.count);
      EXPECT_EQ(row.is_communication, top["kernel_type"] == "COMMUNICATION");
      ++compared;
    }
  }
  EXPECT_GT(compared, 0);
}

TEST_P(RealTraceTest, OccupancyIsWhatTorchEstimates) {
  READ_OR_SKIP(StepsKept::kAll);
  absl::StatusOr<KernelTable> kernels = SummarizeKernels(trace_.reader, {});
  ASSERT_THAT(kernels, IsOk());
  int compared = 0;
  for (const KernelRow& row : kernels->rows) {
    const auto [least, greatest] = trace_.occupancy_percent.at(row.name);
    // Torch gives 0 for kernels that ask for more shared memory than they get by default.
    if (least <= 0) continue;
    EXPECT_GE(100 * row.occupancy, static_cast<double>(least) - 1.01) << row.name;
    EXPECT_LE(100 * row.occupancy, static_cast<double>(greatest) + 1.01) << row.name;
    ++compared;
  }
  EXPECT_GT(compared, 5);
}

TEST(RealTraceOracleTest, DeviceTimesOfOperatorsAreThoseOfTraceLens) {
  const std::filesystem::path trace_path = TraceFolder() / "h100_qwen1.5_0.5b.json.gz";
  std::ifstream oracle(TraceFolder() / "oracle_h100_qwen" / "ops_summary.csv");
  if (!std::filesystem::exists(trace_path) || !oracle) {
    GTEST_SKIP() << "no traces in " << TraceFolder() << "; set PROFD_TRACE_DATA";
  }
  KinetoTrace trace;
  ASSERT_THAT(ReadKinetoTrace(trace_path, StepsKept::kAll, trace), IsOk());
  absl::StatusOr<OpTable> ops = SummarizeOps(trace.reader, {});
  ASSERT_THAT(ops, IsOk());
  std::map<std::string, double> self_us;
  for (const OpRow& row : ops->rows) {
    self_us[row.name] = static_cast<double>(row.self_device_ns) / 1000;
  }
  std::string line;
  std::getline(oracle, line);  // name,total_direct_kernel_time_sum,...
  int compared = 0;
  while (std::getline(oracle, line)) {
    const size_t comma = line.find(',');
    const std::string name = line.substr(0, comma);
    const double expected_us = std::stod(line.substr(comma + 1));
    EXPECT_NEAR(self_us[name], expected_us, 0.01) << name;  // A float's worth of digits.
    ++compared;
  }
  EXPECT_GT(compared, 10);
}

INSTANTIATE_TEST_SUITE_P(Traces, LinkedTraceTest,
                         testing::Values("b200_eager", "h100_owlv2_large", "h100_qwen1.5_0.5b",
                                         "nccl_rank"));
INSTANTIATE_TEST_SUITE_P(Traces, RealTraceTest,
                         testing::Values("alexnet_train", "b200_eager", "h100_qwen1.5_0.5b",
                                         "nccl_rank", "diff_control"));

}  // namespace
}  // namespace profd::report
