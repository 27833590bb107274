// ChromeTimeline gathers what rules about several events of a Chrome trace need, whatever order
// they come in, and judges it at the end: slices that do not nest, arrows without both ends, GPU
// work before its launch.
//
// Threads: one.
// Memory:  32 bytes per slice, 40 per end of an arrow, 24 per GPU row or call, until
//          kMostCheckBytes are taken; whole() tells whether all of it could be kept.
#ifndef PROFD_DAEMON_CHECK_CHROME_TIMELINE_H_
#define PROFD_DAEMON_CHECK_CHROME_TIMELINE_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "daemon/check/check_rules.h"
#include "daemon/check/chrome_event.h"

namespace profd::check {

class ChromeTimeline {
 public:
  explicit ChromeTimeline(FindingLog& log, size_t max_bytes = kMostCheckBytes)
      : log_(log), max_bytes_(max_bytes) {}

  void AddSlice(const ChromeEvent& event);
  // Of the phase B or E.
  void AddHalf(const ChromeEvent& event);
  // One of the phases s, t and f, with an id.
  void AddFlow(const ChromeEvent& event);
  void AddCall(const ChromeEvent& event);
  void AddWork(const ChromeEvent& event);

  // Once, after the last event.
  void Judge();

  bool whole() const { return whole_; }
  // Whether calls of several processes share correlation ids, so that delays cannot be told.
  bool has_several_callers() const { return callers_.size() > 1; }

 private:
  struct Slice {
    int64_t start_ns;
    int64_t end_ns;
    int64_t event;
    uint32_t name;
  };
  struct Half {  // One event of a slice that has two.
    int64_t time_ns;
    bool is_end;
  };
  struct Row {
    int64_t pid = 0;
    int64_t tid = 0;
    std::deque<Slice> slices;
    std::deque<std::pair<int64_t, int64_t>> flows;  // Ends that need a slice: time, event.
    std::deque<Half> halves;
  };
  struct FlowEnd {
    uint64_t key;  // Of id, category and name.
    int64_t time_ns;
    int64_t event;
    char phase;
  };
  struct Correlated {
    int64_t correlation;
    int64_t time_ns;
    bool is_work;
  };

  Row& RowOf(const ChromeEvent& event);
  uint32_t NameOf(std::string_view name);
  bool Take(size_t bytes);
  void Correlate(const ChromeEvent& event, bool is_work);
  void JudgeNesting(Row& row);
  void JudgeHalves(Row& row);
  void JudgeArrowEnds(Row& row) const;
  void JudgeFlows();
  void JudgeFlow(const std::deque<FlowEnd>::const_iterator& first,
                 const std::deque<FlowEnd>::const_iterator& last);
  void JudgeLaunches();
  void JudgeCorrelation(const std::deque<Correlated>::const_iterator& first,
                        const std::deque<Correlated>::const_iterator& last);

  FindingLog& log_;
  absl::flat_hash_map<std::pair<int64_t, int64_t>, size_t> row_of_;
  std::deque<Row> rows_;
  absl::flat_hash_map<std::string, uint32_t> name_of_;
  std::vector<std::string> names_;
  std::deque<FlowEnd> flows_;
  std::deque<Correlated> correlated_;
  absl::flat_hash_set<int64_t> callers_;
  const size_t max_bytes_;
  size_t taken_bytes_ = 0;
  bool whole_ = true;
};

}  // namespace profd::check

#endif  // PROFD_DAEMON_CHECK_CHROME_TIMELINE_H_
