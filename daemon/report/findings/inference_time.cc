#include "daemon/report/findings/inference_time.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/report/index/autograd_names.h"
#include "daemon/report/index/end_of.h"
#include "daemon/report/index/wrapping_math.h"

namespace profd::report {
namespace {

using Stretch = FindingScope::Stretch;

// PyTorch's ranges around the functions of an optimizer, which run without gradients.
constexpr std::string_view kOptimizerRange = "Optimizer.";
// Of "aten::linear" and custom operators. A range of the program with inputs has an operator's row,
// too.
constexpr std::string_view kOfNamespace = "::";

struct Range {
  int64_t start_ns;
  int64_t end_ns;
  uint32_t name;
  uint16_t depth;
};

// Of a range of an operator.
struct Operator {
  uint32_t name;
  int64_t duration_ns;
  bool has_gradient;
};

class InferenceSums {
 public:
  InferenceSums(store::CaptureReader& reader, uint32_t thread)
      : reader_(reader), thread_(thread), has_gradient_(reader.names().size()) {
    for (const std::string& name : reader.names()) {
      hides_others_.push_back(name.starts_with(kOptimizerRange) || MayBeAutogradNode(name));
      is_named_operator_.push_back(name.find(kOfNamespace) != std::string::npos);
    }
  }

  absl::Status Read(const Stretch& stretch) {
    ASSIGN_OR_RETURN(const auto sequences, ReadSequences(stretch));
    std::vector<Range> ranges;
    RETURN_IF_ERROR(reader_.ForEach<RangeRow>(
        kRangeStart | kRangeDuration | kRangeName | kRangeDepth,
        {.begin_ns = stretch.start_ns, .end_ns = stretch.end_ns}, [&](const RangeBatch& batch) {
          if (batch.thread != thread_) return absl::OkStatus();
          for (size_t i = 0; i < batch.size; ++i) {
            if (!IsIn(stretch, batch.start_ns[i])) continue;
            ranges.push_back(
                {.start_ns = batch.start_ns[i],
                 .end_ns = std::min(EndOf(batch.start_ns[i], batch.duration_ns[i]), stretch.end_ns),
                 .name = batch.name[i],
                 .depth = batch.depth[i]});
          }
          return absl::OkStatus();
        }));
    std::ranges::sort(ranges, [](const Range& a, const Range& b) {
      return std::tie(a.start_ns, a.depth) < std::tie(b.start_ns, b.depth);
    });
    std::vector<Operator>& operators = stretches_.emplace_back();
    int64_t hidden_until_ns = std::numeric_limits<int64_t>::min();
    for (const Range& range : ranges) {
      if (range.start_ns < hidden_until_ns) continue;
      const auto sequence = sequences.find({range.start_ns, range.depth});
      const bool is_operator = sequence != sequences.end() && is_named_operator_[range.name];
      if (!is_operator && !hides_others_[range.name]) continue;
      hidden_until_ns = range.end_ns;
      if (hides_others_[range.name]) continue;
      const bool has_gradient = sequence->second >= 0;
      if (has_gradient) has_gradient_[range.name] = true;
      operators.push_back({.name = range.name,
                           .duration_ns = std::max<int64_t>(0, range.end_ns - range.start_ns),
                           .has_gradient = has_gradient});
    }
    return absl::OkStatus();
  }

  // By stretch, in the order of Read().
  std::vector<int64_t> Take() const {
    std::vector<int64_t> sums;
    sums.reserve(stretches_.size());
    for (const std::vector<Operator>& operators : stretches_) {
      int64_t sum_ns = 0;
      for (const Operator& op : operators) {
        if (!op.has_gradient && has_gradient_[op.name]) AddTo(sum_ns, op.duration_ns);
      }
      sums.push_back(sum_ns);
    }
    return sums;
  }

 private:
  static bool IsIn(const Stretch& stretch, int64_t time_ns) {
    return time_ns >= stretch.start_ns && time_ns < stretch.end_ns;
  }

  // By start and depth.
  absl::StatusOr<std::map<std::pair<int64_t, uint16_t>, int64_t>> ReadSequences(
      const Stretch& stretch) {
    std::map<std::pair<int64_t, uint16_t>, int64_t> sequences;
    RETURN_IF_ERROR(reader_.ForEach<OperatorRow>(
        {.begin_ns = stretch.start_ns, .end_ns = stretch.end_ns}, [&](const OperatorBatch& batch) {
          if (batch.thread != thread_) return absl::OkStatus();
          for (size_t i = 0; i < batch.size; ++i) {
            if (!IsIn(stretch, batch.start_ns[i])) continue;
            sequences.emplace(std::pair(batch.start_ns[i], batch.depth[i]), batch.sequence[i]);
          }
          return absl::OkStatus();
        }));
    return sequences;
  }

  store::CaptureReader& reader_;
  const uint32_t thread_;
  std::vector<bool> hides_others_;  // By name; likewise the next ones.
  std::vector<bool> is_named_operator_;
  std::vector<bool> has_gradient_;  // It ran with gradients in any of the stretches.
  std::vector<std::vector<Operator>> stretches_;
};

}  // namespace

absl::StatusOr<std::vector<int64_t>> InferenceTimes(store::CaptureReader& reader,
                                                    std::span<const Stretch> stretches) {
  const int64_t thread = reader.step_thread();
  if (thread < 0) return std::vector<int64_t>(stretches.size());
  InferenceSums sums(reader, static_cast<uint32_t>(thread));
  for (const Stretch& stretch : stretches) RETURN_IF_ERROR(sums.Read(stretch));
  return sums.Take();
}

}  // namespace profd::report
