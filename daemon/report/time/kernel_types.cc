#include "daemon/report/time/kernel_types.h"

#include <algorithm>
#include <array>

#include "daemon/report/gpu/device_work.h"
#include "daemon/report/index/merge_runs.h"

namespace profd::report {
namespace {

// One bit each, so that a sum of them says which run.
constexpr int kCompute = 1;
constexpr int kCommunication = 2;
constexpr int kCopies = 4;

struct Change {
  int64_t time_ns;
  int by;
};

void AddChanges(Intervals intervals, int kind, std::vector<Change>& changes) {
  for (const IntervalSet::Interval& interval : intervals) {
    changes.push_back({interval.start_ns, kind});
    changes.push_back({interval.end_ns, -kind});
  }
}

}  // namespace

std::vector<KernelTypeTime> TimesByType(Intervals compute, Intervals communication,
                                        Intervals copies) {
  std::vector<Change> changes;
  changes.reserve(2 * (compute.size() + communication.size() + copies.size()));
  AddChanges(compute, kCompute, changes);
  AddChanges(communication, kCommunication, changes);
  AddChanges(copies, kCopies, changes);
  MergeRuns(changes, [](const Change& a, const Change& b) { return a.time_ns < b.time_ns; });
  std::array<uint64_t, 8> total_ns{};
  int running = 0;
  for (size_t i = 0; i + 1 < changes.size(); ++i) {
    running += changes[i].by;
    // As HTA rounds, something may end before it begins: nothing runs for that long.
    if (running <= 0 || running > 7) continue;
    total_ns[static_cast<size_t>(running)] += Distance(changes[i].time_ns, changes[i + 1].time_ns);
  }
  std::vector<KernelTypeTime> types;
  double sum = 0;
  for (int kinds = 1; kinds < 8; ++kinds) {
    const uint64_t ns = total_ns[static_cast<size_t>(kinds)];
    if (ns == 0) continue;
    types.push_back({.compute = (kinds & kCompute) != 0,
                     .communication = (kinds & kCommunication) != 0,
                     .copy = (kinds & kCopies) != 0,
                     .total_ns = static_cast<int64_t>(ns)});
    sum += static_cast<double>(ns);
  }
  for (KernelTypeTime& type : types) type.share = static_cast<double>(type.total_ns) / sum;
  std::stable_sort(
      types.begin(), types.end(),
      [](const KernelTypeTime& a, const KernelTypeTime& b) { return a.total_ns > b.total_ns; });
  return types;
}

int64_t OverlapNs(const std::vector<KernelTypeTime>& types) {
  int64_t overlap_ns = 0;
  for (const KernelTypeTime& type : types) {
    if (type.compute && type.communication) {
      overlap_ns = static_cast<int64_t>(static_cast<uint64_t>(overlap_ns) +
                                        static_cast<uint64_t>(type.total_ns));
    }
  }
  return overlap_ns;
}

std::string ToString(const KernelTypeTime& types) {
  std::string text;
  const auto add = [&](bool is_there, std::string_view word) {
    if (!is_there) return;
    if (!text.empty()) text += " overlapping ";
    text += word;
  };
  add(types.compute, "COMPUTATION");
  add(types.communication, "COMMUNICATION");
  add(types.copy, "MEMORY");
  return text;
}

}  // namespace profd::report
