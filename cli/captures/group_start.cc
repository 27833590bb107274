#include "cli/captures/group_start.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "cli/base/flags.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/capture/group_types.h"

namespace profd::cli {
namespace {

// Where no member's steps have been timed yet. One that is shorter may make members miss the start.
constexpr int64_t kUnknownStepNs = 50'000'000;
// What rounding and a step that begins just now may take away.
constexpr int64_t kSpareSteps = 2;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

ClockOffset OffsetFrom(std::span<const ClockProbe> probes) {
  ClockOffset best;
  int64_t shortest = std::numeric_limits<int64_t>::max();
  // The node may have read its clock at any moment of the round trip: the shortest bounds it best.
  for (const ClockProbe& probe : probes) {
    const int64_t round_trip = probe.answered_unix_ns - probe.sent_unix_ns;
    if (round_trip < 0 || round_trip >= shortest) continue;  // Below 0: our clock was set.
    shortest = round_trip;
    best.offset_ns = probe.node_unix_ns - (probe.sent_unix_ns + round_trip / 2);
    best.bound_ns = CeilDiv(round_trip, 2);
  }
  return best;
}

int64_t FirstStepFor(std::span<const MemberPace> members, const CaptureSpec& spec,
                     absl::Duration lead, absl::Time now) {
  // Who has not been timed goes as fast as the fastest of the others: ranks march in step.
  int64_t fastest_ns = std::numeric_limits<int64_t>::max();
  for (const MemberPace& member : members) {
    if (member.median_step_ns > 0) fastest_ns = std::min(fastest_ns, member.median_step_ns);
  }
  if (fastest_ns == std::numeric_limits<int64_t>::max()) fastest_ns = kUnknownStepNs;
  int64_t furthest = 0;
  for (const MemberPace& member : members) {
    const int64_t step_ns = member.median_step_ns > 0 ? member.median_step_ns : fastest_ns;
    const int64_t until_ns =
        absl::ToInt64Nanoseconds(std::max(absl::ZeroDuration(), now - member.read) + lead);
    furthest = std::max(furthest, std::max<int64_t>(0, member.step) + CeilDiv(until_ns, step_ns));
  }
  return furthest + kSpareSteps + spec.wait_steps + spec.warmup_steps;
}

bool RunInStep(std::span<const MemberPace> members, absl::Duration lead, absl::Time now) {
  constexpr absl::Duration kLongestCatchUp = absl::Seconds(10);
  const int64_t furthest = FirstStepFor(members, {}, lead, now);
  return std::ranges::all_of(members, [&](const MemberPace& member) {
    const auto left = static_cast<double>(furthest - member.step);
    const absl::Duration read_ago = std::max(absl::ZeroDuration(), now - member.read);
    return left * absl::Nanoseconds(member.median_step_ns) <= read_ago + lead + kLongestCatchUp;
  });
}

std::optional<int64_t> WorldSizeOf(std::span<const TargetInfo> targets) {
  int64_t world_size = 0;
  for (const TargetInfo& target : targets) {
    // Next to a process without a rank, numbers of ranks do not say how many are missing.
    if (RankOf(target) < 0) return std::nullopt;
    const auto said = target.metadata.find("world_size");
    if (said == target.metadata.end()) continue;
    world_size = std::max(world_size, ParseInt(said->second).value_or(0));
  }
  if (world_size < 1 || world_size > kMaxGroupMembers) return std::nullopt;
  return world_size;
}

std::vector<TargetInfo> TakeOutOtherUsers(std::vector<TargetInfo>& targets) {
  std::map<int64_t, int64_t> known;
  std::map<int64_t, int64_t> all;
  for (const TargetInfo& target : targets) {
    ++all[target.uid];
    if (!target.workload.slurm_job.empty()) ++known[target.uid];
  }
  std::vector<TargetInfo> others;
  if (all.size() < 2) return others;
  const auto& counts = known.empty() ? all : known;
  const int64_t user =
      std::ranges::max_element(counts, {}, [](const auto& count) { return count.second; })->first;
  std::ranges::copy_if(targets, std::back_inserter(others),
                       [&](const TargetInfo& target) { return target.uid != user; });
  std::erase_if(targets, [&](const TargetInfo& target) { return target.uid != user; });
  return others;
}

std::string WhyOtherUser(const TargetInfo& target, std::string_view job) {
  return StrCat("pid ", target.pid, " is left out: it belongs to uid ", target.uid, ", and job ",
                ForDisplay(job, 80), " to another user");
}

std::vector<int64_t> AbsentRanks(std::span<const TargetInfo> targets) {
  const int64_t world_size = WorldSizeOf(targets).value_or(0);
  std::set<int64_t> present;
  for (const TargetInfo& target : targets) present.insert(RankOf(target));
  std::vector<int64_t> absent;
  for (int64_t rank = 0; rank < world_size; ++rank) {
    if (!present.contains(rank)) absent.push_back(rank);
  }
  return absent;
}

int64_t MembersAskedFor(int64_t members, int64_t unanswered_nodes,
                        std::optional<int64_t> world_size) {
  // Without a world size, a node that did not answer counts as one member.
  return world_size.has_value() ? std::max(members, *world_size) : members + unanswered_nodes;
}

absl::StatusOr<Quorum> QuorumFrom(std::string_view text) {
  if (text == "all") return Quorum{.percent = 100};
  const bool is_percent = text.ends_with('%');
  const absl::StatusOr<int64_t> number =
      ParseInt(is_percent ? text.substr(0, text.size() - 1) : text);
  const int64_t most = is_percent ? 100 : std::numeric_limits<int32_t>::max();
  if (!number.ok() || *number < 1 || *number > most) {
    return UsageError(StrCat("--quorum '", ForDisplay(text, 40),
                             "' is none of all, a number of processes, and a percentage"));
  }
  return is_percent ? Quorum{.percent = *number} : Quorum{.count = *number};
}

bool IsMet(const std::optional<Quorum>& quorum, int64_t prepared, int64_t asked) {
  if (prepared == 0) return false;
  if (!quorum.has_value()) return true;
  if (quorum->count > 0) return prepared >= quorum->count;
  return prepared >= CeilDiv(asked * quorum->percent, 100);
}

}  // namespace profd::cli
