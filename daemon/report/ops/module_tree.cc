#include "daemon/report/ops/module_tree.h"

#include <algorithm>
#include <limits>
#include <span>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/report/believed/believed_reader.h"
#include "daemon/report/index/accelerators.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/index/host_slices.h"
#include "daemon/report/index/interval_set.h"
#include "daemon/report/index/operator_index.h"
#include "daemon/report/index/step_lookup.h"
#include "daemon/report/ops/flops.h"
#include "proto/wire/event.h"

namespace profd::report {
namespace {

constexpr uint32_t kOutsideNode = 0;

// A module by the modules that call it.
struct ModuleNode {
  std::string name;
  std::string class_name;
  uint32_t parent = kOutsideNode;  // Smaller than its own number; of outermost ones kOutsideNode.
  // Own sums. Unsigned, so that no number in a hostile file causes signed overflow.
  uint64_t calls = 0;
  uint64_t forward_ns = 0;
  uint64_t backward_ns = 0;
  uint64_t forward_device_ns = 0;
  uint64_t backward_device_ns = 0;
  uint64_t cpu_bytes = 0;
  uint64_t device_bytes = 0;
  double flops = 0;

  uint64_t host_ns() const { return forward_ns + backward_ns; }
  uint64_t device_ns() const { return forward_device_ns + backward_device_ns; }
  bool empty() const {
    return calls == 0 && host_ns() == 0 && device_ns() == 0 && cpu_bytes == 0 &&
           device_bytes == 0 && flops == 0;
  }
  void Add(const ModuleNode& inside) {
    forward_ns += inside.forward_ns;
    backward_ns += inside.backward_ns;
    forward_device_ns += inside.forward_device_ns;
    backward_device_ns += inside.backward_device_ns;
    cpu_bytes += inside.cpu_bytes;
    device_bytes += inside.device_bytes;
    flops += inside.flops;
  }
};

int64_t ToSigned(uint64_t value) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::min(value, kMost));
}

class ModuleSummary {
 public:
  ModuleSummary(store::CaptureReader& reader, const ModuleTreeOptions& options)
      : reader_(reader), options_(options), lookup_(reader.steps()) {}

  absl::StatusOr<ModuleTree> Build() {
    ASSIGN_OR_RETURN(slices_, HostSlices::Build(reader_, {}));
    node_of_frame_.resize(slices_.frames().size(), kUnknown);
    RETURN_IF_ERROR(FindSpans());
    for (uint32_t row = 0; row < slices_.row_count(); ++row) ReadRow(row);
    RETURN_IF_ERROR(ReadFlops());
    RETURN_IF_ERROR(ReadMemory());
    RETURN_IF_ERROR(ReadDevice());
    FindOutside();
    AddRows();
    tree_.is_simulated = reader_.record().gpu.simulated;
    return std::move(tree_);
  }

 private:
  static constexpr uint32_t kUnknown = std::numeric_limits<uint32_t>::max();

  struct Span {
    int64_t start_ns;
    int64_t end_ns;
  };
  struct Place {
    uint32_t node = kOutsideNode;
    bool is_backward = false;
  };

  // What counts.
  absl::Status FindSpans() {
    if (options_.step.has_value()) {
      ASSIGN_OR_RETURN(const StepRecord step, lookup_.WithIndex(*options_.step));
      AddSpan(step.start_ns, step.start_ns + step.duration_ns);
      tree_.step_count = 1;
      return absl::OkStatus();
    }
    tree_.step_count = static_cast<int64_t>(lookup_.steps().size());
    for (const StepRecord& step : lookup_.steps()) {
      AddSpan(step.start_ns, step.start_ns + step.duration_ns);
    }
    if (tree_.step_count > 0) return absl::OkStatus();
    Span all = {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
    for (uint32_t row = 0; row < slices_.row_count(); ++row) {
      for (const HostSlice& slice : slices_.SlicesOf(row)) {
        all = {std::min(all.start_ns, slice.start_ns), std::max(all.end_ns, slice.end_ns)};
      }
    }
    if (all.start_ns < all.end_ns) AddSpan(all.start_ns, all.end_ns);
    return absl::OkStatus();
  }

  // Steps of a damaged file may overlap: no time counts twice.
  void AddSpan(int64_t start_ns, int64_t end_ns) {
    if (!spans_.empty()) start_ns = std::max(start_ns, spans_.back().end_ns);
    if (start_ns < end_ns) spans_.push_back({start_ns, end_ns});
  }

  std::vector<Span>::const_iterator SpanAfter(int64_t time_ns) const {
    return std::ranges::upper_bound(spans_, time_ns, std::less(), &Span::end_ns);
  }
  bool Counts(int64_t time_ns) const {
    const auto span = SpanAfter(time_ns);
    return span != spans_.end() && span->start_ns <= time_ns;
  }

  // ---- places ----

  uint32_t NodeOf(uint32_t frame) {
    const FrameTree& frames = slices_.frames();
    const uint32_t module = frames[frame].module;
    if (module == FrameTree::kNone) return kOutsideNode;
    if (node_of_frame_[module] != kUnknown) return node_of_frame_[module];
    const uint32_t parent = NodeOf(frames[module].parent);
    const FrameTree::Function& function = frames.FunctionOf(module);
    const auto next = static_cast<uint32_t>(nodes_.size());
    const auto [at, inserted] =
        number_of_.try_emplace(std::tuple(parent, function.module, function.class_name), next);
    if (inserted) {
      nodes_.push_back(
          {.name = function.module, .class_name = function.class_name, .parent = parent});
      tree_.has_modules = true;
    }
    node_of_frame_[module] = at->second;
    return at->second;
  }

  Place PlaceOf(const HostSlice& slice) {
    if (slice.forward != FrameTree::kNone) return {NodeOf(slice.forward), true};
    return {NodeOf(slice.frame), false};
  }
  Place PlaceAt(uint32_t thread, int64_t time_ns) {
    const uint32_t row = slices_.RowOf(thread);
    const uint32_t slice = slices_.At(row, time_ns);
    return slice == HostSlice::kNone ? Place() : PlaceOf(slices_.SlicesOf(row)[slice]);
  }

  // ---- host time ----

  void ReadRow(uint32_t row) {
    const std::span<const HostSlice> slices = slices_.SlicesOf(row);
    std::vector<uint32_t> open;
    int64_t cursor_ns = std::numeric_limits<int64_t>::min();
    // Up to `until_ns`, the time since the last edge belongs to the innermost open slice alone.
    const auto pass = [&](int64_t until_ns) {
      if (!open.empty() && until_ns > cursor_ns) {
        AddTime(PlaceOf(slices[open.back()]), cursor_ns, until_ns);
      }
      cursor_ns = std::max(cursor_ns, until_ns);
    };
    for (uint32_t i = 0; i < slices.size(); ++i) {
      const HostSlice& slice = slices[i];
      while (!open.empty() && open.back() != slice.parent) {
        pass(slices[open.back()].end_ns);
        open.pop_back();
      }
      pass(slice.start_ns);
      open.push_back(i);
      if (slice.is_python && slices_.frames()[slice.frame].module == slice.frame &&
          Counts(slice.start_ns)) {
        ++nodes_[NodeOf(slice.frame)].calls;
      }
    }
    while (!open.empty()) {
      pass(slices[open.back()].end_ns);
      open.pop_back();
    }
  }

  void AddTime(Place place, int64_t start_ns, int64_t end_ns) {
    if (place.node == kOutsideNode) return;
    for (auto span = SpanAfter(start_ns); span != spans_.end() && span->start_ns < end_ns; ++span) {
      const Span part = {std::max(start_ns, span->start_ns), std::min(end_ns, span->end_ns)};
      if (part.start_ns >= part.end_ns) continue;
      ModuleNode& node = nodes_[place.node];
      (place.is_backward ? node.backward_ns : node.forward_ns) +=
          static_cast<uint64_t>(part.end_ns - part.start_ns);
      if (!inside_.empty() && inside_.back().end_ns == part.start_ns) {
        inside_.back().end_ns = part.end_ns;
      } else {
        inside_.push_back(part);
      }
    }
  }

  void FindOutside() {
    std::ranges::sort(inside_, std::less(), &Span::start_ns);
    IntervalSet inside;
    for (const Span& span : inside_) inside.Add(span.start_ns, span.end_ns);
    uint64_t all_ns = 0;
    for (const Span& span : spans_) all_ns += static_cast<uint64_t>(span.end_ns - span.start_ns);
    uint64_t self_ns = 0;
    for (const ModuleNode& node : nodes_) self_ns += node.host_ns();
    const uint64_t inside_ns = inside.empty() ? 0 : inside.total_ns();
    nodes_[kOutsideNode].forward_ns = all_ns - std::min(all_ns, inside_ns);
    tree_.steps_ns = ToSigned(all_ns);
    tree_.concurrent_ns = ToSigned(self_ns - std::min(self_ns, inside_ns));
  }

  // ---- the rest ----

  // Of operators inside each other, only the outermost one with known FLOPs counts.
  absl::Status ReadFlops() {
    const std::span<const std::string> names = reader_.names();
    const bool may_have =
        std::ranges::any_of(names, [](const std::string& name) { return MayHaveFlops(name); });
    if (!may_have || reader_.inputs().size() < 2) return absl::OkStatus();
    ASSIGN_OR_RETURN(OperatorIndex operators, OperatorIndex::Build(reader_));
    absl::flat_hash_map<std::tuple<uint32_t, uint32_t, uint32_t>, double> known;
    for (uint32_t row = 0; row < slices_.row_count(); ++row) {
      const std::span<const HostSlice> slices = slices_.SlicesOf(row);
      std::vector<bool> is_counted(slices.size());
      for (size_t i = 0; i < slices.size(); ++i) {
        const HostSlice& slice = slices[i];
        if (slice.parent != HostSlice::kNone && is_counted[slice.parent]) is_counted[i] = true;
        if (is_counted[i] || slice.is_python || !Counts(slice.start_ns)) continue;
        const OperatorIndex::Entry* const op =
            operators.Find(slice.thread, slice.start_ns, slice.depth);
        if (op == nullptr || op->inputs == 0) continue;
        const auto [at, inserted] =
            known.try_emplace(std::tuple(slice.name, op->inputs, op->scalars));
        if (inserted) {
          at->second = FlopsOf(names[slice.name], reader_.inputs()[op->inputs],
                               op->scalars == 0 ? "" : reader_.scalars()[op->scalars])
                           .count;
        }
        if (at->second <= 0) continue;
        is_counted[i] = true;
        nodes_[PlaceOf(slice).node].flops += at->second;
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadMemory() {
    return reader_.ForEach<MemoryRow>([&](const MemoryBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        const bool is_cpu = batch.device_type[i] == static_cast<uint8_t>(wire::DeviceType::kCpu);
        const bool is_device =
            batch.device_type[i] == static_cast<uint8_t>(wire::DeviceType::kCuda) ||
            !AcceleratorName(batch.device_type[i]).empty();
        if (batch.is_free[i] != 0 || (!is_cpu && !is_device) || !Counts(batch.time_ns[i])) continue;
        ModuleNode& node = nodes_[PlaceAt(batch.thread, batch.time_ns[i]).node];
        (is_cpu ? node.cpu_bytes : node.device_bytes) +=
            static_cast<uint64_t>(std::max<int64_t>(batch.bytes[i], 0));
      }
      return absl::OkStatus();
    });
  }

  absl::Status ReadDevice() {
    tree_.has_device = reader_.gpu_row_count() > 0;
    if (!tree_.has_device) return absl::OkStatus();
    ASSIGN_OR_RETURN(const GpuAttribution calls, GpuAttribution::BuildCalls(reader_));
    uint64_t total_ns = 0;
    uint64_t unattributed_ns = 0;
    RETURN_IF_ERROR(reader_.ForEach<GpuRow>(kGpuTime | kGpuCause, {}, [&](const GpuBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        const GpuAttribution::Call* const call = calls.Find(batch.correlation[i]);
        const auto took_ns = static_cast<uint64_t>(batch.duration_ns[i]);
        if (call == nullptr) {
          // It may have been launched in a step.
          if (options_.step.has_value()) continue;
          unattributed_ns += took_ns;
          total_ns += took_ns;
          nodes_[kOutsideNode].forward_device_ns += took_ns;
          continue;
        }
        if (!Counts(call->start_ns)) continue;
        const Place place = PlaceAt(call->thread, call->start_ns);
        ModuleNode& node = nodes_[place.node];
        (place.is_backward ? node.backward_device_ns : node.forward_device_ns) += took_ns;
        total_ns += took_ns;
      }
      return absl::OkStatus();
    }));
    tree_.device_total_ns = ToSigned(total_ns);
    tree_.unattributed_device_ns = ToSigned(unattributed_ns);
    return absl::OkStatus();
  }

  // ---- rows ----

  void AddRows() {
    totals_ = nodes_;
    std::vector<std::vector<uint32_t>> inside(nodes_.size());
    for (size_t i = nodes_.size(); i-- > 1;) {
      const uint32_t parent = nodes_[i].parent;
      if (parent != kOutsideNode) totals_[parent].Add(totals_[i]);
      inside[parent].push_back(static_cast<uint32_t>(i));
    }
    const auto by_total = [&](uint32_t a, uint32_t b) {
      return std::tuple(totals_[b].host_ns(), totals_[b].device_ns(), a) <
             std::tuple(totals_[a].host_ns(), totals_[a].device_ns(), b);
    };
    for (std::vector<uint32_t>& modules : inside) std::ranges::sort(modules, by_total);
    // Depth first, the next one last.
    std::vector<std::pair<uint32_t, int64_t>> next;
    const auto push_inside = [&](uint32_t node, int64_t depth) {
      for (size_t i = inside[node].size(); i-- > 0;) next.emplace_back(inside[node][i], depth);
    };
    push_inside(kOutsideNode, 0);
    while (!next.empty()) {
      const auto [node, depth] = next.back();
      next.pop_back();
      if (totals_[node].empty()) continue;
      AddRow(node, depth);
      push_inside(node, depth + 1);
    }
    if (tree_.steps_ns > 0 || !nodes_[kOutsideNode].empty()) AddRow(kOutsideNode, 0);
  }

  void AddRow(uint32_t number, int64_t depth) {
    const ModuleNode& own = nodes_[number];
    const ModuleNode& total = totals_[number];
    const bool is_outside = number == kOutsideNode;
    ModuleTreeRow row = {.name = is_outside ? ModuleTreeRow::kOutside : own.name,
                         .class_name = own.class_name,
                         .parent = own.parent == kOutsideNode ? "" : nodes_[own.parent].name,
                         .depth = depth,
                         .calls = ToSigned(own.calls),
                         .total_ns = ToSigned(total.host_ns()),
                         .self_ns = ToSigned(own.host_ns()),
                         .forward_ns = is_outside ? -1 : ToSigned(total.forward_ns),
                         .backward_ns = is_outside ? -1 : ToSigned(total.backward_ns),
                         .share = 0,
                         .device_total_ns = ToSigned(total.device_ns()),
                         .self_device_ns = ToSigned(own.device_ns()),
                         .forward_device_ns = ToSigned(total.forward_device_ns),
                         .backward_device_ns = ToSigned(total.backward_device_ns),
                         .cpu_allocated_bytes = ToSigned(total.cpu_bytes),
                         .device_allocated_bytes = ToSigned(total.device_bytes),
                         .flops = total.flops > 0 ? total.flops : -1};
    if (tree_.steps_ns > 0) {
      row.share = static_cast<double>(row.self_ns) / static_cast<double>(tree_.steps_ns);
    }
    tree_.rows.push_back(std::move(row));
  }

  store::CaptureReader& reader_;
  const ModuleTreeOptions& options_;
  StepLookup lookup_;
  HostSlices slices_;
  ModuleTree tree_;
  std::vector<Span> spans_;   // That count, by time.
  std::vector<Span> inside_;  // Self time of modules, of all threads.
  std::vector<ModuleNode> nodes_ = std::vector<ModuleNode>(1);
  std::vector<ModuleNode> totals_;  // By node.
  absl::flat_hash_map<std::tuple<uint32_t, std::string, std::string>, uint32_t> number_of_;
  std::vector<uint32_t> node_of_frame_;
};

}  // namespace

absl::StatusOr<ModuleTree> SummarizeModules(store::CaptureReader& recorded,
                                            const ModuleTreeOptions& options) {
  BelievedReader reader(recorded);
  return ModuleSummary(reader, options).Build();
}

}  // namespace profd::report
