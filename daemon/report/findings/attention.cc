// Attention that was written out: a matrix product, scaling and masks, a softmax, and a matrix
// product, each with kernels of its own.
#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "daemon/report/findings/evidence_sums.h"
#include "daemon/report/findings/gather.h"

namespace profd::report {
namespace {

enum class AttentionPart : uint8_t { kOther, kProduct, kBetween, kSoftmax, kSoftmaxBackward };

// By the innermost operator around the launch. Products of batches alone: a layer with a softmax
// between two linear ones, or a choice of experts, has none on both sides.
AttentionPart AttentionPartOf(std::string_view op) {
  constexpr std::array<std::string_view, 2> kProducts = {"aten::bmm", "aten::baddbmm"};
  constexpr std::array<std::string_view, 4> kSoftmaxes = {
      "aten::_softmax", "aten::softmax", "aten::_safe_softmax", "aten::_masked_softmax"};
  constexpr std::array<std::string_view, 18> kBetween = {
      "aten::mul",     "aten::mul_",        "aten::div",
      "aten::div_",    "aten::add",         "aten::add_",
      "aten::sub",     "aten::masked_fill", "aten::masked_fill_",
      "aten::where",   "aten::copy_",       "aten::clone",
      "aten::fill_",   "aten::bernoulli_",  "aten::native_dropout",
      "aten::dropout", "aten::tril",        "aten::triu"};
  const auto is_one_of = [op](const auto& ops) {
    return std::find(ops.begin(), ops.end(), op) != ops.end();
  };
  if (is_one_of(kProducts)) return AttentionPart::kProduct;
  if (is_one_of(kSoftmaxes)) return AttentionPart::kSoftmax;
  if (op == "aten::_softmax_backward_data") return AttentionPart::kSoftmaxBackward;
  return is_one_of(kBetween) ? AttentionPart::kBetween : AttentionPart::kOther;
}

class WrittenOutAttention {
 public:
  WrittenOutAttention(const FactSources& sources, KernelFacts& facts)
      : sources_(sources),
        facts_(facts),
        parts_(sources.reader.names().size()),
        chains_(sources.work.streams().size()) {}

  void Find() {
    int64_t backward_ns = 0;
    for (const Activity& activity : sources_.work.activities()) {
      if (sources_.work.DeviceOf(activity) != sources_.device_position) continue;
      Chain& chain = chains_[activity.stream];
      if (sources_.scope.PositionAt(activity.start_ns) < 0) {
        chain.Begin(State::kNone);
        continue;
      }
      const uint32_t op = OpOf(activity);
      const AttentionPart part = PartOfName(op);
      if (part == AttentionPart::kSoftmaxBackward)
        backward_ns += activity.end_ns - activity.start_ns;
      Follow(chain, part, {op, activity.end_ns - activity.start_ns, activity.start_ns});
    }
    if (facts_.attention_count == 0) return;
    facts_.attention_ns = facts_.OfAll(facts_.attention_ns + backward_ns);
    facts_.attention = sums_.Take(EvidenceKind::kOp, [&](uint32_t op, uint32_t, Evidence& row) {
      row.name = sources_.Name(op);
      row.detail = "between two products of batches";
    });
  }

 private:
  static constexpr size_t kMostBetween = 16;

  enum class State : uint8_t { kNone, kProduct, kSoftmax };
  struct Kernel {
    uint32_t op;
    int64_t duration_ns;
    int64_t start_ns;
  };
  struct Chain {
    State state = State::kNone;
    std::vector<Kernel> between;

    void Begin(State with) {
      state = with;
      between.clear();
    }
  };

  // 0: not known.
  uint32_t OpOf(const Activity& activity) const {
    if (activity.call == nullptr || activity.call->path == RangePaths::kNone) return 0;
    return sources_.first_ids[sources_.attribution.paths()[activity.call->path].name];
  }
  AttentionPart PartOfName(uint32_t op) {
    if (op == 0) return AttentionPart::kOther;
    if (!parts_[op].has_value()) parts_[op] = AttentionPartOf(sources_.Name(op));
    return *parts_[op];
  }

  void Follow(Chain& chain, AttentionPart part, const Kernel& kernel) {
    switch (part) {
      case AttentionPart::kProduct:
        if (chain.state == State::kSoftmax) Count(chain);
        return chain.Begin(State::kProduct);
      case AttentionPart::kSoftmax:
        if (chain.state != State::kProduct) return chain.Begin(State::kNone);
        chain.state = State::kSoftmax;
        break;
      case AttentionPart::kBetween:
        if (chain.state == State::kNone) return;
        break;
      case AttentionPart::kSoftmaxBackward:
      case AttentionPart::kOther:
        return chain.Begin(State::kNone);
    }
    chain.between.push_back(kernel);
    if (chain.between.size() > kMostBetween) chain.Begin(State::kNone);
  }

  void Count(const Chain& chain) {
    ++facts_.attention_count;
    for (const Kernel& kernel : chain.between) {
      facts_.attention_ns += kernel.duration_ns;
      sums_.Add(
          {.name = kernel.op, .duration_ns = kernel.duration_ns, .start_ns = kernel.start_ns});
    }
  }

  const FactSources& sources_;
  KernelFacts& facts_;
  std::vector<std::optional<AttentionPart>> parts_;  // By name.
  std::vector<Chain> chains_;                        // By stream.
  EvidenceSums sums_;
};

}  // namespace

void FindWrittenOutAttention(const FactSources& sources, KernelFacts& kernels) {
  WrittenOutAttention(sources, kernels).Find();
}

}  // namespace profd::report
