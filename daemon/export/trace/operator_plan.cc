#include "daemon/export/trace/operator_plan.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/export/trace/collective_text.h"
#include "proto/wire/event.h"

namespace profd::exporter {
namespace {

// How far ahead of the last one found the next one is looked for: past operators whose range is
// not in the capture. In files of ours there are none.
constexpr size_t kMostSkipped = 64;

// How many collectives may be in one that a thread is in, for it to be found.
constexpr size_t kMostInside = 16;

// What the engine of autograd calls its frame around a node.
constexpr std::string_view kEngineFrame = "autograd::engine::evaluate_function: ";

// An operator as the reader gives it.
struct Row {
  int64_t start_ns;
  int64_t sequence;
  uint64_t forward_thread;
  uint32_t torch_thread;
  uint32_t inputs;
  uint32_t scalars;
  uint32_t stack;
  uint16_t depth;
  uint8_t scope;
};
static_assert(sizeof(Row) == 48 && sizeof(PlannedOperator) == 40);

// One thread's operators while its ranges are read.
struct ThreadRows {
  std::vector<Row> rows;
  size_t next = 0;
  // By depth: the first operator to end there since one less deep did, by its place in the plan.
  std::vector<std::optional<uint32_t>> first_ended;

  const Row* Find(int64_t start_ns, uint16_t depth) {
    const size_t end = std::min(rows.size(), next + kMostSkipped);
    for (size_t i = next; i < end; ++i) {
      if (rows[i].start_ns != start_ns || rows[i].depth != depth) continue;
      next = i + 1;
      return &rows[i];
    }
    return nullptr;
  }

  // Notes that `position` ended, and returns the first operator in it.
  std::optional<uint32_t> End(uint16_t depth, uint32_t position) {
    if (first_ended.size() < size_t{depth} + 2) first_ended.resize(size_t{depth} + 2);
    if (!first_ended[depth].has_value()) first_ended[depth] = position;
    return std::exchange(first_ended[depth + 1], std::nullopt);
  }
};

// An operator that an arrow may begin or end at.
struct Candidate {
  int64_t start_ns;
  int64_t end_ns;
  uint64_t thread;    // torch's number of the forward's.
  uint32_t position;  // In the plan.
  bool is_backward;
};

}  // namespace

class OperatorPlanBuilder {
 public:
  explicit OperatorPlanBuilder(store::CaptureReader& reader)
      : reader_(reader), threads_(reader.threads().size()) {}

  absl::StatusOr<OperatorPlan> Build() {
    RETURN_IF_ERROR(ReadOperators());
    if (row_count_ == 0) return std::move(plan_);
    RETURN_IF_ERROR(FindRanges());
    Link();
    return std::move(plan_);
  }

 private:
  absl::Status ReadOperators() {
    return reader_.ForEach<OperatorRow>([&](const OperatorBatch& batch) {
      row_count_ += batch.size;
      if (row_count_ > OperatorPlan::kMostOperators) {
        return absl::ResourceExhaustedError(
            StrCat("the file has more than ", OperatorPlan::kMostOperators, " operators"));
      }
      for (size_t i = 0; i < batch.size; ++i) {
        threads_[batch.thread].rows.push_back(
            {batch.start_ns[i], batch.sequence[i], batch.forward_thread[i], batch.torch_thread[i],
             batch.inputs[i], batch.scalars[i], batch.stack[i], batch.depth[i], batch.scope[i]});
      }
      return absl::OkStatus();
    });
  }

  absl::Status FindRanges() {
    constexpr uint32_t kColumns = kRangeStart | kRangeDuration | kRangeName | kRangeDepth;
    uint32_t range = 0;
    return reader_.ForEach<RangeRow>(kColumns, {}, [&](const RangeBatch& batch) {
      ThreadRows& thread = threads_[batch.thread];
      for (size_t i = 0; i < batch.size; ++i, ++range) {
        const Row* const row = thread.Find(batch.start_ns[i], batch.depth[i]);
        if (row == nullptr) continue;
        const int64_t end_ns = batch.start_ns[i] + batch.duration_ns[i];
        Add(*row, range, batch.name[i], end_ns, thread);
        if (!plan_.operators_.back().is_collective) continue;
        plan_.collectives_.resize(threads_.size());
        plan_.collectives_[batch.thread].push_back(
            {row->start_ns, end_ns, static_cast<uint32_t>(plan_.operators_.size() - 1)});
      }
      return absl::OkStatus();
    });
  }

  void Add(const Row& row, uint32_t range, uint32_t name, int64_t end_ns, ThreadRows& thread) {
    const auto position = static_cast<uint32_t>(plan_.operators_.size());
    PlannedOperator op = {.sequence = row.sequence,
                          .forward_thread = row.forward_thread,
                          .range = range,
                          .inputs = row.inputs,
                          .scalars = row.scalars,
                          .stack = row.stack,
                          .flow = 0,
                          .scope = row.scope,
                          .ends_flow = false,
                          .is_collective = reader_.names()[name] == kCollectiveOperator};
    const std::optional<uint32_t> first_inside = thread.End(row.depth, position);
    if (first_inside.has_value()) TakeFromNode(plan_.operators_[*first_inside], name, op);
    plan_.operators_.push_back(op);
    if (op.sequence < 0) return;
    const bool is_backward = op.forward_thread != 0;
    const uint64_t forward = is_backward ? op.forward_thread : row.torch_thread;
    if (forward == 0) return;
    candidates_.push_back({row.start_ns, end_ns, forward, position, is_backward});
  }

  void TakeFromNode(const PlannedOperator& first_inside, uint32_t name, PlannedOperator& frame) {
    if (first_inside.scope != static_cast<uint8_t>(wire::OperatorScope::kBackwardFunction)) return;
    if (frame.scope != static_cast<uint8_t>(wire::OperatorScope::kFunction)) return;
    if (!reader_.names()[name].starts_with(kEngineFrame)) return;
    frame.sequence = first_inside.sequence;
    frame.forward_thread = first_inside.forward_thread;
  }

  void Link() {
    // By their ends, over all threads: a backward operator ends after the forward one that it
    // belongs to, so that one is in the table by then.
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.end_ns < b.end_ns; });
    absl::flat_hash_map<std::pair<uint64_t, int64_t>, const Candidate*> forwards;
    uint32_t flow = 0;
    for (const Candidate& candidate : candidates_) {
      const std::pair key(candidate.thread, plan_.operators_[candidate.position].sequence);
      const auto found = forwards.find(key);
      if (!candidate.is_backward) {
        if (found == forwards.end()) {
          forwards.emplace(key, &candidate);
        } else if (candidate.start_ns >= found->second->start_ns) {
          found->second = &candidate;
        }
        continue;
      }
      if (found == forwards.end()) continue;
      const Candidate& forward = *found->second;
      // An arrow that would go back in time says nothing, and loaders stumble over it.
      if (forward.start_ns <= candidate.start_ns) {
        ++flow;
        plan_.operators_[forward.position].flow = flow;
        plan_.operators_[candidate.position].flow = flow;
        plan_.operators_[candidate.position].ends_flow = true;
      }
      // A sequence number is used again in later steps. The next forward operator of that number
      // must not be linked to this backward one.
      forwards.erase(found);
    }
  }

  store::CaptureReader& reader_;
  OperatorPlan plan_;
  size_t row_count_ = 0;
  std::vector<ThreadRows> threads_;
  std::vector<Candidate> candidates_;
};

bool IsOperator(uint8_t category, const PlannedOperator* op) {
  if (category != static_cast<uint8_t>(wire::RangeCategory::kOperator)) return false;
  return op == nullptr || op->scope != static_cast<uint8_t>(wire::OperatorScope::kUserScope);
}

absl::StatusOr<OperatorPlan> OperatorPlan::Make(store::CaptureReader& reader) {
  return OperatorPlanBuilder(reader).Build();
}

const PlannedOperator* OperatorPlan::CollectiveAt(uint32_t thread, int64_t time_ns) const {
  if (thread >= collectives_.size()) return nullptr;
  const std::vector<Collective>& all = collectives_[thread];
  auto found = std::lower_bound(
      all.begin(), all.end(), time_ns,
      [](const Collective& collective, int64_t time) { return collective.end_ns < time; });
  // Those that begin later are inside of one that may be around it.
  for (size_t i = 0; i < kMostInside && found != all.end(); ++i, ++found) {
    if (found->start_ns <= time_ns) return &operators_[found->position];
  }
  return nullptr;
}

const PlannedOperator* OperatorPlan::Find(uint32_t range) const {
  const auto found = std::lower_bound(
      operators_.begin(), operators_.end(), range,
      [](const PlannedOperator& op, uint32_t wanted) { return op.range < wanted; });
  return found == operators_.end() || found->range != range ? nullptr : &*found;
}

}  // namespace profd::exporter
