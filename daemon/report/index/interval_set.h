// IntervalSet is the union of the intervals [start, end) that were added. Its intervals do not
// touch.
//
// Threads: one.
// Memory:  24 bytes per remaining interval.
#ifndef PROFD_DAEMON_REPORT_INDEX_INTERVAL_SET_H_
#define PROFD_DAEMON_REPORT_INDEX_INTERVAL_SET_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace profd::report {

class IntervalSet {
 public:
  struct Interval {
    int64_t start_ns;
    int64_t end_ns;
    uint64_t before_ns;  // Sum of the intervals before it.
  };

  // Starts must not decrease from call to call; an empty interval adds nothing.
  void Add(int64_t start_ns, int64_t end_ns);

  bool empty() const { return intervals_.empty(); }
  // REQUIRES: the set is not empty.
  int64_t begin_ns() const { return intervals_.front().start_ns; }
  int64_t end_ns() const { return intervals_.back().end_ns; }
  uint64_t total_ns() const;
  // Returns the total length inside [begin_ns, end_ns).
  uint64_t MeasureIn(int64_t begin_ns, int64_t end_ns) const;
  std::span<const Interval> intervals() const { return intervals_; }  // By time.

 private:
  // Returns the total length before `time_ns`.
  uint64_t MeasureBefore(int64_t time_ns) const;

  std::vector<Interval> intervals_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_INTERVAL_SET_H_
