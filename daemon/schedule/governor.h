// The overhead governor of one target: what its windows cost it, in step time, decides how many of
// the next ones it is spared. The cost is what noise cannot explain: the lower end of the interval.
//
//   slow-down above the limit ──► skip 1 window, then look again; still above ──► 2, 4, ... 64
//   slow-down below the limit ──► skip none
//
// Ranks of a job that begin together (../capture/common_start.h) each have a governor, on several
// nodes, and none knows of another's. One rank's skip relieves nothing, as the others wait for each
// other and are still captured, but it leaves a hole in their window. So such a rank
//   - backs off only after two captures in a row above the limit: among many ranks noise is often
//     above it for one;
//   - takes part in one window in 2, 4, ... 128, by the window's number: ranks that back off take
//     part in the same windows, whenever each of them began to.
//
// Threads: none of its own; a value.
#ifndef PROFD_DAEMON_SCHEDULE_GOVERNOR_H_
#define PROFD_DAEMON_SCHEDULE_GOVERNOR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace profd {

class Governor {
 public:
  static constexpr int64_t kMaxLevel = 7;  // 2^6 = 64 windows.
  // One that runs, and the one before it.
  static constexpr size_t kMaxUnjudged = 2;

  Governor() = default;
  // As they were kept; clamped to what they can be.
  Governor(int64_t level, int64_t skips_left);

  int64_t level() const { return level_; }
  int64_t skips_left() const { return skips_left_; }

  // A window was captured: its cost is not known yet.
  void Captured(std::string capture_id);
  // The captures to be looked at before the next window, oldest first. The newest kMaxUnjudged.
  const std::vector<std::string>& unjudged() const { return unjudged_; }
  // What the oldest of these cost, if that is known (else the governor stays as it is).
  // `together`: of a rank that begins with others.
  void Judge(std::optional<double> slowdown, double max_slowdown, bool together = false);

  // Whether the next window is to be skipped; that it was is counted.
  bool Skip();
  // Of a rank that begins with others: whether it is to skip the window of that number.
  bool SkipsTogether(int64_t window_number) const;
  int64_t one_window_in() const { return int64_t{1} << level_; }

 private:
  int64_t level_ = 0;
  int64_t skips_left_ = 0;
  bool is_suspect_ = false;  // The last capture was above the limit, and `level_` is 0.
  std::vector<std::string> unjudged_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SCHEDULE_GOVERNOR_H_
