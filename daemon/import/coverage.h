// Coverage is when a trace has events, of whatever thread or GPU: where it has none for long, its
// profiler did not record. torch.profiler writes several windows of a schedule into one file:
//
//   events   ███ ██ ███                           ██ ███ ██
//   steps    3   4   5                            9  10  11     in between, nothing is known
//
// Threads: one. Memory: 48 bytes per stretch, at most kMaxStretches: beyond them, shorter holes
// count as covered.
#ifndef PROFD_DAEMON_IMPORT_COVERAGE_H_
#define PROFD_DAEMON_IMPORT_COVERAGE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "daemon/capture/capture_types.h"

namespace profd::importer {

// SequenceEnd is when things that follow one another were over, such as the work of a stream or the
// CUDA calls of a thread: when the one that began last ended. Those before it were over by then,
// whatever length the trace gives them.
struct SequenceEnd {
  int64_t start_ns = std::numeric_limits<int64_t>::min();
  int64_t end_ns = std::numeric_limits<int64_t>::min();

  void Add(int64_t begin_ns, int64_t over_ns) {
    if (begin_ns < start_ns) return;
    end_ns = begin_ns > start_ns ? over_ns : std::max(end_ns, over_ns);
    start_ns = begin_ns;
  }
};

class Coverage {
 public:
  static constexpr size_t kMaxStretches = 100'000;

  // In any order; an event without a duration counts, too.
  void Add(int64_t start_ns, int64_t end_ns);

  bool empty() const { return stretches_.empty(); }
  // Whether an event is in [start_ns, end_ns].
  bool Touches(int64_t start_ns, int64_t end_ns) const;
  // Whether all of it is covered.
  bool Contains(int64_t start_ns, int64_t end_ns) const;

  // Returns the times [start, end) that were recorded, by start, of which none is after `end_ns`.
  // `steps` are by number, with times that begin at `origin_ns`. Times between steps whose numbers
  // do not follow each other are holes if no event is in them; other times only if they are much
  // longer, in no range of `long_ranges`, and without steps if `is_continuous` does not say that
  // all was recorded.
  std::vector<std::pair<int64_t, int64_t>> Windows(std::span<const StepRecord> steps,
                                                   int64_t origin_ns, int64_t end_ns,
                                                   bool is_continuous,
                                                   const Coverage& long_ranges) const;

 private:
  void Coalesce();

  int64_t slack_ns_ = 100'000;            // Shorter holes count as covered.
  std::map<int64_t, int64_t> stretches_;  // End by start.
};

using Windows = std::vector<std::pair<int64_t, int64_t>>;

// Joins windows over the shortest holes until there are at most `most`.
void JoinNearest(size_t most, Windows& windows);

// A moment without a step, hours before or after all else, is no window: its events have a wrong
// time, such as 0. Returns how many are gone; one window stays.
int64_t LeaveOutStrayMoments(std::span<const StepRecord> steps, int64_t origin_ns,
                             Windows& windows);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_COVERAGE_H_
