// Quality: how far the numbers of a capture can be trusted, as a grade and as the checks behind
// it. The one place that grades.
//
//   A   every check held
//   B   the numbers are right; some detail is missing or less exact
//   C   a noticeable part is missing or was disturbed: compare with care
//   D   much is missing, or the window ended before it was complete
//   -   nothing was recorded
//
// The grade is the worst that any check allows. Most checks need only the record; those over
// events (EventChecks) are made by daemon/report/findings/quality.h, and where they were not made
// they are not held against the capture: a report may so grade worse than a listing, never better.
//
// Threads: any. Errors: none; any numbers are safe.
//
// How do I add a check?  A function in quality.cc and a row in its table.
#ifndef PROFD_DAEMON_CAPTURE_QUALITY_H_
#define PROFD_DAEMON_CAPTURE_QUALITY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/capture/capture_types.h"

namespace profd {

// Bounds of the loss of events, as shares of all that there were. Figures that are shares of a
// whole are marked as of a capture with losses from the first on, and withheld from the second on.
inline constexpr double kMarkSharesAbove = 0.001;
inline constexpr double kWithholdSharesFrom = 0.10;

enum class ShareTrust {
  kWhole,     // The whole is known.
  kMarked,    // Say beside them that something is missing.
  kWithheld,  // So much is missing that a share says nothing.
};
std::string_view ToString(ShareTrust trust);  // "whole"
// Of a capture that lost `lost_share`, 0..1, of its events.
ShareTrust TrustOfShares(double lost_share);
// Of all that there were, what was lost; 0 where there was nothing. No count is below 0.
double LostShare(int64_t lost_event_count, int64_t kept_event_count);

// What only the events tell.
struct EventChecks {
  int64_t gpu_row_count = 0;
  int64_t orphan_count = 0;         // Of those: no call in the capture launched them.
  int64_t launch_count = 0;         // Calls that launch work.
  int64_t silent_launch_count = 0;  // Of those: no work on the GPU followed.
  bool captures_graphs = false;     // Some are made for a CUDA graph, and run later or never.
  int64_t inversion_count = 0;      // GPU rows that begin before the call that launched them.
  int64_t worst_inversion_ns = 0;
  int64_t range_count = 0;
  int64_t cut_range_count = 0;  // Of those: they straddle the begin or the end of a window.
};

struct QualityCheck {
  std::string_view name;  // "loss"
  char grade = 'A';       // The best that it allows.
  bool known = true;      // False: the capture does not tell; `value` means nothing.
  bool is_share = false;  // `value` and `bound` are shares, 0..1; else in the unit of the name.
  double value = 0;
  double bound = 0;      // Above it the check fails.
  std::string sentence;  // For people: what was found, in one sentence.

  bool failed() const { return grade != 'A'; }
};

struct Quality {
  std::string grade;  // "A".."D", "-"
  double lost_share = 0;
  ShareTrust shares = ShareTrust::kWhole;
  std::vector<QualityCheck> checks;  // In the order of the table; failed or not.
};

// How much longer steps took in the window than around it, as a share: 0.05 is 5 % longer. Bounds
// against the slower and the faster of the steps before and after, because the program's own step
// time changes, too: only what exceeds both can be due to recording.
struct RecordingSlowdown {
  double at_least = 0;
  double at_most = 0;
};
// Returns nullopt if the steps before, in, or after the window are unknown.
std::optional<RecordingSlowdown> SlowdownOf(const CaptureRecord& record);

// `events`: nullptr where nobody looked at them.
Quality AssessQuality(const CaptureRecord& record, const EventChecks* events = nullptr);

// AssessQuality(record).grade
std::string QualityGrade(const CaptureRecord& record);

}  // namespace profd

#endif  // PROFD_DAEMON_CAPTURE_QUALITY_H_
