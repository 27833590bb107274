#include "daemon/report/ops/profile.h"

#include <algorithm>
#include <array>
#include <functional>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/believed/believed_reader.h"
#include "daemon/report/index/launch_statistics.h"
#include "daemon/report/index/op_kinds.h"
#include "daemon/report/index/operator_index.h"
#include "daemon/report/index/redispatch.h"
#include "daemon/report/index/stack_table.h"
#include "daemon/report/index/step_lookup.h"
#include "daemon/report/ops/flops.h"
#include "daemon/report/ops/gpu_peaks.h"
#include "daemon/report/ops/summary.h"
#include "proto/wire/event.h"

namespace profd::report {
namespace {

constexpr std::array<std::pair<OpGroup, std::string_view>, 8> kGroupNames = {{
    {OpGroup::kName, "name"},
    {OpGroup::kInputs, "input_shape"},
    {OpGroup::kModule, "module"},
    {OpGroup::kSource, "source"},
    {OpGroup::kStack, "stack"},
    {OpGroup::kArguments, "arguments"},
    {OpGroup::kStep, "step"},
    {OpGroup::kThread, "thread"},
}};

template <typename Int>
double AsDouble(Int value) {
  return static_cast<double>(value);
}
double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

// Where the figures of a row's calls are, besides their sums.
struct Calls {
  uint64_t in_first_step = 0;
  uint64_t in_later_steps = 0;
  uint64_t first_step_ns = 0;
  uint64_t later_steps_ns = 0;
  double flops = 0;
  uint64_t with_flops = 0;
  std::optional<NumberType> type;  // kUnknown: of several.

  void Add(const OpFlops& of) {
    flops += of.count;
    ++with_flops;
    if (type.value_or(of.type) != of.type) type = NumberType::kUnknown;
    if (!type.has_value()) type = of.type;
  }
};

// What calls compute, once for each operator with the same inputs.
class FlopsLookup {
 public:
  static absl::StatusOr<FlopsLookup> Build(store::CaptureReader& reader) {
    FlopsLookup lookup(reader);
    bool is_empty = true;
    for (const std::string& name : reader.names()) {
      lookup.may_have_.push_back(MayHaveFlops(name));
      is_empty &= !lookup.may_have_.back();
    }
    if (is_empty || reader.inputs().size() < 2) {
      lookup.may_have_.clear();
      return lookup;
    }
    ASSIGN_OR_RETURN(lookup.operators_, OperatorIndex::Build(reader));
    return lookup;
  }

  // Nothing has any: no columns are needed.
  bool empty() const { return may_have_.empty(); }

  OpFlops Of(const RangeBatch& batch, size_t i) {
    const uint32_t name = batch.name[i];
    if (!may_have_[name]) return {};
    const OperatorIndex::Entry* const op =
        operators_.Find(batch.thread, batch.start_ns[i], batch.depth[i]);
    if (op == nullptr || op->inputs == 0) return {};
    const auto [at, inserted] = known_.try_emplace(std::tuple(name, op->inputs, op->scalars));
    if (inserted) {
      at->second = FlopsOf(reader_.names()[name], reader_.inputs()[op->inputs],
                           op->scalars == 0 ? "" : reader_.scalars()[op->scalars]);
    }
    return at->second;
  }

 private:
  explicit FlopsLookup(store::CaptureReader& reader) : reader_(reader) {}

  store::CaptureReader& reader_;
  std::vector<uint8_t> may_have_;  // By name.
  OperatorIndex operators_;
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, uint32_t>, OpFlops> known_;
};

class OpProfiler {
 public:
  OpProfiler(store::CaptureReader& reader, const OpProfileOptions& options, OpKinds& kinds)
      : reader_(reader),
        options_(options),
        by_step_(options.by_step || options.group == OpGroup::kStep),
        // Only imports have Python functions, which ReadRanges() recognizes by their category.
        sums_only_(options.sums_only && reader.record().imported.source.empty()),
        kinds_(kinds),
        lookup_(reader.steps()),
        is_python_(reader.names().size()) {}

  absl::StatusOr<OpProfile> Build() {
    OpOptions options = {.by_step = by_step_, .step = options_.step};
    ASSIGN_OR_RETURN(OpSummaryTable summary, SummarizeOpsByKind(reader_, options, kinds_));
    if (options_.step.has_value()) {
      ASSIGN_OR_RETURN(only_, lookup_.WithIndex(*options_.step));
    }
    if (!sums_only_) {
      // Else each row has its own.
      if (options_.group != OpGroup::kSource && options_.group != OpGroup::kStack) {
        ASSIGN_OR_RETURN(lines_, PlaceIndex::Build(reader_, PlaceKind::kSource));
      }
      FindPeaks();
      RETURN_IF_ERROR(ReadRanges());
      RETURN_IF_ERROR(ReadCalls());
    }
    OpProfile profile = {
        .self_cpu_total_ns = summary.table.self_cpu_total_ns,
        .has_memory = summary.table.has_memory,
        .has_device = summary.table.has_device,
        .self_device_total_ns = summary.table.self_device_total_ns,
        .unattributed_device_ns = summary.table.unattributed_device_ns,
        .is_simulated = reader_.record().gpu.simulated,
        .overlaps_add_up = summary.table.overlaps_add_up,
        .operators_are_off = reader_.record().imported.source.empty() &&
                             reader_.record().spec.torch.operators == OperatorMode::kOff};
    profile.step_count = only_.has_value() ? 1 : static_cast<int64_t>(lookup_.steps().size());
    if (!sums_only_) {
      ASSIGN_OR_RETURN(profile.busy_device_ns, BusyDeviceTime());
    }
    AddRows(summary, profile);
    return profile;
  }

 private:
  using Key = std::pair<uint32_t, int64_t>;  // First kind, and the step's number or -1.

  absl::Status ReadRanges() {
    ASSIGN_OR_RETURN(FlopsLookup flops, FlopsLookup::Build(reader_));
    ASSIGN_OR_RETURN(Redispatches redispatches, Redispatches::Build(reader_));
    uint32_t columns = kRangeStart | kinds_.columns() | redispatches.columns();
    columns |= kRangeName | kRangeCategory;
    std::vector<std::optional<Call>> last;  // By thread: counts unless it is the next one's call.
    RETURN_IF_ERROR(reader_.ForEach<RangeRow>(columns, {}, [&](const RangeBatch& batch) {
      const std::span<const uint32_t> kinds = kinds_.Of(batch);
      if (batch.thread >= last.size()) last.resize(batch.thread + size_t{1});
      std::optional<Call>& previous = last[batch.thread];
      const std::span<const uint8_t> folded = redispatches.FindFolds(batch, kinds, kinds_);
      for (size_t i = 0; i < batch.size; ++i) {
        const bool is_python =
            batch.category[i] == static_cast<uint8_t>(wire::RangeCategory::kPython);
        is_python_[batch.name[i]] |= is_python;
        // Functions of Python that call themselves are several calls.
        const bool folds = folded[i] != 0 && !is_python;
        if (previous.has_value() && !folds) Add(*previous);
        previous = {.kind = kinds[i],
                    .thread = batch.thread,
                    .start_ns = batch.start_ns[i],
                    .duration_ns = batch.duration_ns[i]};
        if (!flops.empty()) previous->flops = flops.Of(batch, i);
      }
      return absl::OkStatus();
    }));
    for (const std::optional<Call>& call : last) {
      if (call.has_value()) Add(*call);
    }
    return absl::OkStatus();
  }

  absl::Status ReadCalls() {
    return reader_.ForEach<ApiRow>([&](const ApiBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        Add({.kind = kinds_.OfCall(batch.name[i], batch.thread, batch.start_ns[i]),
             .thread = batch.thread,
             .start_ns = batch.start_ns[i],
             .duration_ns = batch.duration_ns[i]});
      }
      return absl::OkStatus();
    });
  }

  struct Call {
    uint32_t kind;
    uint32_t thread;
    int64_t start_ns;
    int64_t duration_ns;
    OpFlops flops;
  };

  void Add(const Call& call) {
    const size_t position = lookup_.PositionAt(call.start_ns);
    const int64_t step = position == StepLookup::kNone ? -1 : lookup_.steps()[position].index;
    if (only_.has_value() && step != only_->index) return;
    const Key key = {kinds_.FirstOf(call.kind), by_step_ ? step : -1};
    const auto [at, inserted] = number_of_.try_emplace(key, static_cast<uint32_t>(calls_.size()));
    if (inserted) calls_.emplace_back();
    durations_.Add(at->second, call.duration_ns);
    if (!lines_.empty()) {
      if (const uint32_t line = lines_.At(call.thread, call.start_ns); line != 0) {
        ++line_calls_[{at->second, line}];
      }
    }
    Calls& calls = calls_[at->second];
    if (call.flops.count > 0) calls.Add(call.flops);
    if (position == StepLookup::kNone) return;
    ++(position == 0 ? calls.in_first_step : calls.in_later_steps);
    (position == 0 ? calls.first_step_ns : calls.later_steps_ns) +=
        static_cast<uint64_t>(call.duration_ns);
  }

  // Of the devices, where they are all of one kind.
  void FindPeaks() {
    const std::vector<GpuDevice>& devices = reader_.record().gpu.devices;
    for (const GpuDevice& device : devices) {
      if (device.name != devices.front().name) return;
    }
    if (!devices.empty()) peaks_ = PeaksOf(devices.front().name);
  }

  void AddFlops(const Calls& calls, bool has_device, OpProfileRow& row) const {
    if (calls.flops == 0) return;
    row.flops = calls.flops;
    // A rate of calls of which some are not known would be too low.
    if (calls.with_flops != static_cast<uint64_t>(row.calls)) return;
    const int64_t took_ns = has_device ? row.busy_device_ns : row.cpu_total_ns;
    if (took_ns <= 0) return;
    row.flops_per_s = calls.flops / (AsDouble(took_ns) / 1e9);
    const NumberType type = calls.type.value_or(NumberType::kUnknown);
    row.dtype = ToString(type);
    if (!has_device || !peaks_.has_value()) return;
    double peak = peaks_->Of(type) * 1e12;
    // More than can be had without tensor cores: these ran, in tf32.
    if (type == NumberType::kFp32 && row.flops_per_s > peak && peaks_->tf32 > 0) {
      peak = peaks_->tf32 * 1e12;
      row.dtype = "tf32";
    }
    if (peak > 0) row.peak_share = row.flops_per_s / peak;
  }

  // Of the launches of one step, as the table's other columns: their work, whenever it ran.
  absl::StatusOr<int64_t> BusyDeviceTime() {
    if (reader_.gpu_row_count() == 0) return 0;
    struct Work {
      uint16_t device;
      int64_t start_ns;
      int64_t end_ns;
    };
    absl::flat_hash_map<uint32_t, bool> launched;
    if (only_.has_value()) {
      RETURN_IF_ERROR(reader_.ForEach<ApiRow>([&](const ApiBatch& batch) {
        for (size_t i = 0; i < batch.size; ++i) {
          const size_t position = lookup_.PositionAt(batch.start_ns[i]);
          if (position == StepLookup::kNone) continue;
          if (lookup_.steps()[position].index == only_->index) launched[batch.correlation[i]];
        }
        return absl::OkStatus();
      }));
    }
    std::vector<Work> work;
    RETURN_IF_ERROR(
        reader_.ForEach<GpuRow>(kGpuTime | kGpuWhere | kGpuCause, {}, [&](const GpuBatch& batch) {
          for (size_t i = 0; i < batch.size; ++i) {
            if (only_.has_value() && !launched.contains(batch.correlation[i])) continue;
            work.push_back(
                {batch.device[i], batch.start_ns[i], batch.start_ns[i] + batch.duration_ns[i]});
          }
          return absl::OkStatus();
        }));
    std::sort(work.begin(), work.end(),
              [](const Work& a, const Work& b) { return a.start_ns < b.start_ns; });
    BusyTime busy;
    for (const Work& piece : work) busy.Add(piece.device, piece.start_ns, piece.end_ns);
    return busy.total_ns();
  }

  // By position in calls_: the line of most calls, and how many others there are.
  std::vector<std::string> TopLines() const {
    struct Top {
      uint32_t line = 0;
      uint64_t calls = 0;
      int64_t others = -1;
    };
    std::vector<Top> tops(calls_.size());
    for (const auto& [key, count] : line_calls_) {
      const auto [row, line] = key;
      Top& top = tops[row];
      ++top.others;
      // Of equal ones the first that ran.
      if (count < top.calls || (count == top.calls && line > top.line)) continue;
      top.line = line;
      top.calls = count;
    }
    std::vector<std::string> texts;
    for (const Top& top : tops) {
      std::string& text = texts.emplace_back(StackTable::ShortLine(lines_.NameOf(top.line)));
      if (top.others > 0) StrAppend(&text, " +", top.others, " more");
    }
    return texts;
  }

  void AddRows(OpSummaryTable& summary, OpProfile& profile) {
    const std::vector<std::string> top_lines = TopLines();
    const std::vector<DurationStatistics> statistics = durations_.Take(calls_.size());
    for (size_t i = 0; i < summary.table.rows.size(); ++i) {
      if (IsFrame(kinds_.NameOf(summary.kinds[i]))) {
        ++profile.frame_row_count;
        continue;
      }
      OpProfileRow& row = profile.rows.emplace_back();
      static_cast<OpRow&>(row) = std::move(summary.table.rows[i]);
      SetGroup(summary.kinds[i], row);
      SetShares(profile, row);
      const auto found = number_of_.find({summary.kinds[i], by_step_ ? row.step : -1});
      if (found == number_of_.end()) continue;  // Only its work on the GPU is in this step.
      row.top_source = top_lines[found->second];
      row.p50_ns = statistics[found->second].p50_ns;
      row.p95_ns = statistics[found->second].p95_ns;
      row.p99_ns = statistics[found->second].p99_ns;
      AddSteps(calls_[found->second], profile.step_count, row);
      AddFlops(calls_[found->second], profile.has_device, row);
    }
  }

  static void SetShares(const OpProfile& profile, OpProfileRow& row) {
    row.self_cpu_share = Ratio(AsDouble(row.self_cpu_ns), AsDouble(profile.self_cpu_total_ns));
    row.share = row.self_cpu_share;
    if (!profile.has_device) return;
    if (profile.busy_device_ns < 0) {
      row.share = -1;
    } else if (profile.busy_device_ns > 0) {
      row.share = Ratio(AsDouble(row.busy_device_ns), AsDouble(profile.busy_device_ns));
    }
    row.self_device_share =
        Ratio(AsDouble(row.self_device_ns), AsDouble(profile.self_device_total_ns));
  }

  void AddSteps(const Calls& calls, int64_t step_count, OpProfileRow& row) const {
    if (step_count == 0) return;
    const uint64_t in_steps = calls.in_first_step + calls.in_later_steps;
    if (by_step_) {
      if (row.step >= 0) row.calls_per_step = AsDouble(row.calls);
      return;
    }
    row.calls_per_step = AsDouble(in_steps) / AsDouble(step_count);
    if (only_.has_value() || step_count < 2 || calls.in_first_step == 0) return;
    if (calls.in_later_steps == 0) {
      row.first_step = kOnlyInFirstStep;
    } else if (AsDouble(calls.first_step_ns) * AsDouble(step_count - 1) >
               2 * AsDouble(calls.later_steps_ns)) {
      row.first_step = kSlowerInFirstStep;
    }
  }

  // Modules are functions of Python, too, but rows of their own.
  bool IsFrame(uint32_t name) const {
    return is_python_[name] && !std::string_view(reader_.names()[name]).starts_with(kModulePrefix);
  }

  void SetGroup(uint32_t kind, OpProfileRow& row) const {
    const auto place = [&] { return kinds_.places().NameOf(kinds_.GroupOf(kind)); };
    if (options_.group == OpGroup::kModule) {
      row.module = place();
    } else if (options_.group == OpGroup::kSource) {
      row.source = place();
    } else if (options_.group == OpGroup::kStack) {
      row.stack = place();
    } else if (options_.group == OpGroup::kArguments) {
      row.arguments = place();
    } else if (options_.group == OpGroup::kThread) {
      const store::ReaderThread& thread = reader_.threads()[kinds_.GroupOf(kind)];
      row.thread = thread.name.empty() ? StrCat(thread.os_thread)
                                       : StrCat(thread.os_thread, " ", thread.name);
    }
  }

  store::CaptureReader& reader_;
  const OpProfileOptions& options_;
  const bool by_step_;
  const bool sums_only_;
  OpKinds& kinds_;
  StepLookup lookup_;
  std::optional<StepRecord> only_;
  std::vector<uint8_t> is_python_;                // By name.
  absl::flat_hash_map<Key, uint32_t> number_of_;  // Position in calls_, and group of durations_.
  std::vector<Calls> calls_;
  GroupedDurations durations_;
  std::optional<GpuPeaks> peaks_;
  PlaceIndex lines_;
  // By position in calls_ and line.
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint64_t> line_calls_;
};

OpKinds::Options KindsOf(const OpProfileOptions& options) {
  OpKinds::Options kinds = {.by_inputs = options.group == OpGroup::kInputs,
                            .detail = options.detail};
  switch (options.group) {
    case OpGroup::kModule:
      kinds.group = OpKinds::Group::kPlace;
      kinds.place = PlaceKind::kModule;
      break;
    case OpGroup::kSource:
      kinds.group = OpKinds::Group::kPlace;
      kinds.place = PlaceKind::kSource;
      break;
    case OpGroup::kStack:
      kinds.group = OpKinds::Group::kPlace;
      kinds.place = PlaceKind::kStack;
      break;
    case OpGroup::kArguments:
      kinds.group = OpKinds::Group::kPlace;
      kinds.place = PlaceKind::kArguments;
      break;
    case OpGroup::kThread:
      kinds.group = OpKinds::Group::kThread;
      break;
    case OpGroup::kName:
    case OpGroup::kInputs:
    case OpGroup::kStep:
      break;
  }
  return kinds;
}

}  // namespace

std::string_view ToString(OpGroup group) {
  for (const auto& [value, name] : kGroupNames) {
    if (value == group) return name;
  }
  return "name";
}

std::optional<OpGroup> OpGroupFromString(std::string_view text) {
  for (const auto& [value, name] : kGroupNames) {
    if (name == text) return value;
  }
  return std::nullopt;
}

void SortBySelfTime(OpProfile& profile) {
  const auto key = [&](const OpProfileRow& row) {
    // Negative: more time comes first.
    return std::tuple(profile.has_device ? -row.self_device_ns : 0, -row.self_cpu_ns,
                      std::tie(row.name, row.step, row.dims, row.types, row.module, row.source,
                               row.stack, row.arguments, row.thread, row.rank));
  };
  std::ranges::sort(profile.rows, std::less<>(), key);
}

absl::StatusOr<OpProfile> SummarizeOpProfile(store::CaptureReader& recorded,
                                             const OpProfileOptions& options) {
  BelievedReader reader(recorded);
  ASSIGN_OR_RETURN(OpKinds kinds, OpKinds::Build(reader, KindsOf(options)));
  ASSIGN_OR_RETURN(OpProfile profile, OpProfiler(reader, options, kinds).Build());
  SortBySelfTime(profile);
  return profile;
}

}  // namespace profd::report
