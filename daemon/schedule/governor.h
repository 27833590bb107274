// The overhead governor of one target: what its windows cost it, in step time, decides how many of
// the next ones it is spared. The cost is what noise cannot explain: the lower end of the interval.
//
//   slow-down above the limit ──► skip 1 window, then look again; still above ──► 2, 4, ... 64
//   slow-down below the limit ──► skip none
//
// Threads: none of its own; a value.
#ifndef PROFD_DAEMON_SCHEDULE_GOVERNOR_H_
#define PROFD_DAEMON_SCHEDULE_GOVERNOR_H_

#include <cstdint>
#include <optional>
#include <string>

namespace profd {

class Governor {
 public:
  static constexpr int64_t kMaxLevel = 7;  // 2^6 = 64 windows.

  Governor() = default;
  // As they were kept; clamped to what they can be.
  Governor(int64_t level, int64_t skips_left);

  int64_t level() const { return level_; }
  int64_t skips_left() const { return skips_left_; }

  // A window was captured: its cost is not known yet.
  void Captured(std::string capture_id) { unjudged_ = std::move(capture_id); }
  // The capture to be looked at before the next window; empty: none.
  const std::string& unjudged() const { return unjudged_; }
  // What it cost, if that is known (else the governor stays as it is).
  void Judge(std::optional<double> slowdown, double max_slowdown);

  // Whether the next window is to be skipped; that it was is counted.
  bool Skip();

 private:
  int64_t level_ = 0;
  int64_t skips_left_ = 0;
  std::string unjudged_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SCHEDULE_GOVERNOR_H_
