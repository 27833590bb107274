#include "daemon/report/ops/op_table.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/report/believed/believed_reader.h"
#include "daemon/report/index/end_of.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/index/lost_parents.h"
#include "daemon/report/index/op_kinds.h"
#include "daemon/report/index/overlaps.h"
#include "daemon/report/index/redispatch.h"
#include "daemon/report/index/step_lookup.h"
#include "daemon/report/ops/device.h"
#include "daemon/report/ops/memory.h"
#include "daemon/report/ops/summary.h"
#include "daemon/report/ops/window_cuts.h"
#include "proto/wire/event.h"

namespace profd::report {
namespace {

constexpr std::array<std::pair<OpSort, std::string_view>, 9> kOpSortNames = {{
    {OpSort::kSelfCpu, "self_cpu"},
    {OpSort::kCpuTotal, "cpu_total"},
    {OpSort::kCalls, "calls"},
    {OpSort::kAverage, "average"},
    {OpSort::kMax, "max"},
    {OpSort::kName, "name"},
    {OpSort::kSelfDevice, "self_device"},
    {OpSort::kDeviceTotal, "device_total"},
    {OpSort::kBusyDevice, "busy_device"},
}};

// Sums are unsigned so that no number in a stranger's file can overflow.
struct Totals {
  uint64_t calls = 0;
  uint64_t overlapping_calls = 0;
  uint64_t self_ns = 0;
  uint64_t total_ns = 0;
  int64_t min_ns = 0;
  int64_t max_ns = 0;
  OpMemory::Bytes self_memory;
  OpMemory::Bytes memory;

  void Add(int64_t duration_ns, uint64_t self) {
    min_ns = calls == 0 ? duration_ns : std::min(min_ns, duration_ns);
    max_ns = std::max(max_ns, duration_ns);
    ++calls;
    self_ns += self;
    total_ns += static_cast<uint64_t>(duration_ns);
  }
  void Add(const Totals& other) {
    if (other.calls > 0) AddTimes(other);
    self_memory.Add(other.self_memory);
    memory.Add(other.memory);
  }

 private:
  void AddTimes(const Totals& other) {
    min_ns = calls == 0 ? other.min_ns : std::min(min_ns, other.min_ns);
    max_ns = std::max(max_ns, other.max_ns);
    calls += other.calls;
    overlapping_calls += other.overlapping_calls;
    self_ns += other.self_ns;
    total_ns += other.total_ns;
  }
};

uint64_t Without(int64_t duration_ns, uint64_t children_ns) {
  const auto duration = static_cast<uint64_t>(duration_ns);
  return duration - std::min(duration, children_ns);
}

// Self times of one thread's ranges, which come in order of their end.
class SelfTimes {
 public:
  virtual ~SelfTimes() = default;
  virtual void Compute(const RangeBatch& batch, std::span<uint64_t> self) = 0;
};

// Needs no times: in end order the children of a range at depth d are those at depth d + 1
// since the last range at depth d. True only if no range is missing.
class SelfTimesByDepth : public SelfTimes {
 public:
  void Compute(const RangeBatch& batch, std::span<uint64_t> self) override {
    for (size_t i = 0; i < batch.size; ++i) {
      const size_t depth = batch.depth[i];
      if (depth + 1 >= children_ns_.size()) children_ns_.resize(depth + 2);
      self[i] = Without(batch.duration_ns[i], std::exchange(children_ns_[depth + 1], 0));
      children_ns_[depth] += static_cast<uint64_t>(batch.duration_ns[i]);
    }
  }

 private:
  std::vector<uint64_t> children_ns_ = std::vector<uint64_t>(2);
};

// For captures that may lack parents: their children fall to the nearest range around them that is
// there. Keeps the ranges no later one has enclosed yet; of too many
// of those, neighbours are merged, so that a range which began between two of them may
// miss the older one's time.
class SelfTimesByTime : public SelfTimes {
 public:
  void Compute(const RangeBatch& batch, std::span<uint64_t> self) override {
    for (size_t i = 0; i < batch.size; ++i) {
      uint64_t children_ns = 0;
      while (!unclaimed_.empty() && unclaimed_.back().start_ns >= batch.start_ns[i]) {
        children_ns += unclaimed_.back().duration_ns;
        unclaimed_.pop_back();
      }
      self[i] = Without(batch.duration_ns[i], children_ns);
      if (batch.depth[i] == 0) {
        unclaimed_.clear();
        continue;
      }
      unclaimed_.push_back({batch.start_ns[i], static_cast<uint64_t>(batch.duration_ns[i])});
      if (unclaimed_.size() > kMostUnclaimed) MergeNeighbours();
    }
  }

 private:
  static constexpr size_t kMostUnclaimed = 8192;
  struct Range {
    int64_t start_ns;
    uint64_t duration_ns;
  };

  void MergeNeighbours() {
    size_t kept = 0;
    for (size_t i = 0; i < unclaimed_.size(); ++i) {
      if (i % 2 == 0) {
        unclaimed_[kept++] = unclaimed_[i];
      } else {
        unclaimed_[kept - 1].duration_ns += unclaimed_[i].duration_ns;
      }
    }
    unclaimed_.resize(kept);
  }

  std::vector<Range> unclaimed_;
};

// Totals by (step, kind), where ranges of one step mostly come together: the step at hand
// is kept by kind, and goes into the map when another begins.
class StepTotals {
 public:
  using Map = absl::flat_hash_map<std::pair<uint32_t, size_t>, Totals>;

  // `kinds` must outlive this.
  explicit StepTotals(const OpKinds& kinds) : kinds_(kinds) {}

  // There may be more kinds than at the last call. Before At(), once there are.
  void Grow() {
    at_hand_.resize(kinds_.size());
    is_used_.resize(kinds_.size());
  }
  // Valid until the next call.
  Totals& At(size_t step, uint32_t kind) {
    if (step != step_) {
      PutAway();
      step_ = step;
    }
    if (!is_used_[kind]) {
      is_used_[kind] = true;
      used_.push_back(kind);
    }
    return at_hand_[kind];
  }
  // By the first kind of each row, and step.
  const Map& All() {
    PutAway();
    return totals_;
  }

 private:
  void PutAway() {
    for (const uint32_t kind : used_) {
      totals_[{kinds_.FirstOf(kind), step_}].Add(std::exchange(at_hand_[kind], {}));
      is_used_[kind] = false;
    }
    used_.clear();
  }

  const OpKinds& kinds_;
  size_t step_ = StepLookup::kNone;
  std::vector<Totals> at_hand_;   // By kind.
  std::vector<uint8_t> is_used_;  // Likewise.
  std::vector<uint32_t> used_;    // The kinds that are.
  Map totals_;
};

// What the API calls directly in each range took, of one thread's ranges in order of their end.
class ApiTimes {
 public:
  explicit ApiTimes(std::span<const GpuAttribution::Call> calls) : calls_(calls), sweep_(calls) {}

  // Takes it from the self times of the batch's ranges, whose children they are.
  void Subtract(const RangeBatch& batch, std::span<uint64_t> self) {
    for (size_t i = 0; i < batch.size; ++i) {
      int64_t end_ns = 0;
      if (__builtin_add_overflow(batch.start_ns[i], batch.duration_ns[i], &end_ns)) continue;
      uint64_t calls_ns = 0;
      sweep_.EndRange(batch.start_ns[i], end_ns, [&](size_t call) {
        calls_ns += static_cast<uint64_t>(DurationOf(calls_[call]));
      });
      self[i] -= std::min(self[i], calls_ns);
      if (batch.depth[i] == 0) sweep_.EndOutermost();
    }
  }

  static int64_t DurationOf(const GpuAttribution::Call& call) {
    return call.end_ns - call.start_ns;
  }

 private:
  const std::span<const GpuAttribution::Call> calls_;
  CallSweep sweep_;
};

class OpSummary {
 public:
  // `kinds` must outlive this.
  OpSummary(store::CaptureReader& reader, const OpOptions& options, OpKinds& kinds)
      : reader_(reader),
        by_step_(options.by_step),
        lacks_parents_(MayLackParents(reader)),
        lookup_(reader.steps()),
        kinds_(kinds),
        by_step_totals_(kinds) {
    Grow();
  }

  absl::Status Read(const std::optional<StepRecord>& only) {
    ASSIGN_OR_RETURN(cuts_, WindowCuts::Build(reader_));
    ASSIGN_OR_RETURN(redispatches_, Redispatches::Build(reader_));
    uint32_t columns = redispatches_->columns() | kinds_.columns();
    // Only these have rows of Python's functions.
    if (!reader_.record().imported.source.empty()) columns |= kRangeCategory;
    store::TimeFilter filter;
    only_ = only;
    if (HasGpu()) {
      ASSIGN_OR_RETURN(gpu_, GpuAttribution::Build(reader_, &kinds_));
    }
    ASSIGN_OR_RETURN(
        overlaps_,
        OverlapSelfTimes::Build(
            reader_, gpu_.has_value() ? gpu_->calls() : std::span<const GpuAttribution::Call>()));
    if (gpu_.has_value()) RETURN_IF_ERROR(ReadGpu());
    RETURN_IF_ERROR(memory_.Read(reader_));
    if (!memory_.empty()) columns |= OpMemory::kColumns;
    // Self times of overlapping ranges are given for all batches.
    if (only.has_value() && overlaps_.empty()) {
      ASSIGN_OR_RETURN(filter, SpanOfOnly());
    }
    if (lacks_parents_ || by_step_ || only.has_value() || gpu_.has_value()) columns |= kRangeStart;
    RETURN_IF_ERROR(reader_.ForEach<RangeRow>(columns, filter, [&](const RangeBatch& batch) {
      AddBatch(batch);
      return absl::OkStatus();
    }));
    for (const Pending& last : pending_) Commit(last);
    return absl::OkStatus();
  }

  bool overlaps_add_up() const { return overlaps_.is_too_much(); }
  // One row per name (and step, and inputs).
  std::vector<OpRow> TakeRows(std::vector<uint32_t>& row_kinds) {
    std::vector<OpRow> rows;
    std::vector<RowKey> keys;  // Of the same positions.
    const auto add = [&](uint32_t kind, int64_t step, const Totals& totals) {
      rows.push_back(RowOf(kind, step, totals));
      keys.emplace_back(kind, step);
    };
    for (uint32_t kind = 0; kind < by_kind_.size(); ++kind) {
      const uint32_t first = kinds_.FirstOf(kind);
      if (first != kind) by_kind_[first].Add(by_kind_[kind]);
    }
    for (uint32_t kind = 0; kind < by_kind_.size(); ++kind) {
      if (kinds_.FirstOf(kind) == kind && by_kind_[kind].calls > 0) add(kind, -1, by_kind_[kind]);
    }
    for (const auto& [key, totals] : by_step_totals_.All()) {
      add(key.first, IndexOfStep(key.second), totals);
    }
    if (device_.has_value()) AddDeviceTo(keys, rows);
    for (const RowKey& key : keys) row_kinds.push_back(key.first);
    return rows;
  }

  // nullptr: nothing of CUDA was recorded.
  const OpDevice* device() const { return device_.has_value() ? &*device_ : nullptr; }
  bool has_memory() const { return !memory_.empty(); }

 private:
  using RowKey = std::pair<uint32_t, int64_t>;  // Kind and number of the step; -1: none.

  void Grow() {
    if (by_step_) {
      by_step_totals_.Grow();
    } else {
      by_kind_.resize(kinds_.size());
    }
  }

  // From the step's start to the last end of a range that begins in it: all that these
  // ranges enclose lies there.
  absl::StatusOr<store::TimeFilter> SpanOfOnly() {
    const store::TimeFilter step = {only_->start_ns, EndOf(only_->start_ns, only_->duration_ns)};
    store::TimeFilter span = step;
    RETURN_IF_ERROR(
        reader_.ForEach<RangeRow>(kRangeStart | kRangeDuration, step, [&](const RangeBatch& batch) {
          for (size_t i = 0; i < batch.size; ++i) {
            if (!BeginsInOnly(batch.start_ns[i])) continue;
            span.end_ns = std::max(span.end_ns, EndOf(batch.start_ns[i], batch.duration_ns[i]));
          }
          return absl::OkStatus();
        }));
    return span;
  }

  OpRow RowOf(uint32_t kind, int64_t step, const Totals& totals) const {
    OpRow row = {.name = std::string(OpKinds::TextOf(reader_.names()[kinds_.NameOf(kind)])),
                 .step = step,
                 .calls = static_cast<int64_t>(totals.calls),
                 .overlapping_calls = static_cast<int64_t>(totals.overlapping_calls),
                 .self_cpu_ns = static_cast<int64_t>(totals.self_ns),
                 .cpu_total_ns = static_cast<int64_t>(totals.total_ns),
                 .min_ns = totals.min_ns,
                 .max_ns = totals.max_ns,
                 .cpu_memory_bytes = totals.memory.cpu,
                 .self_cpu_memory_bytes = totals.self_memory.cpu,
                 .device_memory_bytes = totals.memory.device,
                 .self_device_memory_bytes = totals.self_memory.device};
    if (const uint32_t inputs = kinds_.InputsOf(kind); inputs != 0) {
      row.dims = reader_.inputs()[inputs].dims;
      row.types = reader_.inputs()[inputs].types;
    }
    return row;
  }

  // Also without any GPU row: a program may only call the API.
  bool HasGpu() const {
    const GpuOutcome outcome = reader_.record().gpu.outcome;
    return reader_.gpu_row_count() > 0 || outcome == GpuOutcome::kRecorded ||
           outcome == GpuOutcome::kBroken;
  }

  // Calls of the API are rows, too; what the GPU did is summed by the ranges around them.
  absl::Status ReadGpu() {
    for (size_t i = 0; i < gpu_->calls().size(); ++i) {
      const GpuAttribution::Call& call = gpu_->calls()[i];
      if (only_.has_value() && !BeginsInOnly(call.start_ns)) continue;
      if (gpu_->IsBeforeWindow(call)) continue;
      const int64_t duration_ns = ApiTimes::DurationOf(call);
      const uint64_t self_ns =
          overlaps_.Has(call.thread) ? overlaps_.OfCall(i) : static_cast<uint64_t>(duration_ns);
      const size_t step = call.step < 0 ? StepLookup::kNone : static_cast<size_t>(call.step);
      const uint32_t kind = kinds_.OfCall(call.name, call.thread, call.start_ns);
      Grow();
      Totals& totals = by_step_ ? by_step_totals_.At(step, kind) : by_kind_[kind];
      totals.Add(duration_ns, self_ns);
    }
    OpDevice::Options options = {.by_step = by_step_};
    if (only_.has_value()) options.step = only_->index;
    device_.emplace(*gpu_, kinds_, options);
    return device_->Read(reader_);
  }

  // A range that began in another step than the launches it held has a row of no calls there.
  void AddDeviceTo(std::vector<RowKey>& keys, std::vector<OpRow>& rows) const {
    absl::flat_hash_map<RowKey, size_t> row_of;
    for (size_t i = 0; i < keys.size(); ++i) row_of.emplace(keys[i], i);
    for (const OpDevice::Row& device : device_->rows()) {
      const int64_t step =
          IndexOfStep(device.step < 0 ? StepLookup::kNone : static_cast<size_t>(device.step));
      const auto [at, inserted] = row_of.try_emplace({device.kind, step}, rows.size());
      if (inserted) {
        rows.push_back(RowOf(device.kind, step, {}));
        keys.emplace_back(device.kind, step);
      }
      OpRow& row = rows[at->second];
      row.self_device_ns = static_cast<int64_t>(device.self_ns);
      row.device_total_ns = static_cast<int64_t>(device.total_ns);
      row.busy_device_ns = static_cast<int64_t>(device.busy_ns);
    }
  }

  int64_t IndexOfStep(size_t position) const {
    return position == StepLookup::kNone ? -1 : lookup_.steps()[position].index;
  }

  // A thread's functions of Python stand in a thread of their own: they are no operators.
  static bool IsPython(const RangeBatch& batch) {
    return !batch.category.empty() &&
           batch.category.front() == static_cast<uint8_t>(wire::RangeCategory::kPython);
  }

  void AddBatch(const RangeBatch& batch) {
    const RangeBatch cut = overlaps_.Has(batch.thread) ? batch : cuts_.Cut(batch);
    if (self_.size() < batch.size) self_.resize(batch.size);
    const auto self = std::span(self_).first(batch.size);
    if (overlaps_.Has(batch.thread)) overlaps_.Next(batch, self);
    if (IsPython(batch)) return;
    if (!overlaps_.Has(batch.thread)) {
      SelfTimesOf(batch.thread).Compute(cut, self);
      if (gpu_.has_value()) ApiTimesOf(batch.thread).Subtract(cut, self);
    }
    const bool is_overlapping = IsLane(reader_.threads()[batch.thread]);
    const std::span<const uint32_t> kinds = kinds_.Of(batch);
    Grow();
    const std::span<const uint8_t> folds = redispatches_->FindFolds(batch, kinds, kinds_);
    if (!by_step_ && !only_.has_value() && !is_overlapping && memory_.empty()) {
      AddPlainRows(cut, kinds, folds);
      return;
    }
    const std::span<const OpMemory::Change> changes =
        memory_.empty() ? std::span<const OpMemory::Change>() : memory_.Of(batch);
    size_t next_change = 0;
    if (batch.thread >= pending_.size()) pending_.resize(batch.thread + size_t{1});
    Pending pending = pending_[batch.thread];
    for (size_t i = 0; i < batch.size; ++i) {
      Pending range = {.kind = kinds[i], .duration_ns = cut.duration_ns[i], .self_ns = self[i]};
      range.counts = SetStep(batch, i, range);
      range.is_overlapping = is_overlapping;
      if (next_change < changes.size() && changes[next_change].row == i) {
        range.self_memory = changes[next_change].self;
        range.memory = changes[next_change].total;
        ++next_change;
      }
      if (folds[i] != 0) {
        range.self_ns += pending.self_ns;
        range.self_memory.Add(pending.self_memory);
      } else {
        Commit(pending);
      }
      pending = range;
    }
    pending_[batch.thread] = pending;
  }

  // Of a table of names and nothing else, which most are.
  void AddPlainRows(const RangeBatch& cut, std::span<const uint32_t> kinds,
                    std::span<const uint8_t> folds) {
    if (cut.thread >= pending_.size()) pending_.resize(cut.thread + size_t{1});
    Pending& last = pending_[cut.thread];
    bool counts = last.counts;
    uint32_t kind = last.kind;
    int64_t duration_ns = last.duration_ns;
    uint64_t self_ns = last.self_ns;
    for (size_t i = 0; i < cut.size; ++i) {
      uint64_t folded_ns = 0;
      if (folds[i] != 0) {
        folded_ns = self_ns;
      } else if (counts) {
        by_kind_[kind].Add(duration_ns, self_ns);
      }
      counts = true;
      kind = kinds[i];
      duration_ns = cut.duration_ns[i];
      self_ns = self_[i] + folded_ns;
    }
    last.counts = counts;
    last.kind = kind;
    last.duration_ns = duration_ns;
    last.self_ns = self_ns;
  }

  // A range that counts unless the next one of its thread turns out to be the same call.
  struct Pending {
    bool counts = false;
    bool is_overlapping = false;  // On a lane.
    uint32_t kind = 0;
    size_t step = StepLookup::kNone;  // Position; by step only.
    int64_t duration_ns = 0;
    uint64_t self_ns = 0;
    OpMemory::Bytes self_memory;
    OpMemory::Bytes memory;
  };

  // Returns whether the batch's range `i` is wanted.
  bool SetStep(const RangeBatch& batch, size_t i, Pending& range) {
    if (only_.has_value() && !BeginsInOnly(batch.start_ns[i])) return false;
    if (by_step_) range.step = lookup_.PositionAt(batch.start_ns[i]);
    return true;
  }

  void Commit(const Pending& range) {
    if (!range.counts) return;
    Totals& totals = by_step_ ? by_step_totals_.At(range.step, range.kind) : by_kind_[range.kind];
    totals.Add(range.duration_ns, range.self_ns);
    totals.overlapping_calls += range.is_overlapping ? 1 : 0;
    if (memory_.empty()) return;
    totals.self_memory.Add(range.self_memory);
    totals.memory.Add(range.memory);
  }

  bool BeginsInOnly(int64_t time_ns) const {
    return time_ns >= only_->start_ns &&
           static_cast<uint64_t>(time_ns) - static_cast<uint64_t>(only_->start_ns) <
               static_cast<uint64_t>(only_->duration_ns);
  }

  SelfTimes& SelfTimesOf(uint32_t thread) {
    if (thread >= threads_.size()) threads_.resize(thread + 1);
    std::unique_ptr<SelfTimes>& times = threads_[thread];
    if (times == nullptr) {
      if (lacks_parents_) {
        times = std::make_unique<SelfTimesByTime>();
      } else {
        times = std::make_unique<SelfTimesByDepth>();
      }
    }
    return *times;
  }

  ApiTimes& ApiTimesOf(uint32_t thread) {
    if (thread >= api_times_.size()) api_times_.resize(thread + 1);
    std::optional<ApiTimes>& times = api_times_[thread];
    if (!times.has_value()) times.emplace(gpu_->CallsOf(thread));
    return *times;
  }

  store::CaptureReader& reader_;
  const bool by_step_;
  const bool lacks_parents_;
  std::optional<StepRecord> only_;
  StepLookup lookup_;
  std::vector<std::unique_ptr<SelfTimes>> threads_;
  std::vector<uint64_t> self_;
  WindowCuts cuts_;
  std::optional<Redispatches> redispatches_;
  std::vector<Pending> pending_;  // By thread.
  OpKinds& kinds_;
  std::vector<Totals> by_kind_;
  StepTotals by_step_totals_;
  OverlapSelfTimes overlaps_;
  // Of captures that recorded CUDA.
  std::optional<GpuAttribution> gpu_;
  std::optional<OpDevice> device_;
  std::vector<std::optional<ApiTimes>> api_times_;  // By thread.
  OpMemory memory_;
};

double AverageOf(const OpRow& row) {
  return row.calls == 0 ? 0
                        : static_cast<double>(row.cpu_total_ns) / static_cast<double>(row.calls);
}

// a comes before b, as far as `sort` can tell.
bool ComesBefore(OpSort sort, const OpRow& a, const OpRow& b) {
  switch (sort) {
    case OpSort::kSelfCpu:
      return a.self_cpu_ns > b.self_cpu_ns;
    case OpSort::kCpuTotal:
      return a.cpu_total_ns > b.cpu_total_ns;
    case OpSort::kCalls:
      return a.calls > b.calls;
    case OpSort::kAverage:
      return AverageOf(a) > AverageOf(b);
    case OpSort::kMax:
      return a.max_ns > b.max_ns;
    case OpSort::kName:
      return a.name < b.name;
    case OpSort::kSelfDevice:
      return a.self_device_ns > b.self_device_ns;
    case OpSort::kDeviceTotal:
      return a.device_total_ns > b.device_total_ns;
    case OpSort::kBusyDevice:
      return a.busy_device_ns > b.busy_device_ns;
  }
  return false;
}

void SortRows(OpSort sort, std::vector<OpRow>& rows) {
  std::sort(rows.begin(), rows.end(), [sort](const OpRow& a, const OpRow& b) {
    if (ComesBefore(sort, a, b)) return true;
    if (ComesBefore(sort, b, a)) return false;
    // Rows come out of hash maps, in an order of no meaning.
    return std::tie(a.name, a.step, a.dims, a.types) < std::tie(b.name, b.step, b.dims, b.types);
  });
}

}  // namespace

std::string_view ToString(OpSort sort) {
  for (const auto& [value, name] : kOpSortNames) {
    if (value == sort) return name;
  }
  return "self_cpu";
}

std::optional<OpSort> OpSortFromString(std::string_view text) {
  for (const auto& [value, name] : kOpSortNames) {
    if (name == text) return value;
  }
  return std::nullopt;
}

absl::StatusOr<OpTable> SummarizeOps(store::CaptureReader& recorded, const OpOptions& options) {
  BelievedReader reader(recorded);
  if (options.limit < 0) return absl::InvalidArgumentError("limit must be 0 (all rows) or more");
  ASSIGN_OR_RETURN(OpKinds kinds, OpKinds::Build(reader, {.by_inputs = options.by_inputs}));
  ASSIGN_OR_RETURN(OpSummaryTable summary, SummarizeOpsByKind(reader, options, kinds));
  OpTable table = std::move(summary.table);
  SortRows(options.sort, table.rows);
  if (options.limit > 0 && table.row_count > options.limit) {
    table.rows.resize(static_cast<size_t>(options.limit));
  }
  return table;
}

absl::StatusOr<OpSummaryTable> SummarizeOpsByKind(store::CaptureReader& recorded,
                                                  const OpOptions& options, OpKinds& kinds) {
  BelievedReader reader(recorded);
  std::optional<StepRecord> only;
  if (options.step.has_value()) {
    ASSIGN_OR_RETURN(only, StepLookup(reader.steps()).WithIndex(*options.step));
  }
  OpSummary summary(reader, options, kinds);
  RETURN_IF_ERROR(summary.Read(only));

  OpSummaryTable result;
  OpTable& table = result.table;
  table.rows = summary.TakeRows(result.kinds);
  table.overlaps_add_up = summary.overlaps_add_up();
  table.row_count = static_cast<int64_t>(table.rows.size());
  table.has_memory = summary.has_memory();
  uint64_t self_total = 0;
  for (const OpRow& row : table.rows) self_total += static_cast<uint64_t>(row.self_cpu_ns);
  table.self_cpu_total_ns = static_cast<int64_t>(self_total);
  if (const OpDevice* device = summary.device()) {
    table.has_device = reader.gpu_row_count() > 0;
    table.self_device_total_ns = static_cast<int64_t>(device->total_ns());
    table.unattributed_device_ns = static_cast<int64_t>(device->unattributed_ns());
  }
  return result;
}

}  // namespace profd::report
