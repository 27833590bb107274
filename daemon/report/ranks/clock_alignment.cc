#include "daemon/report/ranks/clock_alignment.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "daemon/base/median.h"

namespace profd::report {
namespace {

// A line needs as many samples; below, its slope is noise.
constexpr size_t kFewestForLine = 30;
// The drift over the span has to be so many times the noise of the mean.
constexpr double kDriftOverNoise = 2;
// Samples of one communicator beyond which more teach nothing.
constexpr size_t kMostPerCommunicator = 4096;
constexpr int kRounds = 4;
// What times may contradict each other by although clocks are aligned: conversions, whole
// microseconds, and what is left of the noise.
constexpr double kSlackNs = 200'000;
constexpr double kAlignedSlackNs = 1'000'000;  // Of two clocks that only collectives align.
// Fewer halves tell nothing.
constexpr size_t kFewestForResidual = 4;
constexpr size_t kFewestToMoveFar = 5;
constexpr double kFewSteps = 16;

// As doubles, times count from a reference: 2^53 ns are 104 days.
struct Line {
  double offset_ns = 0;
  double slope = 0;

  double At(double time_ns) const { return offset_ns + slope * time_ns; }
  Line operator+(const Line& other) const {
    return {offset_ns + other.offset_ns, slope + other.slope};
  }
  Line operator-(const Line& other) const {
    return {offset_ns - other.offset_ns, slope - other.slope};
  }
};

// Returns -1 if there are no values.
int64_t RoundedPercentile(std::vector<double>& values, int percent) {
  if (values.empty()) return -1;
  return std::llround(std::min(Percentile(values, percent), 9.2e18));
}

struct Sample {
  double time_ns;
  double late_ns;  // Than the others.
};

double MedianLateness(std::span<const Sample> samples) {
  std::vector<double> values;
  for (const Sample& sample : samples) values.push_back(sample.late_ns);
  return Median(values);
}

double MedianTime(std::span<const Sample> samples) {
  std::vector<double> values;
  for (const Sample& sample : samples) values.push_back(sample.time_ns);
  return Median(values);
}

// What `samples`, by time and not empty, say of a clock.
Line Fit(std::span<const Sample> samples) {
  const double median = MedianLateness(samples);
  const size_t count = samples.size();
  if (count < kFewestForLine) return {.offset_ns = median};
  const std::span<const Sample> first = samples.first(count / 3);
  const std::span<const Sample> last = samples.last(count / 3);
  const double between_ns = MedianTime(last) - MedianTime(first);
  if (between_ns <= 0) return {.offset_ns = median};
  const double slope = (MedianLateness(last) - MedianLateness(first)) / between_ns;

  std::vector<double> levels;
  for (const Sample& sample : samples) levels.push_back(sample.late_ns - slope * sample.time_ns);
  const double offset_ns = Median(levels);
  std::vector<double> deviations;
  for (const Sample& sample : samples) {
    deviations.push_back(std::abs(sample.late_ns - slope * sample.time_ns - offset_ns));
  }
  const double noise_ns = 1.4826 * Median(deviations) / std::sqrt(static_cast<double>(count));
  const double drift_ns = std::abs(slope) * (samples.back().time_ns - samples.front().time_ns);
  if (drift_ns <= kDriftOverNoise * noise_ns) return {.offset_ns = median};
  return {.offset_ns = offset_ns, .slope = slope};
}

// One collective as each rank saw it, by its own clock.
struct Event {
  struct End {
    uint32_t clock;
    double start_ns;
    double time_ns;
  };
  std::vector<End> ends;
  size_t match = 0;
  uint32_t communicator = 0;
  bool is_numbered = true;  // Its parts were matched by their number.
};

// Corrections of the clocks, beyond what their probes say: common = own - correction. "Member" is
// a clock here.
class Solution {
 public:
  explicit Solution(size_t member_count) : lines_(member_count), group_(member_count, kNone) {}

  static constexpr size_t kNone = static_cast<size_t>(-1);
  const Line& line(size_t member) const { return lines_[member]; }
  // Members of one group are on one time; kNone: nothing was learnt of it.
  size_t group(size_t member) const { return group_[member]; }

  // What one communicator's collectives say; `stride` and `phase` choose among them.
  void Learn(std::span<const Event> events, size_t stride, size_t phase) {
    std::vector<Line> lines(lines_.size());
    std::vector<std::vector<Sample>> samples(lines_.size());
    for (int round = 0; round < kRounds; ++round) {
      for (std::vector<Sample>& of_member : samples) of_member.clear();
      for (size_t i = phase; i < events.size(); i += stride) AddSamples(events[i], lines, samples);
      for (size_t member = 0; member < lines.size(); ++member) {
        std::vector<Sample>& of_member = samples[member];
        if (of_member.empty()) continue;
        std::sort(of_member.begin(), of_member.end(),
                  [](const Sample& a, const Sample& b) { return a.time_ns < b.time_ns; });
        lines[member] = lines[member] + Fit(of_member);
      }
    }
    std::vector<bool> learnt(lines_.size());
    for (size_t member = 0; member < lines.size(); ++member) {
      learnt[member] = !samples[member].empty();
    }
    parts_.push_back({std::move(lines), std::move(learnt)});
  }

  // Joins what was learnt, in that order: a part is put on the time of the ranks that it shares
  // with what is there. Parts that share none wait for those that come later.
  void Join() {
    std::vector<bool> used(parts_.size());
    for (size_t joined = 0; joined < parts_.size(); ++joined) {
      const size_t next = NextPart(used);
      used[next] = true;
      const Part& part = parts_[next];
      const Line shift = ShiftOf(part);
      const size_t group = GroupOf(part);
      for (size_t member = 0; member < lines_.size(); ++member) {
        if (!part.learnt[member] || group_[member] != kNone) continue;
        lines_[member] = part.lines[member] + shift;
        group_[member] = group;
      }
    }
  }

  // Within each group, so that the middle one of `anchors` keeps its clock, or of all members if
  // none of them is one.
  void Anchor(const std::vector<bool>& anchors) {
    for (size_t group = 0; group < group_count_; ++group) {
      std::vector<double> offsets;
      std::vector<double> slopes;
      for (const bool only_anchors : {true, false}) {
        if (!offsets.empty()) break;
        for (size_t member = 0; member < lines_.size(); ++member) {
          if (group_[member] != group || (only_anchors && !anchors[member])) continue;
          offsets.push_back(lines_[member].offset_ns);
          slopes.push_back(lines_[member].slope);
        }
      }
      const Line middle = {Median(offsets), Median(slopes)};
      for (size_t member = 0; member < lines_.size(); ++member) {
        if (group_[member] == group) lines_[member] = lines_[member] - middle;
      }
    }
  }

 private:
  struct Part {
    std::vector<Line> lines;
    std::vector<bool> learnt;
  };

  static void AddSamples(const Event& event, const std::vector<Line>& lines,
                         std::vector<std::vector<Sample>>& samples) {
    std::vector<double> corrected;
    for (const Event::End& end : event.ends) {
      corrected.push_back(end.time_ns - lines[end.clock].At(end.time_ns));
    }
    std::vector<double> sorted = corrected;
    const double middle = Median(sorted);
    for (size_t i = 0; i < event.ends.size(); ++i) {
      samples[event.ends[i].clock].push_back({middle, corrected[i] - middle});
    }
  }

  bool Shares(const Part& part) const {
    for (size_t member = 0; member < lines_.size(); ++member) {
      if (part.learnt[member] && group_[member] != kNone) return true;
    }
    return false;
  }

  // The first that shares a rank with what is joined, or the first at all.
  size_t NextPart(const std::vector<bool>& used) const {
    size_t first = kNone;
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (used[i]) continue;
      if (Shares(parts_[i])) return i;
      if (first == kNone) first = i;
    }
    return first;
  }

  // From the part's time to that of the group it joins.
  Line ShiftOf(const Part& part) const {
    const size_t group = SharedGroup(part);
    std::vector<double> offsets;
    std::vector<double> slopes;
    for (size_t member = 0; member < lines_.size(); ++member) {
      if (!part.learnt[member] || group_[member] == kNone || group_[member] != group) continue;
      offsets.push_back(lines_[member].offset_ns - part.lines[member].offset_ns);
      slopes.push_back(lines_[member].slope - part.lines[member].slope);
    }
    if (offsets.empty()) return {};
    return {Median(offsets), Median(slopes)};
  }

  size_t SharedGroup(const Part& part) const {
    for (size_t member = 0; member < lines_.size(); ++member) {
      if (part.learnt[member] && group_[member] != kNone) return group_[member];
    }
    return kNone;
  }

  size_t GroupOf(const Part& part) {
    const size_t shared = SharedGroup(part);
    return shared != kNone ? shared : group_count_++;
  }

  std::vector<Line> lines_;
  std::vector<size_t> group_;
  size_t group_count_ = 0;
  std::vector<Part> parts_;
};

// A clock of one or more members.
struct HostClock {
  size_t first_member = 0;
  bool is_probed = false;
  double bound_ns = static_cast<double>(kPlausibleClockOffsetNs);
};

class Alignment {
 public:
  Alignment(std::span<const ClockMember> members, std::span<const MatchedCollective> matches)
      : members_(members) {
    reference_unix_ns_ = std::numeric_limits<int64_t>::max();
    std::map<std::string, uint32_t> by_host;
    for (size_t i = 0; i < members.size(); ++i) {
      reference_unix_ns_ = std::min(reference_unix_ns_, members[i].start_unix_ns);
      const auto next = static_cast<uint32_t>(clocks_.size());
      const uint32_t clock =
          members[i].host.empty() ? next : by_host.try_emplace(members[i].host, next).first->second;
      clock_of_.push_back(clock);
      if (clock == next) clocks_.push_back({.first_member = i});
      HostClock& host = clocks_[clock];
      if (!members[i].probe.has_value() || host.is_probed) continue;
      host.first_member = i;
      host.is_probed = true;
      host.bound_ns = std::abs(static_cast<double>(members[i].probe->bound_ns));
    }
    for (size_t i = 0; i < matches.size(); ++i) {
      if (Synchronises(matches[i].kind)) all_events_.push_back(EventOf(matches[i], i));
    }
  }

  ClockAlignment Align(size_t match_count) {
    ClockAlignment alignment;
    alignment.rejected.resize(match_count);
    Solution solution(clocks_.size());
    if (AreFarApart()) {
      for (HostClock& clock : clocks_) {
        clock.bound_ns = static_cast<double>(kFarthestClockOffsetNs);
      }
    }
    Reject(solution, /*by_bounds=*/true, alignment);
    CollectEvents(alignment);
    if (clocks_.size() > 1) {
      solution = Solve(1, 0);
      Reject(solution, /*by_bounds=*/false, alignment);
      CollectEvents(alignment);
      solution = Solve(1, 0);
    }
    for (const std::vector<Event>& events : events_) {
      alignment.collective_count += std::ssize(events);
    }
    for (const bool rejected : alignment.rejected) alignment.rejected_count += rejected ? 1 : 0;
    StateResidual(solution, alignment);
    StateSpread(solution, alignment);
    for (size_t member = 0; member < members_.size(); ++member) {
      alignment.members.push_back(ClockOf(member, solution, alignment));
      alignment.refined_count += alignment.members.back().basis == ClockBasis::kCollectives ? 1 : 0;
    }
    return alignment;
  }

 private:
  // By the member's clock less its probe, since the reference.
  double OwnTime(size_t member, int64_t time_ns) const {
    const ClockMember& of = members_[member];
    // The reference is the earliest.
    const uint64_t since_ns =
        static_cast<uint64_t>(of.start_unix_ns) - static_cast<uint64_t>(reference_unix_ns_);
    const ClockMember& probed = members_[clocks_[clock_of_[member]].first_member];
    double own_ns = static_cast<double>(since_ns) + static_cast<double>(time_ns);
    if (probed.probe.has_value()) own_ns -= static_cast<double>(probed.probe->offset_ns);
    return own_ns;
  }

  Event EventOf(const MatchedCollective& match, size_t index) const {
    Event event = {.match = index, .communicator = match.communicator};
    for (const MatchedCollective::Part& part : match.parts) {
      const CollectiveRow& row = members_[part.member].collectives->rows[part.row];
      const double start_ns = OwnTime(part.member, row.start_ns);
      event.is_numbered &= row.sequence >= 0;
      event.ends.push_back(
          {clock_of_[part.member], start_ns, start_ns + static_cast<double>(row.duration_ns)});
    }
    return event;
  }

  struct Shift {
    double needed_ns = 0;
    double bound_ns = 0;        // How far the two clocks may be apart; 0: they are one.
    bool are_measured = false;  // Both were.
  };

  // How much later the last rank began than the first one ended: what no collective can do. Below
  // 0: the times fit.
  Shift NeededShift(const Event& event, const Solution& solution) const {
    const auto corrected = [&](const Event::End& end, double time_ns) {
      return time_ns - solution.line(end.clock).At(time_ns);
    };
    const auto* last = &event.ends[0];
    const auto* first = &event.ends[0];
    for (const Event::End& end : event.ends) {
      if (corrected(end, end.start_ns) > corrected(*last, last->start_ns)) last = &end;
      if (corrected(end, end.time_ns) < corrected(*first, first->time_ns)) first = &end;
    }
    const HostClock& last_clock = clocks_[last->clock];
    const HostClock& first_clock = clocks_[first->clock];
    return {
        .needed_ns = corrected(*last, last->start_ns) - corrected(*first, first->time_ns),
        .bound_ns = last->clock == first->clock ? 0 : last_clock.bound_ns + first_clock.bound_ns,
        .are_measured = last_clock.is_probed && first_clock.is_probed};
  }

  // Whether collectives need clocks to be further apart than is plausible, and constant shifts of
  // the clocks make all fit.
  bool AreFarApart() {
    const bool is_probed = std::ranges::any_of(clocks_, &HostClock::is_probed);
    if (clocks_.size() < 2 || is_probed || all_events_.size() < kFewestToMoveFar) return false;
    // Without numbers, pairs may be off by a few, which looks like a shift of some steps.
    const bool is_numbered = std::ranges::all_of(all_events_, &Event::is_numbered);
    const double few_steps_ns = is_numbered ? 0 : kFewSteps * LongestInterval();
    const Solution as_read(clocks_.size());
    const auto is_too_far = [&](const Event& event) {
      const Shift shift = NeededShift(event, as_read);
      return shift.needed_ns > std::max(MostShift(shift, /*by_bounds=*/true), few_steps_ns);
    };
    if (std::ranges::none_of(all_events_, is_too_far)) return false;
    CollectEvents({.members = {}, .rejected = std::vector<bool>(MatchCount())});
    const Solution solution = Solve(1, 0);
    return std::ranges::all_of(all_events_, [&](const Event& event) {
      return NeededShift(event, solution).needed_ns <= kSlackNs;
    });
  }

  // Between a collective and the next one of its communicator.
  double LongestInterval() const {
    double longest_ns = 0;
    const Event* last = nullptr;
    for (const Event& event : all_events_) {  // By communicator, then in order.
      const bool follows = last != nullptr && last->communicator == event.communicator &&
                           last->ends[0].clock == event.ends[0].clock;
      if (follows) {
        longest_ns = std::max(longest_ns, std::abs(event.ends[0].time_ns - last->ends[0].time_ns));
      }
      last = &event;
    }
    return longest_ns;
  }

  size_t MatchCount() const { return all_events_.empty() ? 0 : all_events_.back().match + 1; }

  // The most that a collective may need. `by_bounds`: clocks are as measured; else they are
  // aligned. Aligned clocks follow when ranks end, which a busy machine delays by many
  // milliseconds: they do not contradict a collective that the bounds of measured clocks allow.
  static double MostShift(const Shift& shift, bool by_bounds) {
    if (by_bounds || shift.bound_ns == 0) return kSlackNs + shift.bound_ns;
    return shift.are_measured ? std::numeric_limits<double>::infinity() : kAlignedSlackNs;
  }

  // Nor do they contradict one that fits the clocks as they were read.
  void Reject(const Solution& solution, bool by_bounds, ClockAlignment& alignment) const {
    const Solution as_read(clocks_.size());
    std::map<uint32_t, std::pair<size_t, size_t>> counts;  // Rejected and all, by communicator.
    for (const Event& event : all_events_) {
      const Shift shift = NeededShift(event, solution);
      const double needed_ns = std::min(shift.needed_ns, NeededShift(event, as_read).needed_ns);
      if (needed_ns > MostShift(shift, by_bounds)) {
        alignment.rejected[event.match] = true;
        alignment.largest_shift_ns = std::max<int64_t>(alignment.largest_shift_ns,
                                                       std::llround(std::min(needed_ns, 9.2e18)));
      }
      auto& [rejected, all] = counts[event.communicator];
      rejected += alignment.rejected[event.match] ? 1 : 0;
      ++all;
    }
    for (const Event& event : all_events_) {
      const auto& [rejected, all] = counts[event.communicator];
      if (rejected * 2 > all) alignment.rejected[event.match] = true;
    }
  }

  // What clocks are aligned on.
  void CollectEvents(const ClockAlignment& alignment) {
    std::map<uint32_t, std::vector<const Event*>> usable;
    for (const Event& event : all_events_) {
      if (!alignment.rejected[event.match]) usable[event.communicator].push_back(&event);
    }
    events_.clear();
    for (const auto& [communicator, of_one] : usable) {
      const size_t stride = (of_one.size() + kMostPerCommunicator - 1) / kMostPerCommunicator;
      std::vector<Event>& events = events_.emplace_back();
      for (size_t i = 0; i < of_one.size(); i += stride) events.push_back(*of_one[i]);
    }
    std::stable_sort(events_.begin(), events_.end(),
                     [](const auto& a, const auto& b) { return a.size() > b.size(); });
  }

  Solution Solve(size_t stride, size_t phase) const {
    Solution solution(clocks_.size());
    std::vector<bool> anchors;
    for (const HostClock& clock : clocks_) anchors.push_back(clock.is_probed);
    for (const std::vector<Event>& events : events_) solution.Learn(events, stride, phase);
    solution.Join();
    solution.Anchor(anchors);
    return solution;
  }

  void StateResidual(const Solution& solution, ClockAlignment& alignment) const {
    if (clocks_.size() == 1) {
      alignment.residual_p50_ns = alignment.residual_p99_ns = 0;
      return;
    }
    std::vector<double> residuals = Disagreement();
    alignment.residual_p50_ns = RoundedPercentile(residuals, 50);
    alignment.residual_p99_ns = RoundedPercentile(residuals, 99);
    if (alignment.rejected_count == 0) return;
    std::vector<double> shifts;
    for (const Event& event : all_events_) {
      shifts.push_back(std::max(0.0, NeededShift(event, solution).needed_ns));
    }
    alignment.residual_p50_ns = std::max(alignment.residual_p50_ns, RoundedPercentile(shifts, 50));
    alignment.residual_p99_ns = std::max(alignment.residual_p99_ns, RoundedPercentile(shifts, 99));
  }

  // Between what the even and the odd collectives say of the clocks.
  std::vector<double> Disagreement() const {
    std::vector<double> residuals;
    if (events_.empty() || events_.front().size() < kFewestForResidual) return residuals;
    const Solution even = Solve(2, 0);
    const Solution odd = Solve(2, 1);
    const auto [begin_ns, end_ns] = Span();
    // Each half has half of the collectives, so that they differ by twice what all together err.
    for (size_t clock = 0; clock < clocks_.size(); ++clock) {
      if (even.group(clock) == Solution::kNone || odd.group(clock) == Solution::kNone) continue;
      for (const double time_ns : {begin_ns, (begin_ns + end_ns) / 2, end_ns}) {
        residuals.push_back(std::abs(even.line(clock).At(time_ns) - odd.line(clock).At(time_ns)) /
                            2);
      }
    }
    return residuals;
  }

  // From the first to the last collective that clocks are aligned on.
  std::pair<double, double> Span() const {
    double begin_ns = std::numeric_limits<double>::max();
    double end_ns = std::numeric_limits<double>::lowest();
    for (const std::vector<Event>& events : events_) {
      for (const Event& event : events) {
        begin_ns = std::min(begin_ns, event.ends[0].time_ns);
        end_ns = std::max(end_ns, event.ends[0].time_ns);
      }
    }
    return {begin_ns, end_ns};
  }

  void StateSpread(const Solution& solution, ClockAlignment& alignment) const {
    std::vector<double> distances;
    for (const Event& event : all_events_) {
      std::vector<double> ends;
      for (const Event::End& end : event.ends) {
        ends.push_back(end.time_ns - solution.line(end.clock).At(end.time_ns));
      }
      std::vector<double> sorted = ends;
      const double middle = Median(sorted);
      for (const double end : ends) distances.push_back(std::abs(end - middle));
    }
    alignment.spread_p50_ns = RoundedPercentile(distances, 50);
    alignment.spread_p99_ns = RoundedPercentile(distances, 99);
  }

  // Whether the collectives put the clock no further than it can be.
  bool IsWithinBound(size_t clock, const Solution& solution) const {
    const auto [begin_ns, end_ns] = Span();
    const double most_ns = clocks_[clock].bound_ns;
    return std::abs(solution.line(clock).At(begin_ns)) <= most_ns &&
           std::abs(solution.line(clock).At(end_ns)) <= most_ns;
  }

  AlignedClock ClockOf(size_t member, const Solution& solution,
                       const ClockAlignment& alignment) const {
    AlignedClock clock = {.reference_unix_ns = reference_unix_ns_};
    if (clocks_.size() == 1 && members_.size() > 1) {
      clock.basis = ClockBasis::kShared;
      clock.error_ns = 0;
      return clock;
    }
    const size_t host = clock_of_[member];
    const std::optional<ClockProbe>& probe = members_[clocks_[host].first_member].probe;
    double probed_ns = 0;
    if (probe.has_value()) {
      clock.basis = ClockBasis::kProbe;
      clock.error_ns = probe->bound_ns;
      probed_ns = static_cast<double>(probe->offset_ns);
    }
    if (solution.group(host) != Solution::kNone && IsWithinBound(host, solution)) {
      const Line& line = solution.line(host);
      clock.basis = ClockBasis::kCollectives;
      clock.error_ns = alignment.residual_p99_ns;
      clock.drift = line.slope;
      // The line's times have the probe taken off.
      clock.offset_ns = probed_ns + line.offset_ns - line.slope * probed_ns;
    } else {
      clock.offset_ns = probed_ns;
    }
    return clock;
  }

  const std::span<const ClockMember> members_;
  std::vector<uint32_t> clock_of_;  // By member.
  std::vector<HostClock> clocks_;
  int64_t reference_unix_ns_ = 0;
  std::vector<Event> all_events_;           // Of collectives that end on all ranks together.
  std::vector<std::vector<Event>> events_;  // Used; by communicator, the one with most first.
};

}  // namespace

std::string ClockHostOf(const CaptureRecord& record) {
  return record.imported.source.empty() ? record.node : std::string();
}

std::string_view ToString(ClockBasis basis) {
  switch (basis) {
    case ClockBasis::kWallClock:
      return "wall_clock";
    case ClockBasis::kProbe:
      return "probe";
    case ClockBasis::kCollectives:
      return "collectives";
    case ClockBasis::kShared:
      return "shared";
  }
  return "";
}

int64_t AlignedClock::ToCommon(int64_t unix_ns) const {
  int64_t since_ns = 0;
  if (__builtin_sub_overflow(unix_ns, reference_unix_ns, &since_ns)) return unix_ns;
  const double correction_ns = offset_ns + drift * static_cast<double>(since_ns);
  if (!(std::abs(correction_ns) < 9.2e18)) return unix_ns;
  int64_t common_ns = 0;
  return __builtin_sub_overflow(unix_ns, std::llround(correction_ns), &common_ns) ? unix_ns
                                                                                  : common_ns;
}

ClockAlignment AlignClocks(std::span<const ClockMember> members,
                           std::span<const MatchedCollective> matches) {
  if (members.empty()) return {};
  return Alignment(members, matches).Align(matches.size());
}

std::vector<MatchedCollective> AcceptedMatches(std::span<const MatchedCollective> matches,
                                               const ClockAlignment& alignment) {
  std::vector<MatchedCollective> accepted;
  for (size_t i = 0; i < matches.size(); ++i) {
    if (i >= alignment.rejected.size() || !alignment.rejected[i]) accepted.push_back(matches[i]);
  }
  return accepted;
}

}  // namespace profd::report
