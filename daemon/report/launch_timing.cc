#include "daemon/report/launch_timing.h"

#include <algorithm>
#include <cmath>

#include "daemon/report/device_work.h"

namespace profd::report {
namespace {

// Sums wrap rather than overflow: durations may be a stranger's.
void AddTo(int64_t& sum, int64_t by) {
  sum = static_cast<int64_t>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(by));
}

// The value that `share` of `sorted` is below, between two of them as far as it falls.
template <typename T>
double Quantile(const std::vector<T>& sorted, double share) {
  if (sorted.empty()) return 0;
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const auto low = static_cast<double>(sorted[below]);
  return low + (at - static_cast<double>(below)) * (static_cast<double>(sorted[above]) - low);
}

struct Change {
  int64_t time_ns;
  int32_t by;
};

QueueRow Describe(int64_t stream, std::vector<Change>& changes) {
  // What is launched and begins in one instant was in the queue.
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return a.time_ns != b.time_ns ? a.time_ns < b.time_ns : a.by > b.by;
  });
  QueueRow row = {.stream = stream, .change_count = static_cast<int64_t>(changes.size())};
  std::vector<int64_t> lengths;
  lengths.reserve(changes.size());
  int64_t length = 0;
  double sum = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    length += changes[i].by;
    lengths.push_back(length);
    sum += static_cast<double>(length);
    if (length >= kFullLaunchQueue && i + 1 < changes.size()) {
      AddTo(row.full_ns,
            static_cast<int64_t>(Distance(changes[i].time_ns, changes[i + 1].time_ns)));
    }
  }
  const auto count = static_cast<double>(lengths.size());
  row.mean = sum / count;
  double squares = 0;
  for (const int64_t value : lengths) squares += std::pow(static_cast<double>(value) - row.mean, 2);
  row.standard_deviation = std::sqrt(squares / (count - 1));  // There are two of each launch.
  std::sort(lengths.begin(), lengths.end());
  row.min = static_cast<double>(lengths.front());
  row.p25 = Quantile(lengths, 0.25);
  row.p50 = Quantile(lengths, 0.5);
  row.p75 = Quantile(lengths, 0.75);
  row.max = static_cast<double>(lengths.back());
  return row;
}

}  // namespace

std::vector<TimedLaunch> MergeByCall(std::vector<TimedLaunch> launches) {
  std::sort(launches.begin(), launches.end(), [](const TimedLaunch& a, const TimedLaunch& b) {
    return a.call != b.call ? a.call < b.call : a.start_ns < b.start_ns;
  });
  std::vector<TimedLaunch> calls;
  for (const TimedLaunch& launch : launches) {
    if (calls.empty() || calls.back().call != launch.call) {
      calls.push_back(launch);
    } else {
      AddTo(calls.back().device_ns, launch.device_ns);
    }
  }
  return calls;
}

void AddLaunches(const std::vector<TimedLaunch>& launches, LaunchStatistics& statistics) {
  std::vector<int64_t> delays;
  delays.reserve(launches.size());
  for (const TimedLaunch& launch : launches) {
    const auto call_ns = static_cast<int64_t>(Distance(launch.call_start_ns, launch.call_end_ns));
    const int64_t delay_ns =
        launch.start_ns > launch.call_end_ns
            ? static_cast<int64_t>(Distance(launch.call_end_ns, launch.start_ns))
            : 0;
    delays.push_back(delay_ns);
    ++statistics.count;
    AddTo(statistics.call_ns, call_ns);
    AddTo(statistics.device_ns, launch.device_ns);
    AddTo(statistics.delay_ns, delay_ns);
    if (launch.device_ns < call_ns) ++statistics.shorter_than_call_count;
    if (call_ns > kSlowLaunchCallNs) ++statistics.slow_call_count;
    if (delay_ns > kLateLaunchNs) ++statistics.late_count;
  }
  std::sort(delays.begin(), delays.end());
  statistics.median_delay_ns = Quantile(delays, 0.5);
}

std::vector<QueueRow> QueueLengths(const std::vector<TimedLaunch>& launches,
                                   const std::vector<int64_t>& streams) {
  std::vector<std::vector<Change>> changes(streams.size());
  for (const TimedLaunch& launch : launches) {
    changes[launch.stream].push_back({launch.call_start_ns, 1});
    changes[launch.stream].push_back({launch.start_ns, -1});
  }
  std::vector<QueueRow> rows;
  for (size_t i = 0; i < streams.size(); ++i) {
    if (!changes[i].empty()) rows.push_back(Describe(streams[i], changes[i]));
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const QueueRow& a, const QueueRow& b) { return a.stream < b.stream; });
  return rows;
}

}  // namespace profd::report
