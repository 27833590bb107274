// PerfettoFlows pairs the ends of a protobuf trace's arrows. They come in any order.
//
// Threads: one. Memory: 40 bytes per end, until kMostCheckBytes are taken.
#ifndef PROFD_DAEMON_CHECK_PERFETTO_FLOWS_H_
#define PROFD_DAEMON_CHECK_PERFETTO_FLOWS_H_

#include <cstdint>
#include <deque>

#include "daemon/check/check_rules.h"

namespace profd::check {

class PerfettoFlows {
 public:
  struct End {
    uint64_t flow;
    int64_t time_ns;
    int64_t packet;
    bool terminates;
    uint64_t clock;  // Times of different clocks are not compared.
  };

  void Add(const End& end);
  // Once, after the last.
  void Judge(FindingLog& log);

  bool whole() const { return whole_; }

 private:
  using Iterator = std::deque<End>::const_iterator;
  static void JudgeFlow(const Iterator& first, const Iterator& last, FindingLog& log);

  std::deque<End> ends_;
  bool whole_ = true;
};

}  // namespace profd::check

#endif  // PROFD_DAEMON_CHECK_PERFETTO_FLOWS_H_
