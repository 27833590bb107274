#include "daemon/report/time/operator_rounds.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "daemon/base/median.h"
#include "daemon/report/index/wrapping_math.h"

namespace profd::report {
namespace {

constexpr size_t kStableRounds = 20;
constexpr size_t kFewestOperators = 2;  // Of a round.
constexpr int64_t kShortestNs = 1'000'000'000;
// Where a stretch may begin, in parts of all operators. One that is longer than half and a part
// contains one of these places, and over half of all operators after it.
constexpr size_t kParts = 16;

struct Stretch {
  size_t begin = 0;
  size_t length = 0;
  size_t round = 0;
};

// The longest stretch of rounds that begins with the first of `operators`; `at_least` long, or of
// length 0. Each place of a text, and how much of the text's begin ends there (Knuth, Morris,
// Pratt), gives the shortest period up to there.
Stretch FirstStretch(std::span<const OutermostOperator> operators, size_t at_least,
                     std::vector<uint32_t>& ends_with) {
  ends_with.assign(operators.size(), 0);
  Stretch longest;
  for (uint32_t i = 1; i < operators.size(); ++i) {
    uint32_t matched = ends_with[i - 1];
    while (matched != 0 && operators[i].name != operators[matched].name) {
      matched = ends_with[matched - 1];
    }
    ends_with[i] = operators[i].name == operators[matched].name ? matched + 1 : 0;
    const size_t length = size_t{i} + 1;
    const size_t round = length - ends_with[i];
    if (length >= at_least && round >= kFewestOperators && length / round >= kStableRounds) {
      longest = {.length = length, .round = round};
    }
  }
  return longest;
}

}  // namespace

OperatorRounds FindOperatorRounds(std::span<const OutermostOperator> operators) {
  const size_t at_least = operators.size() / 2 + 1;
  std::vector<uint32_t> ends_with;
  Stretch longest;
  for (size_t part = 0; part <= kParts / 2; ++part) {
    const size_t begin = part * operators.size() / kParts;
    Stretch stretch = FirstStretch(operators.subspan(begin), at_least, ends_with);
    stretch.begin = begin;
    if (stretch.length > longest.length) longest = stretch;
  }
  if (longest.length == 0) return {};
  const size_t end = longest.begin + longest.length;
  if (Difference(operators[end - 1].start_ns, operators[longest.begin].start_ns) < kShortestNs) {
    return {};
  }
  std::vector<int64_t> lengths_ns;
  lengths_ns.reserve(longest.length / longest.round);
  for (size_t i = longest.begin + longest.round; i < end; i += longest.round) {
    lengths_ns.push_back(Difference(operators[i].start_ns, operators[i - longest.round].start_ns));
  }
  return {.count = static_cast<int64_t>(longest.length / longest.round),
          .operators = static_cast<int64_t>(longest.round),
          .median_ns = Median(lengths_ns)};
}

}  // namespace profd::report
