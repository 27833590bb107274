#include "daemon/report/time/host_split.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/median.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/index/autograd_names.h"
#include "daemon/report/index/collective_names.h"
#include "daemon/report/index/end_of.h"
#include "daemon/report/index/first_ids.h"
#include "daemon/report/index/overlaps.h"
#include "daemon/report/index/place_index.h"
#include "daemon/report/index/stack_table.h"
#include "daemon/report/index/step_lookup.h"
#include "daemon/report/index/step_names.h"
#include "daemon/report/index/waiting_calls.h"
#include "daemon/report/index/wrapping_math.h"
#include "daemon/report/time/data_loader_time.h"
#include "proto/wire/event.h"

namespace profd::report {
namespace {

constexpr auto kOperatorRange = static_cast<uint8_t>(wire::RangeCategory::kOperator);
constexpr auto kPythonRange = static_cast<uint8_t>(wire::RangeCategory::kPython);
constexpr std::string_view kHostBackwardPrefix = "autograd::engine::";
constexpr std::string_view kOptimizerStepPrefix = "Optimizer.step#";
// A thread takes turns with the step's if its operators overlap that one's a quarter as much as
// those of an independent thread would, or less.
constexpr double kTakesTurns = 0.25;
constexpr auto kShortGap = static_cast<uint64_t>(kShortHostGapNs);
// Operators of a loader's start: its own and those of samplers.
constexpr size_t kMostLoaderStartPieces = 64;
// A range is around a gap if it covers this much of it.
constexpr double kAround = 0.8;

// In place of a name: a collective, of whose wait there is no range, and a compilation.
constexpr uint32_t kCollectiveName = std::numeric_limits<uint32_t>::max();
constexpr std::string_view kCollectiveText = "(collective)";
constexpr uint32_t kCompileName = kCollectiveName - 1;
constexpr std::string_view kCompileText = "(compilation)";

// By precedence: the first that applies to an instant has it.
enum class HostPart : uint8_t { kDataLoader, kGpuWait, kCollective, kCompile, kOperator };
constexpr size_t kHostParts = 5;

struct HostPiece {
  int64_t start_ns;
  int64_t end_ns;
  uint32_t name;
  HostPart part;
};

// Adds a range that ended after all so far; those inside it are part of it.
void AddOutermost(HostPiece piece, std::vector<HostPiece>& pieces) {
  while (!pieces.empty() && pieces.back().start_ns >= piece.start_ns) pieces.pop_back();
  pieces.push_back(piece);
}

// Likewise a range in which code of the program runs between operators: what is in it stays, and so
// does what lies between, if that is as long as a gap that counts.
void AddAround(const HostPiece& piece, std::vector<HostPiece>& pieces) {
  auto inner = pieces.end();
  while (inner != pieces.begin() && std::prev(inner)->start_ns >= piece.start_ns) --inner;
  if (inner == pieces.end()) {
    if (Distance(piece.start_ns, piece.end_ns) < kShortGap) pieces.push_back(piece);
    return;
  }
  if (Distance(piece.start_ns, inner->start_ns) < kShortGap) inner->start_ns = piece.start_ns;
  for (; std::next(inner) != pieces.end(); ++inner) {
    const int64_t next_ns = std::next(inner)->start_ns;
    if (Distance(inner->end_ns, next_ns) < kShortGap) inner->end_ns = next_ns;
  }
  if (Distance(inner->end_ns, piece.end_ns) < kShortGap) inner->end_ns = piece.end_ns;
}

void SortPieces(std::vector<HostPiece>& pieces) {
  std::sort(pieces.begin(), pieces.end(), [](const HostPiece& a, const HostPiece& b) {
    return std::tie(a.start_ns, a.end_ns) < std::tie(b.start_ns, b.end_ns);
  });
}

IntervalSet SetOfPieces(const std::vector<HostPiece>& sorted) {
  IntervalSet set;
  for (const HostPiece& piece : sorted) set.Add(piece.start_ns, piece.end_ns);
  return set;
}

int64_t MeasureOf(const IntervalSet& set, int64_t start_ns, int64_t end_ns) {
  return static_cast<int64_t>(set.MeasureIn(start_ns, end_ns));
}

// The first instant that the split is about, and the end.
struct HostExtent {
  int64_t start_ns = std::numeric_limits<int64_t>::max();
  int64_t end_ns = std::numeric_limits<int64_t>::min();

  bool empty() const { return end_ns <= start_ns; }
  void Add(int64_t from_ns, int64_t to_ns) {
    start_ns = std::min(start_ns, from_ns);
    end_ns = std::max(end_ns, to_ns);
  }
};

class HostSplitter {
 public:
  HostSplitter(store::CaptureReader& reader, const GpuAttribution& attribution,
               const IntervalSet& collectives, const IntervalSet& compiling,
               const std::vector<bool>& blocking_copies)
      : reader_(reader),
        attribution_(attribution),
        collectives_(collectives),
        compiling_(compiling),
        blocking_copies_(blocking_copies),
        first_ids_(FirstIds(reader.names())),
        threads_(reader.threads().size()) {}

  absl::StatusOr<HostSplits> Split() {
    for (const StepRecord& step : attribution_.steps()) {
      extent_.Add(step.start_ns, EndOf(step.start_ns, step.duration_ns));
    }
    if (extent_.empty()) {
      for (const WindowRecord& window : reader_.record().windows) {
        extent_.Add(window.start_ns, window.end_ns);
      }
    }
    if (extent_.empty()) return Unknown("steps or a window");
    RETURN_IF_ERROR(ReadRanges());
    if (const std::string needs = ChooseRanges(); !needs.empty()) return Unknown(needs);
    if (reader_.gpu_row_count() > 0 && attribution_.calls().empty()) {
      return Unknown("CUDA API calls (profctl trace --gpu default)");
    }
    ChooseThreads();
    FindRounds();
    Collect();
    RETURN_IF_ERROR(ReadOwnOverhead());
    FindGaps();
    for (const StepRecord& step : attribution_.steps()) result_.steps.push_back(SplitOf(step));
    return std::move(result_);
  }

 private:
  struct Thread {
    std::vector<HostPiece> operators;
    std::vector<HostPiece> ranges;   // Of the user; instead of operators where there are none.
    std::vector<HostPiece> loaders;  // Waits for a batch.
    bool runs_backward = false;
    bool runs_optimizer = false;
    bool trains = false;
  };
  enum class Kind : uint8_t { kOther, kStep, kLoader, kWorker, kBackward, kOptimizer };

  static HostSplits Unknown(std::string_view needs) {
    HostSplits time;
    time.needs = needs;
    return time;
  }

  Kind KindOf(std::string_view name) const {
    if (IsDataLoaderWait(name)) return Kind::kLoader;
    const std::string& marker = reader_.record().spec.step_marker;
    if (IsProfilerStep(name) || (!marker.empty() && name == marker)) return Kind::kStep;
    if (name.starts_with(kHostBackwardPrefix)) return Kind::kBackward;
    if (name.starts_with(kOptimizerStepPrefix)) return Kind::kOptimizer;
    // Begins on the thread that issues it and ends on a worker: it says nothing of either.
    if (CollectiveOfRange(name).has_value() && EndsOnWorker(name)) return Kind::kWorker;
    return Kind::kOther;
  }

  // Whether an operator of this name may be a range of the program: not one of a library, or of
  // autograd, nor compiled code.
  static bool MayEnclose(std::string_view name) {
    return name.find("::") == std::string_view::npos && !MayBeAutogradNode(name) &&
           !name.starts_with("Torch-Compiled Region") && !name.starts_with("CompiledFunction") &&
           !name.starts_with("## Call CompiledFxGraph");
  }

  // Half of the median; without steps, longer than all.
  uint64_t HalfOfAStep() const {
    std::vector<int64_t> lengths_ns;
    for (const StepRecord& step : attribution_.steps()) lengths_ns.push_back(step.duration_ns);
    return lengths_ns.empty() ? std::numeric_limits<uint64_t>::max()
                              : static_cast<uint64_t>(Median(lengths_ns)) / 2;
  }

  // Whether at least two of the pieces so far are inside.
  static bool Encloses(const HostPiece& piece, const std::vector<HostPiece>& pieces) {
    return pieces.size() > 1 && pieces[pieces.size() - 2].start_ns >= piece.start_ns;
  }

  absl::Status ReadRanges() {
    std::vector<Kind> kinds;
    for (const std::string& name : reader_.names()) kinds.push_back(KindOf(name));
    const std::vector<bool> runs_program_code = RunsProgramCode(reader_.names());
    std::vector<bool> may_enclose;
    for (const std::string& name : reader_.names()) may_enclose.push_back(MayEnclose(name));
    const uint64_t long_ns = HalfOfAStep();
    return reader_.ForEach<RangeRow>(
        kRangeStart | kRangeDuration | kRangeName | kRangeCategory, {},
        [&](const RangeBatch& batch) {
          if (batch.thread >= threads_.size()) threads_.resize(batch.thread + size_t{1});
          Thread& thread = threads_[batch.thread];
          for (size_t i = 0; i < batch.size; ++i) {
            const Kind kind = kinds[batch.name[i]];
            has_operators_ |= batch.category[i] == kOperatorRange;
            thread.runs_backward |= kind == Kind::kBackward;
            thread.runs_optimizer |= kind == Kind::kOptimizer;
            if (kind == Kind::kStep || kind == Kind::kWorker) continue;
            if (batch.category[i] == kPythonRange) continue;
            const int64_t end_ns = EndOf(batch.start_ns[i], batch.duration_ns[i]);
            if (end_ns <= batch.start_ns[i]) continue;
            HostPiece piece = {batch.start_ns[i], end_ns, first_ids_[batch.name[i]],
                               HostPart::kOperator};
            if (kind == Kind::kLoader) {
              piece.part = HostPart::kDataLoader;
              AddOutermost(piece, thread.loaders);
            } else if (batch.category[i] == kOperatorRange &&
                       (runs_program_code[batch.name[i]] ||
                        (may_enclose[batch.name[i]] &&
                         Distance(batch.start_ns[i], end_ns) >= long_ns &&
                         Encloses(piece, thread.operators)))) {
              AddAround(piece, thread.operators);
            } else if (batch.category[i] == kOperatorRange) {
              AddOutermost(piece, thread.operators);
            } else {
              AddOutermost(piece, thread.ranges);
            }
          }
          return absl::OkStatus();
        });
  }

  // Returns what is needed to tell operators from other time; empty: nothing.
  std::string ChooseRanges() {
    const CaptureRecord& record = reader_.record();
    const bool recorded_them = record.torch.operators != OperatorMode::kOff &&
                               (record.torch.outcome == TorchOutcome::kRecorded ||
                                record.torch.outcome == TorchOutcome::kLimited);
    const bool has_ranges =
        std::ranges::any_of(threads_, [](const Thread& thread) { return !thread.ranges.empty(); });
    // A program that imports torch and computes by other means has ranges alone.
    if (has_operators_ || (recorded_them && !has_ranges)) return {};
    if (recorded_them) return TakeRanges();
    if (record.spec.torch.operators == OperatorMode::kOff ||
        record.torch.outcome == TorchOutcome::kUnknown) {
      return "operators (profctl trace --ops names)";
    }
    return has_ranges ? TakeRanges() : "operators, or ranges of the program";
  }

  std::string TakeRanges() {
    result_.of_ranges = true;
    for (Thread& thread : threads_) thread.operators = std::move(thread.ranges);
    TakeOverlappingRanges();
    return {};
  }

  // Of lanes, which are rows of their own, for the threads that they belong to.
  void TakeOverlappingRanges() {
    const std::span<const store::ReaderThread> rows = reader_.threads();
    const std::vector<uint32_t> groups = OverlapGroups(rows);
    absl::flat_hash_map<uint32_t, size_t> owners;
    for (size_t i = 0; i < groups.size(); ++i) {
      if (groups[i] != kNoOverlaps && !IsLane(rows[i])) owners.try_emplace(groups[i], i);
    }
    for (size_t i = 0; i < std::min(groups.size(), threads_.size()); ++i) {
      const auto owner = owners.find(groups[i]);
      if (owner == owners.end() || !IsLane(rows[i]) || owner->second >= threads_.size()) continue;
      std::vector<HostPiece>& own = threads_[owner->second].operators;
      std::vector<HostPiece>& on_lane = threads_[i].operators;
      own.insert(own.end(), on_lane.begin(), on_lane.end());
      on_lane = {};
    }
  }

  void ChooseThreads() {
    int64_t step_thread = reader_.step_thread();
    if (step_thread < 0 || static_cast<size_t>(step_thread) >= threads_.size()) {
      uint64_t most_ns = 0;
      for (size_t i = 0; i < threads_.size(); ++i) {
        const uint64_t busy_ns = BusyOf(threads_[i]).MeasureIn(extent_.start_ns, extent_.end_ns);
        if (busy_ns > most_ns) step_thread = static_cast<int64_t>(i);
        most_ns = std::max(most_ns, busy_ns);
      }
    }
    if (step_thread < 0 || static_cast<size_t>(step_thread) >= threads_.size()) return;
    step_thread_ = static_cast<size_t>(step_thread);
    threads_[step_thread_].trains = true;
    const IntervalSet busy = BusyOf(threads_[step_thread_]);
    const double busy_share =
        static_cast<double>(busy.MeasureIn(extent_.start_ns, extent_.end_ns)) /
        static_cast<double>(Distance(extent_.start_ns, extent_.end_ns));
    const bool has_other_loops = HasOtherLoops(reader_.record());
    for (Thread& thread : threads_) {
      if (thread.trains || (has_other_loops && thread.runs_optimizer)) continue;
      thread.trains =
          thread.runs_backward || (MayLaunch(thread) && TakesTurns(thread, busy, busy_share));
    }
  }

  // Whether the thread calls CUDA, or that of the steps does not either.
  bool MayLaunch(const Thread& thread) const {
    const auto number = static_cast<uint32_t>(&thread - threads_.data());
    return !attribution_.CallsOf(number).empty() ||
           attribution_.CallsOf(static_cast<uint32_t>(step_thread_)).empty();
  }

  // Of operators: ranges of the program are for the program to count (--step-marker).
  void FindRounds() {
    if (!attribution_.steps().empty() || result_.of_ranges || step_thread_ >= threads_.size()) {
      return;
    }
    std::vector<HostPiece>& pieces = threads_[step_thread_].operators;
    SortPieces(pieces);
    const size_t count = std::min(pieces.size(), kMostOperatorsInRounds);
    result_.rounds_of_last_operators = count < pieces.size();
    std::vector<OutermostOperator> operators;
    operators.reserve(count);
    for (const HostPiece& piece : std::span(pieces).last(count)) {
      operators.push_back({piece.name, piece.start_ns});
    }
    result_.rounds = FindOperatorRounds(operators);
  }

  IntervalSet BusyOf(const Thread& thread) const {
    std::vector<HostPiece> pieces = thread.operators;
    pieces.insert(pieces.end(), thread.loaders.begin(), thread.loaders.end());
    SortPieces(pieces);
    return SetOfPieces(pieces);
  }

  bool TakesTurns(const Thread& thread, const IntervalSet& busy, double busy_share) const {
    double all_ns = 0;
    double overlap_ns = 0;
    for (const HostPiece& piece : thread.operators) {
      const int64_t start_ns = std::max(piece.start_ns, extent_.start_ns);
      const int64_t end_ns = std::min(piece.end_ns, extent_.end_ns);
      if (end_ns <= start_ns) continue;
      all_ns += static_cast<double>(Distance(start_ns, end_ns));
      overlap_ns += static_cast<double>(busy.MeasureIn(start_ns, end_ns));
    }
    return all_ns > 0 && overlap_ns <= kTakesTurns * busy_share * all_ns;
  }

  // Fills pieces_ with all of the training threads.
  void Collect() {
    if (step_thread_ < threads_.size()) pieces_ = std::move(threads_[step_thread_].loaders);
    AddCalls();
    for (const IntervalSet::Interval& wait : collectives_.intervals()) {
      pieces_.push_back({wait.start_ns, wait.end_ns, kCollectiveName, HostPart::kCollective});
    }
    for (const IntervalSet::Interval& time : compiling_.intervals()) {
      pieces_.push_back({time.start_ns, time.end_ns, kCompileName, HostPart::kCompile});
    }
    for (Thread& thread : threads_) {
      if (!thread.trains) continue;
      pieces_.insert(pieces_.end(), thread.operators.begin(), thread.operators.end());
      thread.operators = {};
    }
    SortPieces(pieces_);
    AddLoaderStarts();
    // Each set has its part and all before it. Their measures differ by the time that only the
    // later part has, so each instant counts once, for the first part that applies.
    for (const HostPiece& piece : pieces_) {
      for (auto part = static_cast<size_t>(piece.part); part < kHostParts; ++part) {
        upto_[part].Add(piece.start_ns, piece.end_ns);
      }
    }
  }

  // An iterator of torch's DataLoader draws a seed, torch.empty(...).random_().item(), then forks
  // its workers and asks its sampler for the first indices. The program waits for the first batch
  // next. What is before the seed, such as an evaluation, is the program's.
  void AddLoaderStarts() {
    const std::span<const std::string> names = reader_.names();
    const auto is = [&](size_t i, std::string_view name) {
      const HostPiece& piece = pieces_[i];
      return piece.part == HostPart::kOperator && piece.name < names.size() &&
             names[piece.name] == name;
    };
    std::vector<HostPiece> starts;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const HostPiece& wait = pieces_[i];
      if (wait.part != HostPart::kDataLoader || !HasLoaderWorkers(names[wait.name])) continue;
      // The seed that is drawn first: a sampler draws its own after it.
      const size_t first = i - std::min(i, kMostLoaderStartPieces);
      int64_t start_ns = wait.start_ns;
      for (size_t j = i; j-- > first && pieces_[j].part != HostPart::kDataLoader;) {
        if (j + 2 >= i || !is(j, "aten::empty")) continue;
        if (is(j + 1, "aten::random_") && is(j + 2, "aten::item")) start_ns = pieces_[j].start_ns;
      }
      if (start_ns >= wait.start_ns) continue;
      starts.push_back({start_ns, wait.start_ns, wait.name, HostPart::kDataLoader});
      result_.loader_starts.push_back({start_ns, wait.start_ns});
    }
    if (starts.empty()) return;
    pieces_.insert(pieces_.end(), starts.begin(), starts.end());
    SortPieces(pieces_);
  }

  // Calls that wait, and others outside all operators.
  void AddCalls() {
    std::vector<std::optional<bool>> waits(reader_.names().size());
    for (size_t i = 0; i < threads_.size(); ++i) {
      Thread& thread = threads_[i];
      if (!thread.trains) continue;
      SortPieces(thread.operators);
      auto around = thread.operators.begin();
      for (const GpuAttribution::Call& call : attribution_.CallsOf(static_cast<uint32_t>(i))) {
        if (call.end_ns <= call.start_ns) continue;
        std::optional<bool>& is_wait = waits[call.name];
        if (!is_wait.has_value()) is_wait = WaitsForGpu(reader_.names()[call.name]);
        const auto position = static_cast<size_t>(&call - attribution_.calls().data());
        const bool waited = *is_wait || blocking_copies_[position];
        while (around != thread.operators.end() && around->end_ns <= call.start_ns) ++around;
        const bool is_inside =
            around != thread.operators.end() && around->start_ns <= call.start_ns;
        if (is_inside && !waited) continue;
        pieces_.push_back({call.start_ns, call.end_ns, first_ids_[call.name],
                           waited ? HostPart::kGpuWait : HostPart::kOperator});
      }
    }
  }

  // Of the profiler on the thread of the steps, such as writing its buffers.
  absl::Status ReadOwnOverhead() {
    if (step_thread_ >= reader_.threads().size()) return absl::OkStatus();
    const int64_t os_thread = reader_.threads()[step_thread_].os_thread;
    std::vector<std::pair<int64_t, int64_t>> times;
    RETURN_IF_ERROR(reader_.ForEach<OverheadRow>([&](const OverheadBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        if (batch.os_thread[i] == 0 || int64_t{batch.os_thread[i]} != os_thread) continue;
        times.emplace_back(batch.start_ns[i], EndOf(batch.start_ns[i], batch.duration_ns[i]));
      }
      return absl::OkStatus();
    }));
    std::sort(times.begin(), times.end());
    for (const auto& [start_ns, end_ns] : times) overhead_.Add(start_ns, end_ns);
    return absl::OkStatus();
  }

  void FindGaps() {
    int64_t until_ns = extent_.start_ns;
    uint32_t last = 0;
    const auto add = [&](int64_t end_ns, uint32_t before) {
      end_ns = std::min(end_ns, extent_.end_ns);
      if (end_ns > until_ns) result_.gaps.push_back({until_ns, end_ns, last, before});
    };
    for (const HostPiece& piece : pieces_) {
      if (piece.end_ns <= until_ns) {
        // It ended before the extent, and may be what the first gap follows.
        if (until_ns == extent_.start_ns) last = piece.name;
        continue;
      }
      add(piece.start_ns, piece.name);
      until_ns = piece.end_ns;
      last = piece.name;
    }
    add(extent_.end_ns, 0);
  }

  HostSplit SplitOf(const StepRecord& step) const {
    HostSplit split;
    const int64_t end_ns = EndOf(step.start_ns, step.duration_ns);
    if (end_ns <= step.start_ns) return split;
    std::array<int64_t, kHostParts> upto_ns{};
    for (size_t part = 0; part < kHostParts; ++part) {
      upto_ns[part] = MeasureOf(upto_[part], step.start_ns, end_ns);
    }
    split.data_loader_ns = upto_ns[0];
    split.gpu_wait_ns = Difference(upto_ns[1], upto_ns[0]);
    split.collectives_ns = Difference(upto_ns[2], upto_ns[1]);
    split.compile_ns = Difference(upto_ns[3], upto_ns[2]);
    split.operators_ns = Difference(upto_ns[4], upto_ns[3]);
    for (const IntervalSet::Interval& own : overhead_.intervals()) {
      const int64_t from_ns = std::max(own.start_ns, step.start_ns);
      const int64_t to_ns = std::min(own.end_ns, end_ns);
      if (to_ns <= from_ns) continue;
      AddTo(split.other_ns, Difference(Difference(to_ns, from_ns),
                                       MeasureOf(upto_[kHostParts - 1], from_ns, to_ns)));
    }
    split.outside_ns =
        Difference(Difference(end_ns, step.start_ns), Sum(upto_ns[kHostParts - 1], split.other_ns));
    return split;
  }

  store::CaptureReader& reader_;
  const GpuAttribution& attribution_;
  const IntervalSet& collectives_;
  const IntervalSet& compiling_;
  const std::vector<bool>& blocking_copies_;
  const std::vector<uint32_t> first_ids_;
  std::vector<Thread> threads_;
  HostExtent extent_;
  size_t step_thread_ = std::numeric_limits<size_t>::max();
  bool has_operators_ = false;
  std::vector<HostPiece> pieces_;             // By start.
  std::array<IntervalSet, kHostParts> upto_;  // Of this part and those before it.
  IntervalSet overhead_;
  HostSplits result_;
};

struct GapSum {
  std::vector<int64_t> lengths;
  int64_t total_ns = 0;
  HostGap longest;
  int64_t longest_ns = -1;
  std::set<size_t> steps;
};

// Python functions of an imported trace are on a row of their own, of the same OS thread.
bool IsOfStepThread(store::CaptureReader& reader, uint32_t thread) {
  const int64_t step_thread = reader.step_thread();
  if (step_thread < 0 || step_thread == int64_t{thread}) return true;
  const std::span<const store::ReaderThread> threads = reader.threads();
  if (step_thread >= std::ssize(threads) || thread >= threads.size()) return false;
  const int64_t os_thread = threads[static_cast<size_t>(step_thread)].os_thread;
  return os_thread > 0 && threads[thread].os_thread == os_thread;
}

// Fills HostGapRow::where: the shortest range or Python function around most of the longest gap.
absl::Status FindPlaces(store::CaptureReader& reader, const std::vector<HostGap>& gaps,
                        std::vector<HostGapRow>& rows) {
  std::vector<int64_t> shortest_ns(rows.size(), std::numeric_limits<int64_t>::max());
  std::vector<uint32_t> names(rows.size());
  const std::vector<bool> runs_program_code = RunsProgramCode(reader.names());
  RETURN_IF_ERROR(reader.ForEach<RangeRow>(
      kRangeStart | kRangeDuration | kRangeName | kRangeCategory, {}, [&](const RangeBatch& batch) {
        if (!IsOfStepThread(reader, batch.thread)) return absl::OkStatus();
        for (size_t i = 0; i < batch.size; ++i) {
          if (batch.category[i] == kOperatorRange && !runs_program_code[batch.name[i]]) continue;
          const int64_t start_ns = batch.start_ns[i];
          const int64_t end_ns = EndOf(start_ns, batch.duration_ns[i]);
          for (size_t row = 0; row < rows.size(); ++row) {
            if (batch.duration_ns[i] >= shortest_ns[row]) continue;
            const int64_t from_ns = std::max(start_ns, gaps[row].start_ns);
            const int64_t to_ns = std::min(end_ns, gaps[row].end_ns);
            const auto whole_ns =
                static_cast<double>(Distance(gaps[row].start_ns, gaps[row].end_ns));
            if (to_ns <= from_ns) continue;
            if (static_cast<double>(Distance(from_ns, to_ns)) < kAround * whole_ns) continue;
            if (IsProfilerStep(reader.names()[batch.name[i]])) continue;
            shortest_ns[row] = batch.duration_ns[i];
            names[row] = batch.name[i];
          }
        }
        return absl::OkStatus();
      }));
  for (size_t row = 0; row < rows.size(); ++row) rows[row].where = reader.names()[names[row]];
  return absl::OkStatus();
}

// Fills HostGapRow::lines.
absl::Status FindLines(store::CaptureReader& reader, const std::vector<HostGap>& gaps,
                       std::vector<HostGapRow>& rows) {
  if (rows.empty() || reader.RowsOf(RowKind::kStack) == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(PlaceIndex lines, PlaceIndex::Build(reader, PlaceKind::kSource));
  const int64_t step_thread = reader.step_thread();
  const auto line_at = [&](int64_t time_ns) -> std::string {
    for (uint32_t thread = 0; thread < reader.threads().size(); ++thread) {
      if (step_thread >= 0 && step_thread != int64_t{thread}) continue;
      if (const uint32_t line = lines.At(thread, time_ns); line != 0) {
        return StackTable::ColonLine(lines.NameOf(line));
      }
    }
    return "";
  };
  for (size_t row = 0; row < rows.size(); ++row) {
    const std::string before = line_at(gaps[row].start_ns - 1);
    rows[row].lines = line_at(gaps[row].end_ns);
    if (before.empty() || before == rows[row].lines) continue;
    rows[row].lines = rows[row].lines.empty() ? before : StrCat(before, " to ", rows[row].lines);
  }
  return absl::OkStatus();
}

}  // namespace

std::string HostGapName(std::span<const std::string> names, uint32_t name) {
  if (name == kCollectiveName) return std::string(kCollectiveText);
  return name == kCompileName ? std::string(kCompileText) : names[name];
}

absl::StatusOr<HostSplits> SplitHostTime(store::CaptureReader& reader,
                                         const GpuAttribution& attribution,
                                         const IntervalSet& collectives,
                                         const IntervalSet& compiling,
                                         const std::vector<bool>& blocking_copies) {
  return HostSplitter(reader, attribution, collectives, compiling, blocking_copies).Split();
}

bool HasOtherLoops(const CaptureRecord& record) {
  constexpr int64_t kFewMarks = 4;
  return record.foreign_step_mark_count >= kFewMarks &&
         2 * record.foreign_step_mark_count > record.covered_steps;
}

absl::StatusOr<HostGapTable> SumHostGaps(store::CaptureReader& reader,
                                         const std::vector<HostGap>& gaps,
                                         absl::FunctionRef<int64_t(int64_t, int64_t)> counted_ns) {
  HostGapTable table;
  StepLookup lookup(reader.steps());
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, GapSum> sums;
  for (const HostGap& gap : gaps) {
    const int64_t length_ns = counted_ns(gap.start_ns, gap.end_ns);
    if (length_ns <= 0) continue;
    if (length_ns < kShortHostGapNs) {
      ++table.short_count;
      AddTo(table.short_ns, length_ns);
      continue;
    }
    AddTo(table.long_ns, length_ns);
    GapSum& sum = sums[{gap.after, gap.before}];
    sum.lengths.push_back(length_ns);
    AddTo(sum.total_ns, length_ns);
    if (const size_t step = lookup.PositionAt(gap.start_ns); step != StepLookup::kNone) {
      sum.steps.insert(step);
    }
    if (length_ns > sum.longest_ns) {
      sum.longest_ns = length_ns;
      sum.longest = gap;
    }
  }
  std::vector<HostGap> longest;
  std::vector<std::pair<std::pair<uint32_t, uint32_t>, GapSum*>> order;
  for (auto& [key, sum] : sums) order.emplace_back(key, &sum);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::tie(b.second->total_ns, a.first) < std::tie(a.second->total_ns, b.first);
  });
  if (order.size() > kMostHostGapRows) order.resize(kMostHostGapRows);
  for (const auto& [key, sum] : order) {
    longest.push_back(sum->longest);
    HostGapRow& row = table.rows.emplace_back();
    row.after = HostGapName(reader.names(), key.first);
    row.before = HostGapName(reader.names(), key.second);
    row.count = static_cast<int64_t>(sum->lengths.size());
    row.step_count = static_cast<int64_t>(sum->steps.size());
    row.total_ns = sum->total_ns;
    row.median_ns = Median(sum->lengths);
    row.max_ns = sum->longest_ns;
    row.longest_start_ns = sum->longest.start_ns;
    row.longest_end_ns = sum->longest.end_ns;
    const size_t step = lookup.PositionAt(sum->longest.start_ns);
    if (step != StepLookup::kNone) row.longest_step = lookup.steps()[step].index;
  }
  RETURN_IF_ERROR(FindPlaces(reader, longest, table.rows));
  RETURN_IF_ERROR(FindLines(reader, longest, table.rows));
  return table;
}

}  // namespace profd::report
