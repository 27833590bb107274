// Says more of the operator that takes the most GPU time: its inputs, how fast it computes, and the
// modules that call it; only of captures with inputs or modules, because it reads all ranges again.
// Of programs without a GPU, which operator or range takes most of the host's.
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/report/findings/gather.h"
#include "daemon/report/index/op_kinds.h"
#include "daemon/report/index/place_index.h"
#include "daemon/report/ops/profile.h"

namespace profd::report {
namespace {

// An operator of the host is named if it takes so much of the time, and of that in all ranges.
constexpr double kLeastOfTime = 0.25;
constexpr double kLeastOfRanges = 0.4;

// "layers.3.mlp" -> "layers.*.mlp", "Linear_12" -> "Linear_*": the layers of a model are alike.
std::string WithoutNumbers(std::string_view module) {
  std::string alike;
  for (size_t i = 0; i < module.size(); ++i) {
    const bool is_digit = std::isdigit(static_cast<unsigned char>(module[i])) != 0;
    const bool begins = i == 0 || module[i - 1] == '.' || module[i - 1] == '_';
    if (!is_digit || !begins) {
      alike += module[i];
      continue;
    }
    while (i + 1 < module.size() && std::isdigit(static_cast<unsigned char>(module[i + 1])) != 0) {
      ++i;
    }
    alike += '*';
  }
  return alike;
}

bool HasModules(const store::CaptureReader& reader) {
  if (reader.RowsOf(RowKind::kStack) > 0) return true;
  return std::ranges::any_of(
      reader.names(), [](const std::string& name) { return name.starts_with(kModulePrefix); });
}

absl::Status FindInputs(store::CaptureReader& reader, KernelFacts& kernels) {
  ASSIGN_OR_RETURN(const OpProfile profile,
                   SummarizeOpProfile(reader, {.group = OpGroup::kInputs}));
  const OpProfileRow* most = nullptr;
  for (const OpProfileRow& row : profile.rows) {
    if (row.name != kernels.hottest_op || row.self_device_ns <= 0) continue;
    if (most == nullptr || row.self_device_ns > most->self_device_ns) most = &row;
  }
  // A trace may have the values of an operator's inputs, and an empty list of their shapes.
  if (most == nullptr || most->dims == "[]") return absl::OkStatus();
  kernels.hottest_inputs = most->dims;
  kernels.hottest_flops_per_s = most->flops_per_s;
  kernels.hottest_peak_share = most->peak_share;
  kernels.hottest_type = most->dtype;
  return absl::OkStatus();
}

absl::Status FindModule(store::CaptureReader& reader, KernelFacts& kernels) {
  ASSIGN_OR_RETURN(const OpProfile profile,
                   SummarizeOpProfile(reader, {.group = OpGroup::kModule}));
  absl::flat_hash_map<std::string, int64_t> ns_by_module;
  int64_t total_ns = 0;
  for (const OpProfileRow& row : profile.rows) {
    total_ns += row.self_device_ns;
    if (!row.module.empty()) ns_by_module[WithoutNumbers(row.module)] += row.self_device_ns;
  }
  for (const auto& [module, ns] : ns_by_module) {
    const double share =
        total_ns <= 0 ? 0 : static_cast<double>(ns) / static_cast<double>(total_ns);
    const bool is_first = share == kernels.hottest_module_share && module < kernels.hottest_module;
    if (share <= kernels.hottest_module_share && !is_first) continue;
    kernels.hottest_module = module;
    kernels.hottest_module_share = share;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DescribeHottest(store::CaptureReader& reader, KernelFacts& kernels) {
  if (kernels.hottest_op.empty()) return absl::OkStatus();
  if (reader.RowsOf(RowKind::kOperator) > 0) RETURN_IF_ERROR(FindInputs(reader, kernels));
  if (HasModules(reader)) RETURN_IF_ERROR(FindModule(reader, kernels));
  return absl::OkStatus();
}

absl::Status DescribeHottestOnHost(store::CaptureReader& reader, HostFacts& host) {
  const int64_t covered_ns = reader.record().covered_ns;
  ASSIGN_OR_RETURN(const OpProfile profile, SummarizeOpProfile(reader, {.sums_only = true}));
  for (const OpProfileRow& row : profile.rows) {
    if (row.name == kStepRow) continue;  // Of the program's own profiler, around all else.
    const double of_time =
        covered_ns <= 0 ? 0
                        : static_cast<double>(row.self_cpu_ns) / static_cast<double>(covered_ns);
    if (row.self_cpu_share <= host.hottest_share || of_time < kLeastOfTime) continue;
    host.hottest = row.name;
    host.hottest_share = row.self_cpu_share;
    host.hottest_source = row.top_source;
    host.hottest_of_time = of_time;
  }
  if (host.hottest_share < kLeastOfRanges) host.hottest.clear();
  return absl::OkStatus();
}

}  // namespace profd::report
