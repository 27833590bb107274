#include "daemon/report/ops/profile.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/index/launch_statistics.h"
#include "daemon/report/index/op_kinds.h"
#include "daemon/report/index/operator_index.h"
#include "daemon/report/index/step_lookup.h"
#include "daemon/report/ops/flops.h"
#include "daemon/report/ops/gpu_peaks.h"
#include "daemon/report/ops/summary.h"
#include "proto/wire/event.h"

namespace profd::report {
namespace {

constexpr std::array<std::pair<OpGroup, std::string_view>, 5> kGroupNames = {{
    {OpGroup::kName, "name"},
    {OpGroup::kInputs, "input_shape"},
    {OpGroup::kModule, "module"},
    {OpGroup::kStep, "step"},
    {OpGroup::kThread, "thread"},
}};

template <typename Int>
double AsDouble(Int value) {
  return static_cast<double>(value);
}
double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }
double Average(int64_t total, int64_t calls) {
  return calls == 0 ? 0 : static_cast<double>(total) / static_cast<double>(calls);
}

struct SortKey {
  std::string_view name;
  double (*value)(const OpProfileRow&);
};
constexpr std::array<SortKey, 22> kSortKeys = {{
    {"share", [](const OpProfileRow& row) { return row.share; }},
    {"self_cpu", [](const OpProfileRow& row) { return AsDouble(row.op.self_cpu_ns); }},
    {"cpu_total", [](const OpProfileRow& row) { return AsDouble(row.op.cpu_total_ns); }},
    {"average", [](const OpProfileRow& row) { return Average(row.op.cpu_total_ns, row.op.calls); }},
    {"min", [](const OpProfileRow& row) { return AsDouble(row.op.min_ns); }},
    {"p50", [](const OpProfileRow& row) { return AsDouble(row.p50_ns); }},
    {"p95", [](const OpProfileRow& row) { return AsDouble(row.p95_ns); }},
    {"max", [](const OpProfileRow& row) { return AsDouble(row.op.max_ns); }},
    {"calls", [](const OpProfileRow& row) { return AsDouble(row.op.calls); }},
    {"calls_per_step", [](const OpProfileRow& row) { return row.calls_per_step; }},
    {"name", nullptr},
    {"self_device", [](const OpProfileRow& row) { return AsDouble(row.op.self_device_ns); }},
    {"device_total", [](const OpProfileRow& row) { return AsDouble(row.op.device_total_ns); }},
    {"device_average",
     [](const OpProfileRow& row) { return Average(row.op.device_total_ns, row.op.calls); }},
    {"busy_device", [](const OpProfileRow& row) { return AsDouble(row.op.busy_device_ns); }},
    {"cpu_memory", [](const OpProfileRow& row) { return AsDouble(row.op.cpu_memory_bytes); }},
    {"self_cpu_memory",
     [](const OpProfileRow& row) { return AsDouble(row.op.self_cpu_memory_bytes); }},
    {"device_memory", [](const OpProfileRow& row) { return AsDouble(row.op.device_memory_bytes); }},
    {"self_device_memory",
     [](const OpProfileRow& row) { return AsDouble(row.op.self_device_memory_bytes); }},
    {"flops", [](const OpProfileRow& row) { return row.flops; }},
    {"flops_per_s", [](const OpProfileRow& row) { return row.flops_per_s; }},
    {"peak_share", [](const OpProfileRow& row) { return row.peak_share; }},
}};

// What of a row's calls is where, beside their sums.
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

  OpFlops Of(const store::RangeBatch& batch, size_t i) {
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
        kinds_(kinds),
        lookup_(reader.steps()),
        is_python_(reader.names().size()) {}

  absl::StatusOr<OpProfile> Build() {
    OpOptions options = {.by_step = by_step_, .step = options_.step};
    ASSIGN_OR_RETURN(OpSummaryTable summary, SummarizeOpsByKind(reader_, options, kinds_));
    if (options_.step.has_value()) {
      ASSIGN_OR_RETURN(only_, lookup_.WithIndex(*options_.step));
    }
    FindPeaks();
    RETURN_IF_ERROR(ReadRanges());
    RETURN_IF_ERROR(ReadCalls());
    OpProfile profile;
    profile.step_count = only_.has_value() ? 1 : static_cast<int64_t>(lookup_.steps().size());
    ASSIGN_OR_RETURN(profile.busy_device_ns, BusyDeviceTime());
    AddRows(summary, profile);
    summary.table.rows.clear();
    profile.totals = std::move(summary.table);
    return profile;
  }

 private:
  using Key = std::pair<uint32_t, int64_t>;  // First kind, and the step's number or -1.

  absl::Status ReadRanges() {
    ASSIGN_OR_RETURN(FlopsLookup flops, FlopsLookup::Build(reader_));
    uint32_t columns = store::kRangeStart | store::kRangeDuration | kinds_.columns();
    columns |= store::kRangeName | store::kRangeCategory;
    if (!flops.empty()) columns |= store::kRangeDepth;
    return reader_.ForEachRange(columns, {}, [&](const store::RangeBatch& batch) {
      const std::span<const uint32_t> kinds = kinds_.Of(batch);
      for (size_t i = 0; i < batch.size; ++i) {
        is_python_[batch.name[i]] |=
            batch.category[i] == static_cast<uint8_t>(wire::RangeCategory::kPython);
        Calls* const calls = Add(kinds[i], batch.start_ns[i], batch.duration_ns[i]);
        if (calls == nullptr || flops.empty()) continue;
        if (const OpFlops of = flops.Of(batch, i); of.count > 0) calls->Add(of);
      }
      return absl::OkStatus();
    });
  }

  absl::Status ReadCalls() {
    return reader_.ForEachApiCall({}, [&](const store::ApiBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        Add(kinds_.OfCall(batch.name[i], batch.thread, batch.start_ns[i]), batch.start_ns[i],
            batch.duration_ns[i]);
      }
      return absl::OkStatus();
    });
  }

  // nullptr: it is not wanted. Valid until the next call.
  Calls* Add(uint32_t kind, int64_t start_ns, int64_t duration_ns) {
    const size_t position = lookup_.PositionAt(start_ns);
    const int64_t step = position == StepLookup::kNone ? -1 : lookup_.steps()[position].index;
    if (only_.has_value() && step != only_->index) return nullptr;
    const Key key = {kinds_.FirstOf(kind), by_step_ ? step : -1};
    const auto [at, inserted] = number_of_.try_emplace(key, static_cast<uint32_t>(calls_.size()));
    if (inserted) calls_.emplace_back();
    durations_.Add(at->second, duration_ns);
    Calls& calls = calls_[at->second];
    if (position == StepLookup::kNone) return &calls;
    ++(position == 0 ? calls.in_first_step : calls.in_later_steps);
    (position == 0 ? calls.first_step_ns : calls.later_steps_ns) +=
        static_cast<uint64_t>(duration_ns);
    return &calls;
  }

  // Of the devices, where they are all of one kind.
  void FindPeaks() {
    const std::vector<GpuDevice>& devices = reader_.record().gpu.devices;
    for (const GpuDevice& device : devices) {
      if (device.name != devices.front().name) return;
    }
    if (!devices.empty()) peaks_ = PeaksOf(devices.front().name);
  }

  void AddFlops(const Calls& calls, bool has_device, OpProfile& profile, OpProfileRow& row) const {
    row.flops = calls.flops;
    if (calls.flops == 0) return;
    profile.has_flops = true;
    // A rate of calls of which some are not known would be too low.
    if (calls.with_flops != static_cast<uint64_t>(row.op.calls)) return;
    const int64_t took_ns = has_device ? row.op.busy_device_ns : row.op.cpu_total_ns;
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
    row.peak_share = Ratio(row.flops_per_s, peak);
    profile.has_peak |= row.peak_share > 0;
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
      RETURN_IF_ERROR(reader_.ForEachApiCall({}, [&](const store::ApiBatch& batch) {
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
        reader_.ForEachGpu(store::kGpuTime | store::kGpuWhere | store::kGpuCause, {},
                           [&](const store::GpuBatch& batch) {
                             for (size_t i = 0; i < batch.size; ++i) {
                               if (only_.has_value() && !launched.contains(batch.correlation[i]))
                                 continue;
                               work.push_back({batch.device[i], batch.start_ns[i],
                                               batch.start_ns[i] + batch.duration_ns[i]});
                             }
                             return absl::OkStatus();
                           }));
    std::sort(work.begin(), work.end(),
              [](const Work& a, const Work& b) { return a.start_ns < b.start_ns; });
    BusyTime busy;
    for (const Work& piece : work) busy.Add(piece.device, piece.start_ns, piece.end_ns);
    return busy.total_ns();
  }

  void AddRows(OpSummaryTable& summary, OpProfile& profile) {
    const std::vector<DurationStatistics> statistics = durations_.Take(calls_.size());
    for (size_t i = 0; i < summary.table.rows.size(); ++i) {
      if (IsFrame(kinds_.NameOf(summary.kinds[i]))) {
        --summary.table.row_count;
        ++profile.frame_row_count;
        continue;
      }
      OpProfileRow& row = profile.rows.emplace_back();
      row.op = std::move(summary.table.rows[i]);
      row.group = GroupText(summary.kinds[i]);
      row.share =
          profile.busy_device_ns > 0
              ? Ratio(AsDouble(row.op.busy_device_ns), AsDouble(profile.busy_device_ns))
              : Ratio(AsDouble(row.op.self_cpu_ns), AsDouble(summary.table.self_cpu_total_ns));
      const auto found = number_of_.find({summary.kinds[i], by_step_ ? row.op.step : -1});
      if (found == number_of_.end()) continue;  // Only its work on the GPU is in this step.
      row.p50_ns = statistics[found->second].p50_ns;
      row.p95_ns = statistics[found->second].p95_ns;
      AddSteps(calls_[found->second], profile.step_count, row);
      AddFlops(calls_[found->second], summary.table.has_device, profile, row);
    }
  }

  void AddSteps(const Calls& calls, int64_t step_count, OpProfileRow& row) const {
    if (step_count == 0) return;
    const uint64_t in_steps = calls.in_first_step + calls.in_later_steps;
    if (by_step_) {
      row.calls_per_step = row.op.step < 0 ? -1 : AsDouble(row.op.calls);
      return;
    }
    row.calls_per_step = AsDouble(in_steps) / AsDouble(step_count);
    if (only_.has_value() || step_count < 2 || calls.in_first_step == 0) return;
    if (calls.in_later_steps == 0) {
      row.first_step = FirstStep::kOnly;
    } else if (AsDouble(calls.first_step_ns) * AsDouble(step_count - 1) >
               2 * AsDouble(calls.later_steps_ns)) {
      row.first_step = FirstStep::kSlower;
    }
  }

  // Modules are functions of Python, too, but rows of their own.
  bool IsFrame(uint32_t name) const {
    return is_python_[name] && !std::string_view(reader_.names()[name]).starts_with(kModulePrefix);
  }

  std::string GroupText(uint32_t kind) const {
    switch (options_.group) {
      case OpGroup::kModule:
        return kinds_.modules().NameOf(kinds_.GroupOf(kind));
      case OpGroup::kThread: {
        const store::ReaderThread& thread = reader_.threads()[kinds_.GroupOf(kind)];
        return thread.name.empty() ? StrCat(thread.os_thread)
                                   : StrCat(thread.os_thread, " ", thread.name);
      }
      case OpGroup::kName:
      case OpGroup::kInputs:
      case OpGroup::kStep:
        break;
    }
    return "";
  }

  store::CaptureReader& reader_;
  const OpProfileOptions& options_;
  const bool by_step_;
  OpKinds& kinds_;
  StepLookup lookup_;
  std::optional<StepRecord> only_;
  std::vector<uint8_t> is_python_;                // By name.
  absl::flat_hash_map<Key, uint32_t> number_of_;  // Position in calls_, and group of durations_.
  std::vector<Calls> calls_;
  GroupedDurations durations_;
  std::optional<GpuPeaks> peaks_;
};

OpKinds::Group KindsGroupOf(OpGroup group) {
  switch (group) {
    case OpGroup::kModule:
      return OpKinds::Group::kModule;
    case OpGroup::kThread:
      return OpKinds::Group::kThread;
    case OpGroup::kName:
    case OpGroup::kInputs:
    case OpGroup::kStep:
      break;
  }
  return OpKinds::Group::kNone;
}

const SortKey* FindSortKey(std::string_view name) {
  const auto* const key = std::find_if(kSortKeys.begin(), kSortKeys.end(),
                                       [&](const SortKey& one) { return one.name == name; });
  return key == kSortKeys.end() ? nullptr : key;
}

void SortRows(const SortKey& key, std::vector<OpProfileRow>& rows) {
  std::sort(rows.begin(), rows.end(), [&](const OpProfileRow& a, const OpProfileRow& b) {
    if (key.value != nullptr) {
      const double value_a = key.value(a);
      const double value_b = key.value(b);
      if (value_a != value_b) return value_a > value_b;
      if (a.op.self_cpu_ns != b.op.self_cpu_ns) return a.op.self_cpu_ns > b.op.self_cpu_ns;
    }
    return std::tie(a.op.name, a.op.step, a.op.dims, a.op.types, a.group) <
           std::tie(b.op.name, b.op.step, b.op.dims, b.op.types, b.group);
  });
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

std::string_view ToString(FirstStep first) {
  switch (first) {
    case FirstStep::kUsual:
      return "";
    case FirstStep::kOnly:
      return "only";
    case FirstStep::kSlower:
      return "slower";
  }
  return "";
}

std::span<const std::string_view> OpProfileSortKeys() {
  static const std::array<std::string_view, kSortKeys.size()> names = [] {
    std::array<std::string_view, kSortKeys.size()> all;
    for (size_t i = 0; i < all.size(); ++i) all[i] = kSortKeys[i].name;
    return all;
  }();
  return names;
}

void SortAndCut(const OpProfileOptions& options, OpProfile& profile) {
  const std::string_view natural = profile.totals.has_device ? "self_device" : "self_cpu";
  const SortKey* const key = FindSortKey(options.sort.empty() ? natural : options.sort);
  if (key != nullptr) SortRows(*key, profile.rows);
  if (options.limit > 0 && profile.rows.size() > static_cast<size_t>(options.limit)) {
    profile.rows.resize(static_cast<size_t>(options.limit));
  }
}

absl::StatusOr<OpProfile> SummarizeOpProfile(store::CaptureReader& reader,
                                             const OpProfileOptions& options) {
  if (options.limit < 0) return absl::InvalidArgumentError("limit must be 0 (all rows) or more");
  if (!options.sort.empty() && FindSortKey(options.sort) == nullptr) {
    return absl::InvalidArgumentError(StrCat("nothing to sort by is called ", options.sort));
  }
  ASSIGN_OR_RETURN(OpKinds kinds, OpKinds::Build(reader, options.group == OpGroup::kInputs,
                                                 KindsGroupOf(options.group)));
  ASSIGN_OR_RETURN(OpProfile profile, OpProfiler(reader, options, kinds).Build());
  SortAndCut(options, profile);
  return profile;
}

}  // namespace profd::report
