#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "daemon/base/median.h"
#include "daemon/report/ranks/group_reports.h"

namespace profd::report {
namespace {

using GroupOpKey = std::tuple<std::string, int64_t, std::string, std::string>;

struct OfMembers {
  std::vector<int64_t> figures;  // By member.
  std::vector<int64_t> calls;    // Of each rank that ran it.
  std::vector<double> calls_per_step;
};

// Sums over the calls of a capture; a call's average or maximum is not.
bool IsSum(OpSort sort) { return sort != OpSort::kAverage && sort != OpSort::kMax; }

int64_t PerStep(int64_t figure, int64_t step_count) {
  return std::llround(static_cast<double>(figure) / static_cast<double>(step_count));
}

// `tables` as CompareOps() has them: who is missing has no figure to compare.
GroupOpRow RowOf(const GroupOpKey& key, OfMembers of, std::span<const OpTable* const> tables) {
  GroupOpRow row;
  std::tie(row.name, row.step, row.dims, row.types) = key;
  row.member_count = static_cast<int64_t>(of.calls.size());
  row.median_calls = Median(of.calls);
  if (!of.calls_per_step.empty()) row.calls_per_step = ExactMedian(of.calls_per_step);
  row.slowest = static_cast<size_t>(std::max_element(of.figures.begin(), of.figures.end()) -
                                    of.figures.begin());
  row.max = of.figures[row.slowest];
  std::vector<int64_t> present;
  for (size_t member = 0; member < tables.size(); ++member) {
    if (tables[member] != nullptr) present.push_back(of.figures[member]);
  }
  row.min = *std::min_element(present.begin(), present.end());
  row.median = Median(present);
  row.figures = std::move(of.figures);
  return row;
}

}  // namespace

int64_t FigureOf(const OpRow& row, OpSort sort) {
  switch (sort) {
    case OpSort::kSelfCpu:
    case OpSort::kName:
      return row.self_cpu_ns;
    case OpSort::kCpuTotal:
      return row.cpu_total_ns;
    case OpSort::kCalls:
      return row.calls;
    case OpSort::kAverage:
      return row.calls > 0 ? row.cpu_total_ns / row.calls : 0;
    case OpSort::kMax:
      return row.max_ns;
    case OpSort::kSelfDevice:
      return row.self_device_ns;
    case OpSort::kDeviceTotal:
      return row.device_total_ns;
    case OpSort::kBusyDevice:
      return row.busy_device_ns;
  }
  return 0;
}

GroupOps CompareOps(std::span<const OpTable* const> tables, OpSort sort, int64_t limit,
                    bool by_step) {
  GroupOps ops;
  bool all_have_steps = true;
  std::set<int64_t> step_counts;
  for (const OpTable* const table : tables) {
    ops.step_counts.push_back(table == nullptr ? 0 : table->step_count);
    if (table == nullptr) continue;
    all_have_steps &= table->step_count > 0;
    step_counts.insert(table->step_count);
  }
  // Calls are whole numbers, also of what does not run in each step.
  const bool is_sum = IsSum(sort) && !by_step;
  ops.per_step = is_sum && sort != OpSort::kCalls && all_have_steps && !step_counts.empty();
  ops.differ_in_steps = is_sum && !ops.per_step && step_counts.size() > 1;

  std::map<GroupOpKey, OfMembers> by_key;
  for (size_t member = 0; member < tables.size(); ++member) {
    if (tables[member] == nullptr) continue;
    const int64_t step_count = tables[member]->step_count;
    for (const OpRow& row : tables[member]->rows) {
      OfMembers& of = by_key[{row.name, row.step, row.dims, row.types}];
      of.figures.resize(tables.size());
      of.calls.push_back(row.calls);
      const int64_t figure = FigureOf(row, sort);
      of.figures[member] = ops.per_step ? PerStep(figure, step_count) : figure;
      if (ops.per_step) {
        of.calls_per_step.push_back(static_cast<double>(row.calls) /
                                    static_cast<double>(step_count));
      }
    }
  }
  for (auto& [key, of] : by_key) ops.rows.push_back(RowOf(key, std::move(of), tables));
  ops.row_count = static_cast<int64_t>(ops.rows.size());
  // They are by name already.
  if (sort != OpSort::kName) {
    std::stable_sort(ops.rows.begin(), ops.rows.end(),
                     [](const GroupOpRow& a, const GroupOpRow& b) {
                       return std::tie(a.median, a.max) > std::tie(b.median, b.max);
                     });
  }
  if (limit > 0 && ops.row_count > limit) ops.rows.resize(static_cast<size_t>(limit));
  return ops;
}

}  // namespace profd::report
