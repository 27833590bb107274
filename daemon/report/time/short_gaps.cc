#include "daemon/report/time/short_gaps.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/index/autograd_names.h"
#include "daemon/report/index/place_index.h"
#include "daemon/report/index/stack_table.h"
#include "daemon/report/index/step_lookup.h"
#include "daemon/report/index/wrapping_math.h"

namespace profd::report {
namespace {

// Without a thread that marks steps, all are asked for their line, gap by gap.
constexpr size_t kMostThreadsAsked = 16;

// A line and whether it is of the backward pass, or two operators.
struct ShortGapKey {
  bool is_line;
  uint32_t first;   // Place, or HostGap::after.
  uint32_t second;  // 1: backward, or HostGap::before.

  bool operator==(const ShortGapKey&) const = default;
  bool operator<(const ShortGapKey& other) const {
    return std::tie(is_line, first, second) < std::tie(other.is_line, other.first, other.second);
  }
  template <typename H>
  friend H AbslHashValue(H hash, const ShortGapKey& key) {
    return H::combine(std::move(hash), key.is_line, key.first, key.second);
  }
};

struct ShortGapSum {
  int64_t count = 0;
  int64_t total_ns = 0;
  int64_t longest_ns = -1;
  int64_t longest_start_ns = 0;
};

class ShortGapSums {
 public:
  ShortGapSums(store::CaptureReader& reader, PlaceIndex lines)
      : reader_(reader), lines_(std::move(lines)) {}

  void Add(const HostGap& gap, int64_t ns) {
    const ShortGapKey key = KeyOf(gap);
    auto found = sums_.find(key);
    if (found == sums_.end()) {
      if (sums_.size() >= kMostShortGapPlaces) return;
      found = sums_.try_emplace(key).first;
    }
    ShortGapSum& sum = found->second;
    ++sum.count;
    AddTo(sum.total_ns, ns);
    if (ns <= sum.longest_ns) return;
    sum.longest_ns = ns;
    sum.longest_start_ns = gap.start_ns;
  }

  std::vector<ShortGapRow> Take() const {
    std::vector<std::pair<ShortGapKey, ShortGapSum>> order(sums_.begin(), sums_.end());
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
      return std::tie(b.second.total_ns, a.first) < std::tie(a.second.total_ns, b.first);
    });
    if (order.size() > kMostShortGapRows) order.resize(kMostShortGapRows);
    StepLookup lookup(reader_.steps());
    std::vector<ShortGapRow> rows;
    rows.reserve(order.size());
    for (const auto& [key, sum] : order) {
      ShortGapRow& row = rows.emplace_back();
      row.place = PlaceOfKey(key);
      row.is_line = key.is_line;
      row.count = sum.count;
      row.total_ns = sum.total_ns;
      row.longest_start_ns = sum.longest_start_ns;
      const size_t step = lookup.PositionAt(sum.longest_start_ns);
      if (step != StepLookup::kNone) row.longest_step = lookup.steps()[step].index;
    }
    return rows;
  }

 private:
  // An operator of the backward pass has the line of its forward operator.
  bool IsBackward(uint32_t name) const {
    return name < reader_.names().size() && MayBeAutogradNode(reader_.names()[name]);
  }

  ShortGapKey KeyOf(const HostGap& gap) {
    if (const uint32_t line = LineAt(gap.end_ns); line != 0) {
      return {.is_line = true, .first = line, .second = IsBackward(gap.before) ? 1u : 0u};
    }
    return {.is_line = false, .first = gap.after, .second = gap.before};
  }

  uint32_t LineAt(int64_t time_ns) {
    if (lines_.empty()) return 0;
    const size_t threads = reader_.threads().size();
    const int64_t step_thread = reader_.step_thread();
    if (step_thread >= 0) return lines_.At(static_cast<uint32_t>(step_thread), time_ns);
    for (uint32_t thread = 0; thread < std::min(threads, kMostThreadsAsked); ++thread) {
      if (const uint32_t line = lines_.At(thread, time_ns); line != 0) return line;
    }
    return 0;
  }

  std::string PlaceOfKey(const ShortGapKey& key) const {
    if (key.is_line) {
      return StrCat(key.second != 0 ? "backward of " : "",
                    StackTable::ColonLine(lines_.NameOf(key.first)));
    }
    const auto text_of = [&](uint32_t name, std::string_view edge) {
      const std::string text = HostGapName(reader_.names(), name);
      return text.empty() ? std::string(edge) : text;
    };
    return StrCat("between ", text_of(key.first, "the start of the window"), " and ",
                  text_of(key.second, "its end"));
  }

  store::CaptureReader& reader_;
  PlaceIndex lines_;
  absl::flat_hash_map<ShortGapKey, ShortGapSum> sums_;
};

}  // namespace

absl::StatusOr<std::vector<ShortGapRow>> SumShortGaps(
    store::CaptureReader& reader, const std::vector<HostGap>& gaps,
    absl::FunctionRef<int64_t(int64_t, int64_t)> counted_ns) {
  ASSIGN_OR_RETURN(PlaceIndex lines, PlaceIndex::Build(reader, PlaceKind::kSource));
  ShortGapSums sums(reader, std::move(lines));
  for (const HostGap& gap : gaps) {
    const int64_t ns = counted_ns(gap.start_ns, gap.end_ns);
    if (ns > 0 && ns < kShortHostGapNs) sums.Add(gap, ns);
  }
  return sums.Take();
}

}  // namespace profd::report
