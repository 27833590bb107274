#include "daemon/report/findings/thresholds.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/text_file.h"
#include "daemon/report/findings/rules.h"

namespace profd::report {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;

enum class ValueKind { kShare, kTime, kBytes, kNumber };

struct ThresholdKey {
  std::string_view name;
  double FindingThresholds::*member;
  ValueKind kind;
  double min;
  double max;
  std::string_view meaning;
};

using F = FindingThresholds;
constexpr double kHour = 3600e9;
constexpr double kPetabyte = 1e15;
constexpr std::array kKeys = {
    ThresholdKey{"input.wait_share", &F::input_wait_share, ValueKind::kShare, 0, 1,
                 "INPUT_BOUND: of a step, waiting for data while the GPU does nothing"},
    ThresholdKey{"communication.exposed_share", &F::exposed_communication_share, ValueKind::kShare,
                 0, 1, "COMM_EXPOSED: of a step, communication that no compute hides"},
    ThresholdKey{"gpu.busy_share", &F::gpu_busy_share, ValueKind::kShare, 0, 1,
                 "GPU_UNDERUSED: of a step, the GPU is busy for less than this"},
    ThresholdKey{"gap.p95_share", &F::gap_p95_share, ValueKind::kShare, 0, 1,
                 "GPU_GAP: of a step, the 95th percentile of gaps, and all long gaps together"},
    ThresholdKey{"gap.shortest", &F::gap_shortest_ns, ValueKind::kTime, 1e3, kHour,
                 "GPU_GAP: one gap that is this long is enough"},
    ThresholdKey{"idle.host_wait_share", &F::host_wait_share, ValueKind::kShare, 0, 1,
                 "IDLE_HOST_WAIT: of a step, the GPU waits for launches"},
    ThresholdKey{"idle.launch_call_share", &F::launch_call_share, ValueKind::kShare, 0, 1,
                 "SLOW_LAUNCH_CALLS: of a step, the GPU waits in launch calls that take long"},
    ThresholdKey{"idle.host_work_share", &F::host_work_share, ValueKind::kShare, 0, 1,
                 "HOST_WORK: of a step, the GPU waits while long ranges launch nothing"},
    ThresholdKey{"idle.api_call_share", &F::api_call_share, ValueKind::kShare, 0, 1,
                 "SLOW_API_CALLS: of a step, the GPU waits in other calls that take long"},
    ThresholdKey{"idle.late_start_share", &F::late_start_share, ValueKind::kShare, 0, 1,
                 "LATE_START: of a step, the GPU is idle long after the next launch"},
    ThresholdKey{"idle.kernel_wait_share", &F::kernel_wait_share, ValueKind::kShare, 0, 1,
                 "IDLE_KERNEL_WAIT: of a step, short gaps between work already launched"},
    ThresholdKey{"idle.other_share", &F::other_idle_share, ValueKind::kShare, 0, 1,
                 "IDLE_OTHER: of a step, other gaps"},
    ThresholdKey{"host.outside_share", &F::host_outside_share, ValueKind::kShare, 0, 1,
                 "HOST_BOUND: of a step, host time outside operators while the GPU is idle"},
    ThresholdKey{"cpu.wait_share", &F::cpu_wait_share, ValueKind::kShare, 0, 1,
                 "CPU_CONTENTION: of the window, the thread that marks steps waits for a CPU"},
    ThresholdKey{"sync.idle_share", &F::sync_share, ValueKind::kShare, 0, 1,
                 "SYNC_API: of a step, the GPU idle after a call that waited for it"},
    ThresholdKey{"copies.exposed_share", &F::exposed_copy_share, ValueKind::kShare, 0, 1,
                 "COPY_EXPOSED: of a step, copies while no kernel runs"},
    ThresholdKey{"copies.pageable_share", &F::pageable_share, ValueKind::kShare, 0, 1,
                 "MEMCPY_PAGEABLE_ASYNC: of a step, in asynchronous copies of pageable memory"},
    ThresholdKey{"copies.blocking_share", &F::blocking_copy_share, ValueKind::kShare, 0, 1,
                 "MEMCPY_SYNC: of a step, in copies that the program waits for"},
    ThresholdKey{"copies.smallest", &F::copy_smallest_bytes, ValueKind::kBytes, 0, kPetabyte,
                 "both of them: smaller copies do not count"},
    ThresholdKey{"copies.link_share", &F::link_share, ValueKind::kShare, 0, 1,
                 "H2D_BW_LOW: of the link's bandwidth, copies reach less than this"},
    ThresholdKey{"copies.link_smallest", &F::link_smallest_bytes, ValueKind::kBytes, 0, kPetabyte,
                 "H2D_BW_LOW: smaller copies do not count"},
    ThresholdKey{"copies.link_bandwidth", &F::link_gb_per_s, ValueKind::kNumber, 0, 10'000,
                 "H2D_BW_LOW: GB/s from host to GPU; 0: by the GPU's generation"},
    ThresholdKey{"tensor_cores.eligible_share", &F::tensor_core_share, ValueKind::kShare, 0, 1,
                 "TC_UNUSED: of kernel time, work fit for tensor cores"},
    ThresholdKey{"small_kernels.duration", &F::small_kernel_ns, ValueKind::kTime, 1, kHour,
                 "SMALL_KERNELS, TINY_KERNELS_OF_OP: a kernel below this is small"},
    ThresholdKey{"small_kernels.launch_bound_share", &F::launch_bound_share, ValueKind::kShare, 0,
                 1, "SMALL_KERNELS: of kernels, those that take less than their launch"},
    ThresholdKey{"small_kernels.idle_share", &F::launch_idle_share, ValueKind::kShare, 0, 1,
                 "SMALL_KERNELS: of a step, the GPU idle between launches"},
    ThresholdKey{"small_kernels.per_call", &F::kernels_per_call, ValueKind::kNumber, 1, 1e9,
                 "TINY_KERNELS_OF_OP: small kernels of one call of one operator"},
    ThresholdKey{"cuda_graph.idle_share", &F::cuda_graph_share, ValueKind::kShare, 0, 1,
                 "CUDA_GRAPH: of a step, gaps that a graph would close"},
    ThresholdKey{"fusion.share", &F::fusible_share, ValueKind::kShare, 0, 1,
                 "MISSING_FUSION: of kernel time, elementwise kernels that follow each other"},
    ThresholdKey{"attention.share", &F::attention_share, ValueKind::kShare, 0, 1,
                 "UNFUSED_ATTENTION: of kernel time, what a fused attention does not have"},
    ThresholdKey{"casts.share", &F::cast_share, ValueKind::kShare, 0, 1,
                 "CASTS: of kernel time, conversions of dtype; without a GPU, of a step"},
    ThresholdKey{"waves.efficiency", &F::wave_efficiency, ValueKind::kShare, 0, 1,
                 "LOW_WAVES: a kernel whose blocks fill less of the GPU than this is small"},
    ThresholdKey{"waves.share", &F::wave_share, ValueKind::kShare, 0, 1,
                 "LOW_WAVES: of kernel time, such kernels"},
    ThresholdKey{"memory.limit_share", &F::memory_limit_share, ValueKind::kShare, 0, 1,
                 "MEM_NEAR_LIMIT: of the device's memory, the peak"},
    ThresholdKey{"memory.fragmentation_share", &F::fragmentation_share, ValueKind::kShare, 0, 1,
                 "MEM_FRAG: of what is reserved at its peak, not allocated"},
    ThresholdKey{"memory.leak_per_step", &F::leak_bytes_per_step, ValueKind::kBytes, 0, kPetabyte,
                 "MEM_LEAK: growth per step; less is enough if it fills the memory in a day"},
    ThresholdKey{"memory.leak_per_hour", &F::leak_bytes_per_hour, ValueKind::kBytes, 0, kPetabyte,
                 "MEM_LEAK: growth per hour, where the size of the memory is not known"},
    ThresholdKey{"memory.allocation_share", &F::allocation_share, ValueKind::kShare, 0, 1,
                 "ALLOC_CHURN, START_UP: of a step, in calls that allocate or free device memory"},
    ThresholdKey{"steps.outlier_deviations", &F::step_outlier_deviations, ValueKind::kNumber, 1,
                 1e6, "STEP_OUTLIER: median absolute deviations above the median step"},
    ThresholdKey{"steps.first_ratio", &F::first_step_ratio, ValueKind::kNumber, 1, 1e6,
                 "WARMUP_INCLUDED: the first step over the median of the others"},
    ThresholdKey{"steps.around_ratio", &F::around_ratio, ValueKind::kNumber, 1, 1e6,
                 "QUALITY_WINDOW: the mean step around the capture over that in it"},
    ThresholdKey{"ranks.straggler_score", &F::straggler_score, ValueKind::kNumber, 0, 1e6,
                 "STRAGGLER_RANK: modified z-score of a rank's own work over the ranks"},
    ThresholdKey{"compile.share", &F::compile_share, ValueKind::kShare, 0, 1,
                 "RECOMPILES: of a step, compiling"},
    ThresholdKey{"compile.unused_lookup_share", &F::unused_lookup_share, ValueKind::kShare, 0, 1,
                 "RECOMPILE_LIMIT: of lookups of compiled code, those that find none to run"},
    ThresholdKey{"quality.lost_share", &F::lost_share, ValueKind::kShare, 0, 1,
                 "QUALITY_LOSS: of all events, the lost ones"},
    ThresholdKey{"quality.orphan_share", &F::orphan_share, ValueKind::kShare, 0, 1,
                 "QUALITY_ORPHANS: of GPU work, launched by no call in the capture"},
    ThresholdKey{"quality.perturbation_share", &F::perturbation_share, ValueKind::kShare, 0, 10,
                 "QUALITY_PERTURBATION: steps take longer by this while recorded"},
};
constexpr std::string_view kDisable = "disable";

struct Suffix {
  std::string_view text;
  double factor;
};
std::span<const Suffix> SuffixesOf(ValueKind kind) {
  static constexpr std::array<Suffix, 1> kShares = {{{"%", 0.01}}};
  static constexpr std::array<Suffix, 4> kTimes = {
      {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
  static constexpr std::array<Suffix, 4> kSizes = {
      {{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}}};
  switch (kind) {
    case ValueKind::kShare:
      return kShares;
    case ValueKind::kTime:
      return kTimes;
    case ValueKind::kBytes:
      return kSizes;
    case ValueKind::kNumber:
      return {};
  }
  return {};
}

std::optional<double> ParseValue(std::string_view text, ValueKind kind) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  const std::string_view unit = Trimmed(text.substr(static_cast<size_t>(end - text.data())));
  if (unit.empty() && kind != ValueKind::kTime) return value;
  for (const Suffix& suffix : SuffixesOf(kind)) {
    if (unit == suffix.text) return value * suffix.factor;
  }
  return std::nullopt;
}

std::string FormatValue(double value, ValueKind kind) {
  switch (kind) {
    case ValueKind::kShare:
      return absl::StrFormat("%g%%", value * 100);
    case ValueKind::kTime:
      if (value >= 1e6) return absl::StrFormat("%gms", value / 1e6);
      return absl::StrFormat("%gus", value / 1e3);
    case ValueKind::kBytes:
      return absl::StrFormat("%gKiB", value / 1024);
    case ValueKind::kNumber:
      return absl::StrFormat("%g", value);
  }
  return {};
}

std::string_view FormOf(ValueKind kind) {
  switch (kind) {
    case ValueKind::kShare:
      return "a share, as 0.1 or 10%";
    case ValueKind::kTime:
      return "a time with its unit, as 10us";
    case ValueKind::kBytes:
      return "a size, as 64KiB";
    case ValueKind::kNumber:
      return "a number";
  }
  return "a number";
}

size_t CommonStart(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                             a.begin());
}
// Of the candidates, the one that begins most like `word`; empty: none does.
template <typename Names>
std::string_view Nearest(std::string_view word, const Names& names) {
  std::string_view best;
  for (const std::string_view name : names) {
    if (CommonStart(word, name) > CommonStart(word, best)) best = name;
  }
  return CommonStart(word, best) >= 3 ? best : std::string_view();
}

class Parser {
 public:
  absl::StatusOr<FindingThresholds> Parse(std::string_view text) {
    if (text.size() > kMaxFileBytes) {
      return absl::InvalidArgumentError("a file of thresholds has at most 1 MiB");
    }
    RETURN_IF_ERROR(
        ForEachLine(text, "line ", Comments::kAnywhere,
                    [this](std::string_view line, int /*number*/) { return ParseLine(line); }));
    return thresholds_;
  }

 private:
  static absl::Status Error(const std::string& what) { return absl::InvalidArgumentError(what); }

  absl::Status ParseLine(std::string_view line) {
    const auto setting = SplitSetting(line);
    if (!setting.has_value()) {
      return Error(StrCat("'", ForDisplay(line, 80), "' is not `key = value`"));
    }
    const std::string_view name = setting->first;
    const std::string_view value = setting->second;
    if (!seen_.insert(std::string(name)).second) {
      return Error(StrCat("'", ForDisplay(name, 80), "' is given twice"));
    }
    if (name == kDisable) return ParseDisabled(value);
    const auto key = std::find_if(kKeys.begin(), kKeys.end(),
                                  [&](const ThresholdKey& k) { return k.name == name; });
    if (key == kKeys.end()) {
      std::array<std::string_view, kKeys.size()> names;
      std::transform(kKeys.begin(), kKeys.end(), names.begin(),
                     [](const ThresholdKey& k) { return k.name; });
      return Error(Unknown("threshold", name, Nearest(name, names)));
    }
    const std::optional<double> parsed = ParseValue(value, key->kind);
    if (!parsed.has_value() || *parsed < key->min || *parsed > key->max) {
      return Error(StrCat(name, ": '", ForDisplay(value, 40), "' is not ", FormOf(key->kind),
                          " from ", FormatValue(key->min, key->kind), " to ",
                          FormatValue(key->max, key->kind)));
    }
    thresholds_.*(key->member) = *parsed;
    return absl::OkStatus();
  }

  absl::Status ParseDisabled(std::string_view list) {
    while (!list.empty()) {
      const size_t end = std::min(list.find(','), list.size());
      const std::string_view rule = Trimmed(list.substr(0, end));
      list.remove_prefix(std::min(end + 1, list.size()));
      if (!IsRule(rule)) {
        return Error(Unknown("rule", rule, Nearest(rule, RuleIds())));
      }
      thresholds_.disabled.emplace(rule);
    }
    return absl::OkStatus();
  }

  static std::string Unknown(std::string_view what, std::string_view name,
                             std::string_view nearest) {
    std::string text = StrCat("there is no ", what, " '", ForDisplay(name, 80), "'");
    if (!nearest.empty()) StrAppend(&text, "; is '", nearest, "' meant?");
    return text;
  }

  FindingThresholds thresholds_;
  std::set<std::string, std::less<>> seen_;
};

}  // namespace

absl::StatusOr<FindingThresholds> ParseFindingThresholds(std::string_view untrusted_text) {
  return Parser().Parse(untrusted_text);
}

std::string FormatFindingThresholds(const FindingThresholds& thresholds) {
  std::string text = "# Thresholds of profctl report\n";
  for (const ThresholdKey& key : kKeys) {
    StrAppend(&text, "\n# ", key.meaning, "\n", key.name, " = ",
              FormatValue(thresholds.*(key.member), key.kind), "\n");
  }
  StrAppend(&text, "\n# Rules that are not looked at\n");
  std::string disabled;
  for (const std::string& rule : thresholds.disabled) {
    StrAppend(&disabled, disabled.empty() ? "" : ", ", rule);
  }
  StrAppend(&text, disabled.empty() ? "# " : "", kDisable, " = ",
            disabled.empty() ? std::string("STEP_OUTLIER, COPY_EXPOSED") : disabled, "\n");
  return text;
}

}  // namespace profd::report
