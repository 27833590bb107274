#include "daemon/report/index/flow_nodes.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/report/index/end_of.h"
#include "daemon/report/index/operator_index.h"
#include "proto/wire/event.h"

namespace profd::report {
namespace {

// What a range's name says of it.
struct NameFacts {
  bool is_schema = false;           // "aten::mm": an operator that computes something.
  bool is_compiled = false;         // A function that was compiled: one operator to us.
  bool is_evaluation = false;       // The engine of the backward pass around a function.
  bool is_optimizer = false;        // "Optimizer.step#SGD.step"
  bool is_zero_grad = false;        // "Optimizer.zero_grad#SGD.zero_grad"
  bool is_accumulate_grad = false;  // What makes gradients out of results of the backward pass.
  bool keeps_gradient = false;      // As its first child: keeps, or adds to, its first input.
  bool writes_first = false;
};

bool IsWord(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
  });
}

// "namespace::name", the form of all that is in torch's table of operators.
bool IsSchema(std::string_view name) {
  const size_t colons = name.find("::");
  return colons != std::string_view::npos && IsWord(name.substr(0, colons)) &&
         IsWord(name.substr(colons + 2));
}

NameFacts FactsOf(std::string_view name) {
  NameFacts facts;
  facts.is_schema = IsSchema(name);
  facts.is_compiled = name == "CompiledFunction";
  facts.is_evaluation = name.starts_with("autograd::engine::evaluate_function");
  facts.is_optimizer = name.starts_with("Optimizer.step#");
  facts.is_zero_grad = name.starts_with("Optimizer.zero_grad#");
  facts.is_accumulate_grad = name == "torch::autograd::AccumulateGrad";
  facts.keeps_gradient = name == "aten::detach" || name == "aten::add_";
  facts.writes_first = facts.is_schema && name.ends_with('_');
  return facts;
}

}  // namespace

class FlowNodes::Builder {
 public:
  Builder(std::span<const std::string> names, OperatorIndex operators)
      : operators_(std::move(operators)) {
    facts_.reserve(names.size());
    for (const std::string& name : names) facts_.push_back(FactsOf(name));
  }

  void AddBatch(const RangeBatch& batch) {
    if (batch.thread >= threads_.size()) threads_.resize(batch.thread + size_t{1});
    OfThread& of = threads_[batch.thread];
    for (size_t i = 0; i < batch.size; ++i) {
      const int64_t start_ns = batch.start_ns[i];
      const int64_t end_ns = EndOf(start_ns, batch.duration_ns[i]);
      const uint16_t depth = batch.depth[i];
      const NameFacts& facts = facts_[batch.name[i]];
      FindKept(of, start_ns, depth, facts);
      if (batch.category[i] != static_cast<uint8_t>(wire::RangeCategory::kOperator)) {
        if (facts.is_optimizer) EndOutermost({start_ns, end_ns}, of.optimizer);
        if (facts.is_zero_grad) EndOutermost({start_ns, end_ns}, of.zero_grad);
        continue;
      }
      const OperatorIndex::Entry* op = operators_.Find(batch.thread, start_ns, depth);
      const bool is_backward =
          op != nullptr &&
          op->scope == static_cast<uint8_t>(wire::OperatorScope::kBackwardFunction);
      if (is_backward || facts.is_schema || facts.is_compiled) {
        EndOutermost({.start_ns = start_ns,
                      .end_ns = end_ns,
                      .is_backward = is_backward,
                      .writes_first = facts.writes_first},
                     of.nodes);
      } else if (facts.is_evaluation) {
        EndOutermost({start_ns, end_ns}, of.backward);
      }
    }
  }

  FlowNodes Take() {
    FlowNodes built;
    for (OfThread& of : threads_) {
      Mark(of.backward, &FlowNode::is_backward, of.nodes);
      Mark(of.optimizer, &FlowNode::is_optimizer, of.nodes);
      built.nodes_.insert(built.nodes_.end(), of.nodes.begin(), of.nodes.end());
      built.thread_begin_.push_back(built.nodes_.size());
      std::sort(of.kept.begin(), of.kept.end(), IsBefore);
      built.kept_.push_back(std::move(of.kept));
      built.zero_grad_.push_back(std::move(of.zero_grad));
      built.backward_.push_back(std::move(of.backward));
    }
    return built;
  }

  static bool IsBefore(const Kept& a, const Kept& b) {
    return std::tie(a.start_ns, a.depth) < std::tie(b.start_ns, b.depth);
  }

 private:
  struct FirstChild {
    int64_t start_ns = 0;
    bool is_set = false;
    bool keeps_gradient = false;
  };
  struct OfThread {
    // Each by start, none inside another of its kind.
    std::vector<FlowNode> nodes;
    std::vector<Span> backward;
    std::vector<Span> optimizer;
    std::vector<Span> zero_grad;
    std::vector<FirstChild> first = std::vector<FirstChild>(2);  // By depth, of ranges not ended.
    std::vector<Kept> kept;
  };

  static void FindKept(OfThread& of, int64_t start_ns, uint16_t depth, const NameFacts& facts) {
    if (depth + size_t{1} >= of.first.size()) of.first.resize(depth + size_t{2});
    const FirstChild child = std::exchange(of.first[depth + size_t{1}], {});
    if (facts.is_accumulate_grad && child.is_set && child.keeps_gradient &&
        child.start_ns >= start_ns) {
      of.kept.push_back({child.start_ns, static_cast<uint16_t>(depth + 1)});
    }
    FirstChild& first = of.first[depth];
    if (!first.is_set) first = {start_ns, true, facts.keeps_gradient};
  }

  // Ranges come in order of their end: those inside of this one came before, and go.
  template <typename T>
  static void EndOutermost(const T& ended, std::vector<T>& outermost) {
    while (!outermost.empty() && outermost.back().start_ns >= ended.start_ns) outermost.pop_back();
    outermost.push_back(ended);
  }

  // The nodes that began inside of `spans`.
  static void Mark(std::span<const Span> spans, bool FlowNode::*mark,
                   std::vector<FlowNode>& nodes) {
    // Both lists are in order of time and without overlaps, so one pass over the two is enough.
    size_t next = 0;
    for (FlowNode& node : nodes) {
      while (next < spans.size() && spans[next].end_ns < node.start_ns) ++next;
      if (next < spans.size() && spans[next].start_ns <= node.start_ns) node.*mark = true;
    }
  }

  std::vector<NameFacts> facts_;  // By name.
  OperatorIndex operators_;
  std::vector<OfThread> threads_;
};

absl::StatusOr<FlowNodes> FlowNodes::Build(store::CaptureReader& reader) {
  ASSIGN_OR_RETURN(OperatorIndex operators, OperatorIndex::Build(reader));
  Builder builder(reader.names(), std::move(operators));
  RETURN_IF_ERROR(reader.ForEach<RangeRow>(
      kRangeStart | kRangeDuration | kRangeName | kRangeDepth | kRangeCategory, {},
      [&](const RangeBatch& batch) {
        builder.AddBatch(batch);
        return absl::OkStatus();
      }));
  return builder.Take();
}

bool FlowNodes::KeepsGradient(uint32_t thread, int64_t start_ns, uint16_t depth) const {
  if (thread >= kept_.size()) return false;
  return std::binary_search(kept_[thread].begin(), kept_[thread].end(), Kept{start_ns, depth},
                            Builder::IsBefore);
}

bool FlowNodes::ForgetsGradients(uint32_t thread, int64_t time_ns) const {
  return IsInside(zero_grad_, thread, time_ns);
}

bool FlowNodes::InBackward(uint32_t thread, int64_t time_ns) const {
  return IsInside(backward_, thread, time_ns);
}

bool FlowNodes::IsInside(const std::vector<std::vector<Span>>& spans, uint32_t thread,
                         int64_t time_ns) {
  if (thread >= spans.size()) return false;
  const std::vector<Span>& of_thread = spans[thread];
  const auto after =
      std::upper_bound(of_thread.begin(), of_thread.end(), time_ns,
                       [](int64_t time, const Span& span) { return time < span.start_ns; });
  return after != of_thread.begin() && std::prev(after)->end_ns >= time_ns;
}

uint32_t FlowNodes::Cursor::NodeAt(uint32_t thread, int64_t time_ns) {
  if (thread + size_t{1} >= next_.size()) return kNone;
  size_t& next = next_[thread];
  const size_t end = nodes_.thread_begin_[thread + size_t{1}];
  while (next < end && nodes_.nodes_[next].end_ns < time_ns) ++next;
  if (next == end || nodes_.nodes_[next].start_ns > time_ns) return kNone;
  return static_cast<uint32_t>(next);
}

}  // namespace profd::report
