// IntervalSet is a set of instants, as intervals [start, end) that do not touch: the union of
// what is added to it.
//
// Threads: one.
// Memory:  24 bytes per interval that is left.
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
  // Of a set that is not empty.
  int64_t begin_ns() const { return intervals_.front().start_ns; }
  int64_t end_ns() const { return intervals_.back().end_ns; }
  uint64_t total_ns() const;
  // How much of the set lies in [begin_ns, end_ns).
  uint64_t MeasureIn(int64_t begin_ns, int64_t end_ns) const;
  std::span<const Interval> intervals() const { return intervals_; }  // By time.

 private:
  // How much of the set lies before `time_ns`.
  uint64_t MeasureBefore(int64_t time_ns) const;

  std::vector<Interval> intervals_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_INTERVAL_SET_H_
