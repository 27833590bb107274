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
// events (EventChecks) are made by daemon/report/findings/quality.h. The seal makes all of them
// once and stores grade and checks in the file, and every command shows those. Files of an older
// profd have none: their grade is computed when they are read, and marked so; checks over events
// that were not made are not held against them.
//
// Threads: any. Errors: none; any numbers are safe.
//
// How do I add a check?  A function in quality.cc and a row in its table.
#ifndef PROFD_DAEMON_CAPTURE_QUALITY_H_
#define PROFD_DAEMON_CAPTURE_QUALITY_H_

#include <cstdint>
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
  kMarked,    // Say next to them that something is missing.
  kWithheld,  // So much is missing that a share says nothing.
};
std::string_view ToString(ShareTrust trust);  // "whole"
// Of a capture that lost `lost_share`, 0..1, of its events.
ShareTrust TrustOfShares(double lost_share);
// Of all that there were, what was lost; 0 where there was nothing. No count is below 0.
double LostShare(int64_t lost_event_count, int64_t kept_event_count);

// How ImportRecord::not_understood names the end of a trace that is cut off. The capture is PARTIAL
// if events are missing.
inline constexpr std::string_view kCutOffKind = "file cut off ";
// Of an array that ends without its bracket, as Chrome's format allows: events may be missing.
inline constexpr std::string_view kWithoutBracketPlace = "after an event, without the last ']'";
// Where the file of an imported trace is cut off, "in an event, at byte 7"; empty: it is whole.
// Valid while `record` is.
std::string_view CutOffPlace(const CaptureRecord& record);

// How ImportRecord::not_understood names what a device did that is not read: "device:" and the name
// that the trace gives it, "Ascend Hardware".
inline constexpr std::string_view kUnreadDeviceKind = "device:";
// "240 events of Ascend Hardware and 7 other devices are not read", with the name of the device
// that has most events; empty: there are none.
std::string UnreadDevicesClause(const CaptureRecord& record);

// What of waits for a CPU was not watched, as a clause: "3328 threads were not watched; ...";
// empty: nothing is known to be missing.
std::string UnwatchedClause(const CpuRecord& cpu);

// What only the events tell.
struct EventChecks {
  int64_t gpu_row_count = 0;
  int64_t orphan_count = 0;        // Of those: no call in the capture launched them.
  int64_t earlier_work_count = 0;  // Of the orphans: launched before the window.
  // At the start of the window, while a GPU did what was launched before the recording.
  int64_t unknown_gpu_ns = 0;
  int64_t launch_count = 0;         // Calls that launch kernels or graphs.
  int64_t silent_launch_count = 0;  // Of those: no work on the GPU followed.
  int64_t failed_launch_count = 0;  // Calls that returned an error instead; in no other count.
  int64_t failed_result = 0;        // What the first of them returned.
  int64_t graph_launch_count = 0;   // Calls that launch whole graphs, which are many kernels.
  int64_t silent_graph_count = 0;   // Of those: no work on the GPU followed.
  // Of the launches of graphs: fewer activities followed than after most launches of their graph.
  int64_t short_graph_count = 0;
  int64_t missing_node_count = 0;  // How many fewer, all together.
  bool captures_graphs = false;    // Some are made for a CUDA graph, and run later or never.
  int64_t inversion_count = 0;     // GPU rows that begin before the call that launched them.
  int64_t worst_inversion_ns = 0;
  // GPU rows with times that cannot be (daemon/report/believed/impossible_times.h).
  int64_t overlong_count = 0;  // They last beyond the begin of what their stream did next.
  std::string overlong_name;   // Of the one that is off by most.
  int64_t overlong_ns = 0;
  int64_t overlong_possible_ns = 0;
  int64_t detached_count = 0;  // They begin at quite another time than their launch.
  int64_t detached_ns = 0;     // The farthest.
  int64_t host_call_count = 0;
  // Of those: their thread went on meanwhile (daemon/report/believed/impossible_calls.h).
  int64_t overlong_call_count = 0;
  std::string overlong_call_name;  // Of the one that is off by most.
  int64_t overlong_call_ns = 0;
  int64_t overlong_call_possible_ns = 0;
  int64_t range_count = 0;
  int64_t cut_range_count = 0;       // Of those: they straddle the begin or the end of a window.
  int64_t spanning_range_count = 0;  // Of those: they straddle both.
  int64_t unended_range_count = 0;   // Ranges that nothing ended.
  int64_t left_open_count = 0;       // Of those: open when the window ended, like others before.
  std::string unended_range_name;    // That of most of those.
};

// Launches without work in the recording, or with less than other launches of their graph. A launch
// of a graph is as much as all other launches of its step, so that the larger share of the two
// counts. While graphs are captured, whose launches may not run, only the latter count.
struct SilentLaunches {
  int64_t count = 0;
  int64_t of = 0;
  double share = 0;         // 0..1
  bool are_graphs = false;  // Both count launches of graphs.
  // Of the count: they have work, but less. What they lack, all together.
  int64_t short_count = 0;
  int64_t missing_node_count = 0;

  // " of graphs have no GPU work in the recording"
  std::string Clause() const;
};
SilentLaunches SilentLaunchesOf(const EventChecks& events);

struct Quality {
  std::string grade;  // "A".."D", "-"
  double lost_share = 0;
  ShareTrust shares = ShareTrust::kWhole;
  std::vector<QualityCheck> checks;  // In the order of the table; failed or not.
  // False: computed just now, because the capture is not sealed, or an older profd sealed it.
  bool stored = false;
};

// Grades `record` anew, whatever grade it has: for the seal. `events`: nullptr where none were read
// at them.
Quality ComputeQuality(const CaptureRecord& record, const EventChecks* events = nullptr);

// The stored grade and its reasons. Where there are none, ComputeQuality().
Quality QualityOf(const CaptureRecord& record, const EventChecks* events = nullptr);

// QualityOf(record).grade
std::string QualityGrade(const CaptureRecord& record);

// Whether `record` was sealed by a profd that stored no grade.
bool IsGradeMissing(const CaptureRecord& record);

}  // namespace profd

#endif  // PROFD_DAEMON_CAPTURE_QUALITY_H_
