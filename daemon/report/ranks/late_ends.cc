#include "daemon/report/ranks/late_ends.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "daemon/report/index/collective_names.h"

namespace profd::report {
namespace {

// When the first rank ended a collective, and the last one began it.
struct DoneTime {
  double first_end_ns = std::numeric_limits<double>::infinity();
  double last_start_ns = -std::numeric_limits<double>::infinity();

  // With clocks that are off, the first end may seem to come before the last start.
  double At() const { return std::max(first_end_ns, last_start_ns); }
  void Add(double start_ns, double end_ns, double bound_ns) {
    first_end_ns = std::min(first_end_ns, end_ns + bound_ns);
    last_start_ns = std::max(last_start_ns, start_ns + bound_ns);
  }
};

// 0..most. Not std::clamp(): a large integer may be larger as a double, and then fits no more.
int64_t LateBy(double late_ns, int64_t most_ns) {
  if (!(late_ns > static_cast<double>(kShortestLateEndNs))) return 0;
  return late_ns >= static_cast<double>(most_ns) ? most_ns : std::llround(late_ns);
}

}  // namespace

LateEnds::LateEnds(std::span<const ClockMember> members) : members_(members) {
  std::map<std::string, size_t> first_of_host;
  host_of_.reserve(members.size());
  for (size_t i = 0; i < members.size(); ++i) {
    const std::string& host = members[i].host;
    host_of_.push_back(host.empty() ? i : first_of_host.try_emplace(host, i).first->second);
  }
}

double LateEnds::OwnTime(size_t member, int64_t time_ns) const {
  // As unsigned, so that no times can overflow.
  const uint64_t since_ns = static_cast<uint64_t>(members_[member].start_unix_ns) -
                            static_cast<uint64_t>(members_[0].start_unix_ns);
  return static_cast<double>(static_cast<int64_t>(since_ns)) + static_cast<double>(time_ns);
}

std::vector<int64_t> LateEnds::Of(const MatchedCollective& match) const {
  std::vector<int64_t> late_ns(match.parts.size());
  const auto row_of = [&](const MatchedCollective::Part& part) -> const CollectiveRow& {
    return members_[part.member].collectives->rows[part.row];
  };
  const bool is_known =
      Synchronises(match.kind) && std::ranges::all_of(match.parts, [&](const auto& part) {
        return part.member < members_.size() && !row_of(part).on_device &&
               row_of(part).duration_ns >= 0;
      });
  if (!is_known) return late_ns;
  const auto start_of = [&](const MatchedCollective::Part& part) {
    return OwnTime(part.member, row_of(part).start_ns);
  };
  const auto end_of = [&](const MatchedCollective::Part& part) {
    return start_of(part) + static_cast<double>(row_of(part).duration_ns);
  };
  const auto bound_of = [](const ClockProbe& probe) {
    return std::abs(static_cast<double>(probe.bound_ns));
  };

  std::map<size_t, DoneTime> of_hosts;
  DoneTime of_probed;  // By measured clocks.
  for (const MatchedCollective::Part& part : match.parts) {
    of_hosts[host_of_[part.member]].Add(start_of(part), end_of(part), 0);
    const std::optional<ClockProbe>& probe = members_[part.member].probe;
    if (!probe.has_value()) continue;
    const auto offset_ns = static_cast<double>(probe->offset_ns);
    of_probed.Add(start_of(part) - offset_ns, end_of(part) - offset_ns, bound_of(*probe));
  }
  for (size_t i = 0; i < match.parts.size(); ++i) {
    const MatchedCollective::Part& part = match.parts[i];
    double most_ns = end_of(part) - of_hosts[host_of_[part.member]].At();
    if (const std::optional<ClockProbe>& probe = members_[part.member].probe) {
      const double own_ns = end_of(part) - static_cast<double>(probe->offset_ns) - bound_of(*probe);
      most_ns = std::max(most_ns, own_ns - of_probed.At());
    }
    late_ns[i] = LateBy(most_ns, row_of(part).duration_ns);
  }
  return late_ns;
}

}  // namespace profd::report
