// Reports over the trace of an H100, imported as users do, beside the tables that TraceLens made of
// it (oracle_h100_qwen/). 509 of its 1707 pieces of GPU work were launched before it began: of
// those no tool knows an operator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/report/gpu/copy_table.h"
#include "daemon/report/gpu/kernel_table.h"
#include "daemon/report/ops/op_table.h"
#include "daemon/report/time/time_report.h"
#include "tests/fakes/status_matchers.h"
#include "tests/import/real_traces.h"
#include "tests/report/imported_trace.h"

namespace profd::report {
namespace {

using Row = std::vector<std::string>;

// Fields may be in quotes; those with quotes in them do not occur.
Row SplitCsv(std::string_view line) {
  Row fields(1);
  bool is_quoted = false;
  for (const char c : line) {
    if (c == '"') {
      is_quoted = !is_quoted;
    } else if (c == ',' && !is_quoted) {
      fields.emplace_back();
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  return fields;
}

double Us(int64_t ns) { return static_cast<double>(ns) / 1000; }

// "((16, 559), ())" as we have it: "[[16,559],[]]".
std::string DimsOf(std::string text) {
  std::erase(text, ' ');
  std::replace(text.begin(), text.end(), '(', '[');
  std::replace(text.begin(), text.end(), ')', ']');
  for (size_t at = 0; (at = text.find(",]")) != std::string::npos;) text.erase(at, 1);
  return text;
}

class TraceLensTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path trace = RealTrace("h100_qwen1.5_0.5b");
    folder_ = trace.parent_path() / "oracle_h100_qwen";
    if (!std::filesystem::exists(trace) || !std::filesystem::exists(folder_)) {
      GTEST_SKIP() << folder_ << " is not there; set PROFD_TEST_DATA";
    }
    ASSERT_THAT(trace_.Import(trace, GpuWorkKept::kAll), IsOk());
  }
  // Without the line of titles.
  std::vector<Row> Table(const char* name) const {
    std::ifstream file(folder_ / name);
    std::vector<Row> rows;
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) rows.push_back(SplitCsv(line));
    EXPECT_FALSE(rows.empty()) << name;
    return rows;
  }
  KernelTable Kernels() {
    absl::StatusOr<KernelTable> kernels = SummarizeKernels(trace_.reader(), {});
    EXPECT_THAT(kernels, IsOk());
    return *std::move(kernels);
  }
  OpTable Ops(bool by_inputs) {
    absl::StatusOr<OpTable> ops = SummarizeOps(trace_.reader(), {.by_inputs = by_inputs});
    EXPECT_THAT(ops, IsOk());
    return *std::move(ops);
  }
  // Like TraceLens, without work whose launch is not in the trace.
  TimeReport LaunchedTime() {
    absl::StatusOr<TimeReport> report = SummarizeTime(trace_.reader(), {.launched_only = true});
    EXPECT_THAT(report, IsOk());
    return *std::move(report);
  }

  ImportedTrace trace_;
  std::filesystem::path folder_;
};

TEST_F(TraceLensTest, DeviceTimesOfOperators) {
  std::map<std::string, double> self_us;
  for (const OpRow& row : Ops(/*by_inputs=*/false).rows) self_us[row.name] = Us(row.self_device_ns);
  const std::vector<Row> table = Table("ops_summary.csv");  // name,total_direct_kernel_time_sum,...
  for (const Row& row : table) {
    EXPECT_NEAR(self_us[row[0]], std::stod(row[1]), 0.01) << row[0];  // A float's worth of digits.
  }
  EXPECT_GT(table.size(), 10u);
}

// It takes memsets for computation.
TEST_F(TraceLensTest, TimelineOfTheGpu) {
  const TimeBreakdown whole = LaunchedTime().whole;
  const absl::StatusOr<CopyTable> copies = SummarizeCopies(trace_.reader());
  ASSERT_THAT(copies, IsOk());
  int64_t memcpy_ns = 0;
  for (const CopyRow& row : copies->rows) {
    if (row.name.starts_with("Memcpy")) memcpy_ns += row.total_ns;
  }
  EXPECT_EQ(whole.copy_ns, whole.exposed_copy_ns);  // So that nothing overlaps below.
  const std::map<std::string, int64_t> ours = {
      {"computation_time", whole.compute_ns + whole.copy_ns - memcpy_ns},
      {"exposed_comm_time", whole.exposed_communication_ns},
      {"exposed_memcpy_time", memcpy_ns},
      {"busy_time", whole.busy_ns},
      {"idle_time", whole.idle_ns},
      {"total_time", whole.kernel_time_ns},
      {"total_comm_time", whole.communication_ns},
      {"total_memcpy_time", memcpy_ns}};
  const std::vector<Row> table = Table("gpu_timeline.csv");  // type,time ms,percent
  for (const Row& row : table) {
    ASSERT_TRUE(ours.contains(row[0])) << row[0];
    // Times of 13 digits in a float of microseconds are right to 0.25 us.
    EXPECT_NEAR(static_cast<double>(ours.at(row[0])) / 1e6, std::stod(row[1]), 0.0005) << row[0];
  }
  EXPECT_EQ(table.size(), ours.size());
}

// Its rows are kernels by operator, ours are kernels and name the operator that launched most.
TEST_F(TraceLensTest, Kernels) {
  struct Kernel {
    int64_t count = 0;
    double sum_us = 0;
    double min_us = HUGE_VAL;
    double max_us = 0;
    double percent = 0;
    std::pair<double, std::string> op = {-1, ""};  // With its time.
  };
  std::map<std::string, Kernel> expected;
  for (const Row& row : Table("kernel_summary.csv")) {
    ASSERT_EQ(row.size(), 11u);
    EXPECT_EQ(row[3], "7");  // The stream.
    Kernel& kernel = expected[row[2]];
    kernel.count += std::stoll(row[5]);
    kernel.sum_us += std::stod(row[4]);
    kernel.min_us = std::min(kernel.min_us, std::stod(row[7]));
    kernel.max_us = std::max(kernel.max_us, std::stod(row[8]));
    kernel.percent += std::stod(row[9]);
    kernel.op = std::max(kernel.op, std::pair(std::stod(row[4]), row[1]));
  }
  const KernelTable kernels = Kernels();
  EXPECT_EQ(kernels.rows.size(), expected.size());
  for (const KernelRow& row : kernels.rows) {
    SCOPED_TRACE(row.name);
    ASSERT_TRUE(expected.contains(row.name));
    const Kernel& kernel = expected[row.name];
    EXPECT_EQ(row.count, kernel.count);
    EXPECT_NEAR(Us(row.total_ns), kernel.sum_us, 1e-6);
    EXPECT_NEAR(Us(row.mean_ns), kernel.sum_us / static_cast<double>(kernel.count), 0.001);
    EXPECT_NEAR(Us(row.min_ns), kernel.min_us, 1e-6);
    EXPECT_NEAR(Us(row.max_ns), kernel.max_us, 1e-6);
    EXPECT_NEAR(100 * row.share, kernel.percent, 1e-6);
    EXPECT_EQ(row.op, kernel.op.second);
  }
}

// Kernels below 10 us whose launch is in the trace; its "short" is ours.
TEST_F(TraceLensTest, ShortKernels) {
  const TimeReport time = LaunchedTime();
  std::map<std::pair<std::string, std::string>, double> self_us;  // By operator and sizes.
  for (const OpRow& row : Ops(/*by_inputs=*/true).rows) {
    self_us[{row.name, row.dims}] += Us(row.self_device_ns);
  }
  std::map<std::string, int64_t> expected;  // By operator.
  int64_t count = 0;
  double sum_us = 0;
  for (const Row& row : Table("short_kernels_summary.csv")) {
    ASSERT_EQ(row.size(), 9u);
    SCOPED_TRACE(testing::Message() << row[0] << " " << row[1]);
    expected[row[0]] += std::stoll(row[6]);
    count += std::stoll(row[6]);
    sum_us += std::stod(row[5]);
    // None of these operators launched anything longer with these sizes.
    EXPECT_NEAR((self_us[{row[0], DimsOf(row[1])}]), std::stod(row[5]), 1e-6);
    EXPECT_NEAR(100 * std::stod(row[5]) / Us(time.whole.kernel_time_ns), std::stod(row[8]), 1e-5);
  }
  EXPECT_EQ(time.launches.short_kernel_count, count);
  EXPECT_NEAR(Us(time.launches.short_kernel_ns), sum_us, 1e-6);
  std::map<std::string, int64_t> ours;
  for (const LaunchingOpRow& row : time.launching_ops) {
    if (row.short_kernel_count > 0) ours[row.name] = row.short_kernel_count;
  }
  EXPECT_EQ(ours, expected);
}

// Of all kernels, also those launched before the trace began. No report of ours has a histogram:
// that of the stored durations is its own, bin by bin.
TEST_F(TraceLensTest, DurationsOfShortKernels) {
  std::vector<double> short_us;
  ASSERT_THAT(trace_.reader().ForEach<GpuRow>(
                  kGpuTime | kGpuWhat, {},
                  [&](const GpuBatch& batch) {
                    for (size_t i = 0; i < batch.size; ++i) {
                      if (batch.kind[i] == static_cast<uint8_t>(GpuRowKind::kKernel) &&
                          batch.duration_ns[i] < kShortKernelNs) {
                        short_us.push_back(Us(batch.duration_ns[i]));
                      }
                    }
                    return absl::OkStatus();
                  }),
              IsOk());
  int64_t counted = 0;
  const std::vector<Row> bins = Table("short_kernel_histogram.csv");  // start,end,count
  for (const Row& bin : bins) {
    const double start_us = std::stod(bin[0]);
    const double end_us = std::stod(bin[1]);
    const bool is_last = &bin == &bins.back();
    const int64_t in_bin = std::count_if(short_us.begin(), short_us.end(), [&](double us) {
      return us >= start_us && (us < end_us || (is_last && us == end_us));
    });
    EXPECT_EQ(in_bin, std::stoll(bin[2])) << start_us << " us";
    counted += in_bin;
  }
  const absl::StatusOr<TimeReport> time = SummarizeTime(trace_.reader(), {});
  ASSERT_THAT(time, IsOk());
  EXPECT_EQ(time->launches.short_kernel_count, counted);
}

}  // namespace
}  // namespace profd::report
