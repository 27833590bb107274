#include <algorithm>
#include <map>
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
};

// `tables` as CompareOps() has them: who is missing has no figure to compare.
GroupOpRow RowOf(const GroupOpKey& key, OfMembers of, std::span<const OpTable* const> tables) {
  GroupOpRow row;
  std::tie(row.name, row.step, row.dims, row.types) = key;
  row.member_count = static_cast<int64_t>(of.calls.size());
  row.median_calls = Median(of.calls);
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

GroupOps CompareOps(std::span<const OpTable* const> tables, OpSort sort, int64_t limit) {
  std::map<GroupOpKey, OfMembers> by_key;
  for (size_t member = 0; member < tables.size(); ++member) {
    if (tables[member] == nullptr) continue;
    for (const OpRow& row : tables[member]->rows) {
      OfMembers& of = by_key[{row.name, row.step, row.dims, row.types}];
      of.figures.resize(tables.size());
      of.figures[member] = FigureOf(row, sort);
      of.calls.push_back(row.calls);
    }
  }
  GroupOps ops;
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
