#include "daemon/report/time/launch_timing.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "daemon/base/median.h"
#include "daemon/report/gpu/device_work.h"
#include "daemon/report/index/merge_runs.h"
#include "daemon/report/index/wrapping_math.h"

namespace profd::report {
namespace {

// Lengths that a queue had, each with how often; they lie close together, as one change makes one
// more or one less.
class QueueLengthCounts {
 public:
  explicit QueueLengthCounts(const std::vector<int32_t>& lengths)
      : least_(*std::min_element(lengths.begin(), lengths.end())),
        total_(lengths.size()),
        counts_(static_cast<size_t>(*std::max_element(lengths.begin(), lengths.end()) - least_) +
                1) {
    for (const int32_t length : lengths) ++counts_[static_cast<size_t>(length - least_)];
  }

  double Least() const { return least_; }
  double Greatest() const { return least_ + static_cast<double>(counts_.size() - 1); }
  double Mean() const {
    return Sum([](double length) { return length; }) / static_cast<double>(total_);
  }
  double StandardDeviation() const {  // Of the sample; there are two of each launch.
    const double mean = Mean();
    const double squares = Sum([&](double length) { return (length - mean) * (length - mean); });
    return std::sqrt(squares / static_cast<double>(total_ - 1));
  }
  // The length that `share` of all are below, between two of them as far as it falls.
  double Quantile(double share) const {
    const double at = share * static_cast<double>(total_ - 1);
    const auto below = static_cast<size_t>(at);
    const double low = At(below);
    return low + (at - static_cast<double>(below)) * (At(std::min(below + 1, total_ - 1)) - low);
  }

 private:
  template <typename Fn>
  double Sum(Fn of) const {
    double sum = 0;
    for (size_t i = 0; i < counts_.size(); ++i) {
      sum += static_cast<double>(counts_[i]) * of(least_ + static_cast<double>(i));
    }
    return sum;
  }
  double At(size_t position) const {  // As if sorted.
    size_t i = 0;
    for (; position >= counts_[i]; ++i) position -= counts_[i];
    return least_ + static_cast<double>(i);
  }

  int32_t least_;
  size_t total_;
  std::vector<size_t> counts_;  // Of least_, least_ + 1, ...
};

struct Queue {
  std::vector<int64_t> launched_ns;
  std::vector<int64_t> begun_ns;  // As many.
};

QueueRow RowOf(int64_t stream, Queue& queue, IntervalSet& full) {
  MergeRuns(queue.launched_ns, std::less<>());
  MergeRuns(queue.begun_ns, std::less<>());
  const size_t count = queue.launched_ns.size();
  QueueRow row = {.stream = stream, .change_count = static_cast<int64_t>(2 * count)};
  std::vector<int32_t> lengths;
  lengths.reserve(2 * count);
  int64_t since_ns = 0;
  int32_t length = 0;
  for (size_t launched = 0, begun = 0; lengths.size() < 2 * count;) {
    // What is launched and begins in one instant was in the queue.
    const bool is_launch = begun == count || (launched < count &&
                                              queue.launched_ns[launched] <= queue.begun_ns[begun]);
    const int64_t now_ns = is_launch ? queue.launched_ns[launched++] : queue.begun_ns[begun++];
    if (length >= kFullLaunchQueue) {
      AddTo(row.full_ns, static_cast<int64_t>(Distance(since_ns, now_ns)));
      full.Add(since_ns, now_ns);
    }
    since_ns = now_ns;
    length += is_launch ? 1 : -1;
    lengths.push_back(length);
  }
  const QueueLengthCounts counts(lengths);
  row.mean = counts.Mean();
  row.standard_deviation = counts.StandardDeviation();
  row.min = counts.Least();
  row.p25 = counts.Quantile(0.25);
  row.p50 = counts.Quantile(0.5);
  row.p75 = counts.Quantile(0.75);
  row.max = counts.Greatest();
  return row;
}

}  // namespace

int64_t TimedLaunch::work_ns() const {
  const auto call_ns = static_cast<int64_t>(Distance(call_start_ns, call_end_ns));
  return call_ns <= 0 ? call_ns : call_ns - std::clamp<int64_t>(wait_ns, 0, call_ns);
}

std::vector<TimedLaunch> MergeByCall(std::vector<TimedLaunch> launches) {
  MergeRuns(launches, [](const TimedLaunch& a, const TimedLaunch& b) {
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
    const int64_t call_ns = launch.work_ns();
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
  statistics.median_delay_ns = ExactMedian(delays);
}

std::vector<QueueRow> QueueLengths(const std::vector<TimedLaunch>& launches,
                                   const std::vector<int64_t>& streams,
                                   std::vector<IntervalSet>* full) {
  std::vector<Queue> queues(streams.size());
  for (const TimedLaunch& launch : launches) {
    queues[launch.stream].launched_ns.push_back(launch.call_start_ns);
    queues[launch.stream].begun_ns.push_back(launch.start_ns);
  }
  std::vector<QueueRow> rows;
  std::vector<IntervalSet> full_times(streams.size());
  for (size_t i = 0; i < streams.size(); ++i) {
    if (!queues[i].begun_ns.empty()) rows.push_back(RowOf(streams[i], queues[i], full_times[i]));
  }
  if (full != nullptr) *full = std::move(full_times);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const QueueRow& a, const QueueRow& b) { return a.stream < b.stream; });
  return rows;
}

}  // namespace profd::report
