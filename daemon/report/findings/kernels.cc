#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/median.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/findings/copies.h"
#include "daemon/report/findings/evidence_sums.h"
#include "daemon/report/findings/gather.h"
#include "daemon/report/findings/rules.h"
#include "daemon/report/gpu/occupancy.h"
#include "daemon/report/index/by_name.h"
#include "daemon/report/index/collective_names.h"
#include "daemon/report/index/gpu_names.h"
#include "daemon/report/index/kernel_purpose.h"
#include "daemon/report/index/place_index.h"
#include "daemon/report/index/stack_table.h"

namespace profd::report {
namespace {

bool HasPart(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// What a kernel is, judged by its name.
struct KernelName {
  bool tensor = false;
  bool elementwise = false;
  // A product of a matrix and a vector is bound by memory, one of doubles has other cores, and
  // some kernels only prepare or finish a product.
  bool no_tensor_work = false;
  // Of a library whose names tell whether it uses tensor cores; those of Triton do not.
  bool tells = false;
};

KernelName Classify(std::string_view name) {
  KernelName kernel = {.tensor = UsesTensorCores(name),
                       .elementwise = HasPart(name, "elementwise_kernel")};
  kernel.no_tensor_work = kernel.elementwise;
  for (const std::string_view part :
       {"gemv", "gemvx", "dgemm", "splitK", "splitk", "f64", "dot_kernel", "reduce_", "nchwToNhwc",
        "nhwcToNchw", "Memset", "vectorized"}) {
    if (HasPart(name, part)) kernel.no_tensor_work = true;
  }
  for (const std::string_view part :
       {"gemm", "Gemm", "cudnn", "cublas", "convolve", "conv2d", "wgrad", "dgrad", "fprop",
        "winograd", "magma", "miopen", "Cijk_"}) {
    if (HasPart(name, part)) kernel.tells = true;
  }
  return kernel;
}

// An operator whose work tensor cores are made for.
bool IsEligible(std::string_view op) {
  constexpr std::array<std::string_view, 20> kOps = {
      "aten::mm",
      "aten::addmm",
      "aten::bmm",
      "aten::baddbmm",
      "aten::linear",
      "aten::matmul",
      "aten::_addmm_activation",
      "aten::convolution",
      "aten::_convolution",
      "aten::cudnn_convolution",
      "aten::miopen_convolution",
      "aten::convolution_backward",
      "aten::cudnn_convolution_backward",
      "aten::cudnn_convolution_transpose",
      "aten::_scaled_dot_product_flash_attention",
      "aten::_flash_attention_forward",
      "aten::_scaled_dot_product_efficient_attention",
      "aten::_efficient_attention_forward",
      "aten::_flash_attention_backward",
      "aten::_efficient_attention_backward"};
  return std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

struct ShapeKey {
  std::array<uint32_t, 3> grid;
  std::array<uint32_t, 3> block;
  uint32_t registers;
  uint32_t static_bytes;
  uint32_t dynamic_bytes;
  friend bool operator==(const ShapeKey&, const ShapeKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const ShapeKey& key) {
    return H::combine(std::move(h), key.grid, key.block, key.registers, key.static_bytes,
                      key.dynamic_bytes);
  }
};

// How much of the device a launch's blocks fill, over its waves: 1 if they go in evenly.
double WaveEfficiency(const ShapeKey& key, const GpuDevice& device) {
  const double blocks = static_cast<double>(key.grid[0]) * key.grid[1] * key.grid[2];
  const auto sms = static_cast<double>(device.sm_count);
  if (blocks < 1 || sms < 1) return 1;
  if (blocks < sms) return blocks / sms;
  const std::optional<Occupancy> occupancy =
      EstimateOccupancy({.grid = key.grid,
                         .block = key.block,
                         .registers_per_thread = key.registers,
                         .static_shared_bytes = key.static_bytes,
                         .dynamic_shared_bytes = key.dynamic_bytes},
                        device);
  if (!occupancy.has_value() || occupancy->blocks_per_sm < 1) return 1;
  const double waves = blocks / (sms * static_cast<double>(occupancy->blocks_per_sm));
  // Within the first wave blocks share the multiprocessors evenly enough.
  if (waves <= 1) return 1;
  return waves / std::ceil(waves);
}

uint64_t Mix(uint64_t a) {
  a ^= a >> 33;
  a *= 0xff51afd7ed558ccdULL;
  a ^= a >> 33;
  a *= 0xc4ceb9fe1a85ec53ULL;
  return a ^ (a >> 33);
}

class KernelPass {
 public:
  KernelPass(FactSources& sources, const GpuDevice* device, KernelFacts& kernels, CopyFacts& copies)
      : sources_(sources),
        device_(device),
        facts_(kernels),
        window_start_ns_(sources.reader.record().windows.empty()
                             ? std::numeric_limits<int64_t>::min()
                             : sources.reader.record().windows.front().start_ns),
        copies_(sources, device, copies),
        copy_kernels_(sources.reader.names()),
        communication_kernels_(sources.reader.names(), sources.attribution),
        kernel_names_(sources.reader.names(), &Classify),
        eligible_names_(sources.reader.names(), &IsEligible),
        counts_work_items_(sources.reader.names(), &CountsWorkItems),
        launched_(sources.scope.stretches.size()) {}

  absl::Status Run() {
    facts_.knows_device = device_ != nullptr && device_->sm_count > 0;
    RETURN_IF_ERROR(sources_.reader.ForEach<GpuRow>(kGpuAllColumns, {}, [&](const GpuBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        if (batch.device[i] == sources_.device_number) AddRow(batch, i);
      }
      return absl::OkStatus();
    }));
    facts_.median_ns = Median(durations_);
    if (facts_.eligible_tensor_ns == 0) RETURN_IF_ERROR(LeaveOutOtherTypes());
    CountAlikeSteps();
    for (const EligibleKernel& kernel : eligible_kernels_) CountEligible(kernel.item);
    facts_.eligible_ns = facts_.OfAll(facts_.eligible_ns);
    const auto with_kernel = [&](uint32_t name, uint32_t, Evidence& row) {
      row.name = sources_.demangler.Demangle(sources_.Name(name));
    };
    const auto with_op = [&](uint32_t op, uint32_t kernel, Evidence& row) {
      row.name = sources_.Name(op);
      row.detail = StrCat("by ", sources_.demangler.Demangle(sources_.Name(kernel)));
    };
    facts_.low_waves = low_waves_.Take(EvidenceKind::kKernel, with_kernel);
    facts_.eligible_ops = eligible_.Take(EvidenceKind::kOp, with_op);
    copies_.Finish();
    return absl::OkStatus();
  }

 private:
  void AddRow(const GpuBatch& batch, size_t i) {
    const GpuAttribution::Call* call = sources_.attribution.Find(batch.correlation[i]);
    const auto kind = static_cast<GpuRowKind>(batch.kind[i]);
    if (kind == GpuRowKind::kKernel) AddToStep(batch, i, call);
    if (sources_.scope.PositionAt(batch.start_ns[i]) < 0) return;
    if (IsMemoryWork(kind)) copies_.Add(batch, i, call);
    if (kind == GpuRowKind::kGraphLaunch) ++facts_.graph_count;
    if (kind == GpuRowKind::kKernel) AddKernel(batch, i, call);
  }

  // Steps are alike if they launched the same kernels with the same grids, in any order.
  void AddToStep(const GpuBatch& batch, size_t i, const GpuAttribution::Call* call) {
    if (call == nullptr) return;
    const int64_t position = sources_.scope.PositionAt(call->start_ns);
    if (position < 0) return;
    Launched& launched = launched_[static_cast<size_t>(position)];
    ++launched.count;
    const uint64_t grid =
        uint64_t{batch.grid[0][i]} << 32 ^ uint64_t { batch.grid[1][i] } << 16 ^ batch.grid[2][i];
    launched.hash += Mix(Mix(sources_.first_ids[batch.name[i]]) ^ grid);
  }

  void AddKernel(const GpuBatch& batch, size_t i, const GpuAttribution::Call* call) {
    const uint32_t name = batch.name[i];
    const KernelName& kernel = kernel_names_.Of(name);
    if (communication_kernels_.Has(name, call) || copy_kernels_.Has(name, call)) return;
    const int64_t duration_ns = batch.duration_ns[i];
    ++facts_.count;
    facts_.total_ns += duration_ns;
    durations_.push_back(duration_ns);
    const bool is_node = batch.graph_id[i] != 0 || batch.graph_node_id[i] != 0;
    if (is_node) ++facts_.graph_count;
    if (call != nullptr) {
      if (call->path != RangePaths::kNone || call->start_ns >= window_start_ns_) {
        facts_.launched_ns += duration_ns;
      }
      PathLaunches& launches = sources_.launches[call->path];
      ++launches.kernels;
      launches.kernel_ns += static_cast<uint64_t>(duration_ns);
      // A node costs no launch of its own.
      if (!is_node && static_cast<double>(duration_ns) < sources_.thresholds.small_kernel_ns) {
        ++launches.small_kernels;
      }
      if (call->path != RangePaths::kNone) AddEligible(kernel, *call, batch, i);
    }
    if (facts_.knows_device) AddWaves(batch, i, call);
  }

  void AddEligible(const KernelName& kernel, const GpuAttribution::Call& call,
                   const GpuBatch& batch, size_t i) {
    if ((kernel.no_tensor_work || !kernel.tells) && !kernel.tensor) return;
    const uint32_t op = sources_.attribution.paths()[call.path].name;
    if (!eligible_names_.Of(op)) return;
    if (kernel.tensor) facts_.eligible_tensor_ns += batch.duration_ns[i];
    const EvidenceSums::Item item = {.name = sources_.first_ids[op],
                                     .detail = sources_.first_ids[batch.name[i]],
                                     .duration_ns = batch.duration_ns[i],
                                     .start_ns = batch.start_ns[i]};
    // Where some use tensor cores, no others are looked at.
    if (facts_.eligible_tensor_ns > 0) return CountEligible(item);
    eligible_kernels_.push_back({.call = &call, .item = item});
  }

  void CountEligible(const EvidenceSums::Item& item) {
    facts_.eligible_ns += item.duration_ns;
    eligible_.Add(item);
  }

  // Of an operator whose first input has another size than a float32, no other type is to be had
  // by autocast or TF32: it has it already, or is no work for tensor cores.
  absl::Status LeaveOutOtherTypes() {
    if (sources_.reader.RowsOf(RowKind::kOperator) == 0) return absl::OkStatus();
    absl::flat_hash_map<std::pair<uint32_t, int64_t>, bool> of_other_type;  // By thread and start.
    for (const EligibleKernel& kernel : eligible_kernels_) {
      of_other_type.try_emplace({kernel.call->thread, kernel.call->range_start_ns}, false);
    }
    std::vector<std::optional<bool>> is_other(sources_.reader.inputs().size());
    RETURN_IF_ERROR(sources_.reader.ForEach<OperatorRow>([&](const OperatorBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        const uint32_t inputs = batch.inputs[i];
        if (inputs == 0) continue;
        const auto found = of_other_type.find({batch.thread, batch.start_ns[i]});
        if (found == of_other_type.end()) continue;
        if (!is_other[inputs].has_value()) {
          is_other[inputs] = IsOfOtherType(sources_.reader.inputs()[inputs]);
        }
        found->second = found->second || *is_other[inputs];
      }
      return absl::OkStatus();
    }));
    std::erase_if(eligible_kernels_, [&](const EligibleKernel& kernel) {
      return of_other_type[{kernel.call->thread, kernel.call->range_start_ns}];
    });
    return absl::OkStatus();
  }
  static bool IsOfOtherType(const OperatorInputs& inputs) {
    constexpr int64_t kFloat32Bytes = 4;
    const FirstInputSize size = SizeOfFirstInput(inputs);
    return size.bytes.has_value() && size.elements.value_or(0) > 0 &&
           *size.bytes / *size.elements != kFloat32Bytes;
  }

  void AddWaves(const GpuBatch& batch, size_t i, const GpuAttribution::Call* call) {
    if (batch.grid[0][i] == 0 || batch.block[0][i] == 0) {
      facts_.unknown_wave_ns += batch.duration_ns[i];
      return;
    }
    ShapeKey key = {.grid = {batch.grid[0][i], batch.grid[1][i], batch.grid[2][i]},
                    .block = {batch.block[0][i], batch.block[1][i], batch.block[2][i]},
                    .registers = batch.registers_per_thread[i],
                    .static_bytes = batch.static_shared_bytes[i],
                    .dynamic_bytes = batch.dynamic_shared_bytes[i]};
    if (call != nullptr && counts_work_items_.Of(call->name)) {
      key.grid = BlocksOfWorkItems(key.grid, key.block);
    }
    const auto [at, inserted] = efficiency_.try_emplace(key, 1.0);
    if (inserted) at->second = WaveEfficiency(key, *device_);
    if (at->second >= sources_.thresholds.wave_efficiency) return;
    facts_.low_wave_ns += batch.duration_ns[i];
    facts_.low_wave_lost_ns +=
        static_cast<int64_t>((1 - at->second) * static_cast<double>(batch.duration_ns[i]));
    low_waves_.Add({.name = sources_.first_ids[batch.name[i]],
                    .duration_ns = batch.duration_ns[i],
                    .start_ns = batch.start_ns[i]});
  }

  void CountAlikeSteps() {
    if (!sources_.scope.has_steps) return;
    absl::flat_hash_map<std::pair<int64_t, uint64_t>, int64_t> steps;
    for (const Launched& launched : launched_) {
      if (launched.count == 0) continue;
      facts_.alike_steps = std::max(facts_.alike_steps, ++steps[{launched.count, launched.hash}]);
    }
  }

  struct Launched {
    int64_t count = 0;
    uint64_t hash = 0;
  };

  // In an operator that tensor cores are made for.
  struct EligibleKernel {
    const GpuAttribution::Call* call;
    EvidenceSums::Item item;
  };

  FactSources& sources_;
  const GpuDevice* const device_;
  KernelFacts& facts_;
  // Of calls before it no ranges are known, though CUPTI may have recorded the calls.
  const int64_t window_start_ns_;
  CopyPass copies_;
  CopyKernels copy_kernels_;
  CommunicationKernels communication_kernels_;
  ByName<KernelName> kernel_names_;
  ByName<bool> eligible_names_;
  ByName<bool> counts_work_items_;
  std::vector<Launched> launched_;  // By stretch of the scope.
  std::vector<int64_t> durations_;
  absl::flat_hash_map<ShapeKey, double> efficiency_;
  EvidenceSums low_waves_;
  std::vector<EligibleKernel> eligible_kernels_;
  EvidenceSums eligible_;
};

// ---- runs of elementwise kernels ----

class FusibleRuns {
 public:
  FusibleRuns(FactSources& sources, KernelFacts& facts)
      : sources_(sources),
        facts_(facts),
        names_(sources.reader.names(), &Classify),
        runs_(sources.work.streams().size()) {}

  void Find() {
    for (const Activity& activity : sources_.work.activities()) {
      if (sources_.work.DeviceOf(activity) != sources_.device_position) continue;
      Run& run = runs_[activity.stream];
      const bool fits = activity.kind == GpuRowKind::kKernel &&
                        names_.Of(activity.name).elementwise &&
                        sources_.scope.PositionAt(activity.start_ns) >= 0;
      if (!fits) {
        End(run);
        continue;
      }
      const int64_t duration_ns = activity.end_ns - activity.start_ns;
      if (run.count == 0) run = {.start_ns = activity.start_ns, .call = activity.call};
      ++run.count;
      run.total_ns += duration_ns;
      run.longest_ns = std::max(run.longest_ns, duration_ns);
    }
    for (Run& run : runs_) End(run);
    facts_.fusible = sums_.Take(EvidenceKind::kOp, [&](uint32_t op, uint32_t, Evidence& row) {
      row.name = op == 0 ? "(no range)" : sources_.Name(op);
      row.detail = "begins runs of elementwise kernels";
    });
  }

 private:
  struct Run {
    int64_t start_ns = 0;
    const GpuAttribution::Call* call = nullptr;
    int64_t count = 0;
    int64_t total_ns = 0;
    int64_t longest_ns = 0;
  };

  void End(Run& run) {
    if (run.count > 1) {
      const int64_t saved_ns = run.total_ns - run.longest_ns;
      facts_.fusible_ns += saved_ns;
      const uint32_t op = run.call == nullptr || run.call->path == RangePaths::kNone
                              ? 0
                              : sources_.attribution.paths()[run.call->path].name;
      sums_.Add(
          {.name = sources_.first_ids[op], .duration_ns = saved_ns, .start_ns = run.start_ns});
    }
    run.count = 0;
    run = {};
  }

  FactSources& sources_;
  KernelFacts& facts_;
  ByName<KernelName> names_;
  std::vector<Run> runs_;  // By stream.
  EvidenceSums sums_;
};

// ---- small kernels by operator ----

// One call of these is one thing that a program asks for.
bool IsOneOperation(std::string_view name) {
  return name.starts_with("aten::") || name.starts_with("Optimizer.step#") ||
         name.starts_with("Optimizer.zero_grad#") ||
         name.starts_with("autograd::engine::evaluate_function:");
}

}  // namespace

int64_t KernelFacts::OfAll(int64_t ns) const {
  if (launched_ns <= 0 || 2 * launched_ns < total_ns) return ns;
  return static_cast<int64_t>(static_cast<double>(ns) * static_cast<double>(total_ns) /
                              static_cast<double>(launched_ns));
}

absl::Status GatherKernelsAndCopies(FactSources& sources, const GpuDevice* device,
                                    KernelFacts& kernels, CopyFacts& copies) {
  return KernelPass(sources, device, kernels, copies).Run();
}

void FindFusible(FactSources& sources, KernelFacts& kernels) {
  FusibleRuns(sources, kernels).Find();
}

namespace {

// Adds to each operator the line of Python that most of its calls came from, if it is known.
absl::Status AddLines(FactSources& sources, std::vector<Evidence>& operators) {
  if (operators.empty() || sources.reader.RowsOf(RowKind::kStack) == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(PlaceIndex lines, PlaceIndex::Build(sources.reader, PlaceKind::kSource));
  absl::flat_hash_map<std::pair<std::string_view, uint32_t>, int64_t> calls;  // By name and line.
  RETURN_IF_ERROR(
      sources.reader.ForEach<RangeRow>(kRangeStart | kRangeName, {}, [&](const RangeBatch& batch) {
        for (size_t i = 0; i < batch.size; ++i) {
          const std::string_view name = sources.Name(batch.name[i]);
          if (std::ranges::find(operators, name, &Evidence::name) == operators.end()) continue;
          const uint32_t line = lines.At(batch.thread, batch.start_ns[i]);
          if (line != 0) ++calls[{name, line}];
        }
        return absl::OkStatus();
      }));
  for (Evidence& row : operators) {
    std::pair<int64_t, uint32_t> most;
    for (const auto& [key, count] : calls) {
      // Of equal ones the first that ran.
      const bool is_more = count > most.first || (count == most.first && key.second < most.second);
      if (key.first == row.name && is_more) most = {count, key.second};
    }
    if (most.first > 0) {
      row.detail =
          StrCat("at ", StackTable::ColonLine(lines.NameOf(most.second)), ", ", row.detail);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FindTinyKernels(FactSources& sources, KernelFacts& kernels) {
  const RangePaths& paths = sources.attribution.paths();
  absl::flat_hash_map<uint32_t, PathLaunches> by_op;
  for (uint32_t path = 1; path < sources.launches.size(); ++path) {
    const PathLaunches& launches = sources.launches[path];
    if (launches.kernels == 0) continue;
    for (uint32_t at = path; at != RangePaths::kNone; at = paths[at].parent) {
      if (paths[at].repeats) continue;  // It counts once, at its outermost.
      PathLaunches& op = by_op[sources.first_ids[paths[at].name]];
      op.kernels += launches.kernels;
      op.small_kernels += launches.small_kernels;
      op.kernel_ns += launches.kernel_ns;
      op.idle_ns += launches.idle_ns;
    }
  }
  constexpr double kNearlyAll = 0.9;
  EvidenceSums sums;
  uint64_t most_idle_ns = 0;
  for (const auto& [name, op] : by_op) {
    const int64_t calls = sources.calls_of_name[name];
    if (calls <= 0 || !IsOneOperation(sources.Name(name))) continue;
    if (static_cast<double>(op.small_kernels) < kNearlyAll * static_cast<double>(op.kernels)) {
      continue;
    }
    const double per_call = static_cast<double>(op.small_kernels) / static_cast<double>(calls);
    kernels.most_per_call = std::max(kernels.most_per_call, per_call);
    if (per_call < sources.thresholds.kernels_per_call) continue;
    most_idle_ns = std::max(most_idle_ns, op.idle_ns);
    sums.Add({.name = name, .duration_ns = static_cast<int64_t>(op.idle_ns)});
  }
  kernels.tiny_idle_ns = static_cast<int64_t>(most_idle_ns);
  kernels.tiny_ops = sums.Take(EvidenceKind::kOp, [&](uint32_t name, uint32_t, Evidence& row) {
    const PathLaunches& op = by_op[name];
    row.name = sources.Name(name);
    row.count = sources.calls_of_name[name];
    const int64_t calls = std::max<int64_t>(row.count, 1);
    row.detail =
        StrCat((op.small_kernels + calls / 2) / calls, " small kernels a call, which run for ",
               TimeText(static_cast<int64_t>(op.kernel_ns) / calls),
               "; the time is that of the gaps before them");
  });
  return AddLines(sources, kernels.tiny_ops);
}

void FindHottestOperator(const FactSources& sources, KernelFacts& kernels) {
  const RangePaths& paths = sources.attribution.paths();
  absl::flat_hash_map<uint32_t, uint64_t> ns_by_op;
  for (uint32_t path = 1; path < sources.launches.size(); ++path) {
    if (sources.launches[path].kernels == 0) continue;
    const uint32_t name = sources.first_ids[paths[path].name];
    if (IsOneOperation(sources.Name(name))) ns_by_op[name] += sources.launches[path].kernel_ns;
  }
  const auto hottest =
      std::max_element(ns_by_op.begin(), ns_by_op.end(), [](const auto& a, const auto& b) {
        return std::tie(a.second, b.first) < std::tie(b.second, a.first);
      });
  if (hottest == ns_by_op.end()) return;
  kernels.hottest_op = sources.Name(hottest->first);
  kernels.hottest_op_ns = kernels.OfAll(static_cast<int64_t>(hottest->second));
}

}  // namespace profd::report
