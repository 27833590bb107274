#include "daemon/report/ranks/collective_match.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace profd::report {
namespace {

// What names a collective to all ranks.
struct MatchKey {
  Communicator communicator;
  CollectiveKind kind = CollectiveKind::kOther;
  // Of the communicator; without one, of the step, and the place in it.
  int64_t sequence = -1;
  int64_t step = -1;
  int64_t place = -1;
  int64_t elements = -1;

  friend bool operator==(const MatchKey&, const MatchKey&) = default;
  friend bool operator<(const MatchKey& a, const MatchKey& b) {
    return std::tie(a.communicator, a.kind, a.sequence, a.step, a.place, a.elements) <
           std::tie(b.communicator, b.kind, b.sequence, b.step, b.place, b.elements);
  }
};

struct MatchEntry {
  MatchKey key;
  MatchedCollective::Part part;
};

// Whose size may differ from rank to rank.
bool HasOwnSize(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllToAll:
    case CollectiveKind::kGather:
    case CollectiveKind::kScatter:
    case CollectiveKind::kAllGather:
    case CollectiveKind::kOther:
      return true;
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kBarrier:
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kReduce:
    case CollectiveKind::kSend:
    case CollectiveKind::kReceive:
      break;
  }
  return false;
}

bool IsBetweenTwo(CollectiveKind kind) {
  return kind == CollectiveKind::kSend || kind == CollectiveKind::kReceive;
}

using Ranks = std::tuple<int64_t, int64_t, int64_t>;
Ranks RanksOf(const Communicator& communicator) {
  return {communicator.size, communicator.first_rank, communicator.rank_stride};
}

// Which names distinguish groups of the same ranks. Of each group those that all members with these
// ranks use: id and name, or the name the program gave, or the id. A group without any is compared
// by its ranks alone: each member has a name of its own for it, which says nothing.
class SharedNames {
 public:
  explicit SharedNames(std::span<const CollectiveTable* const> members) {
    std::vector<std::set<Communicator>> rest;  // By member: groups without a shared name so far.
    rest.reserve(members.size());
    std::map<Ranks, int64_t> member_counts;
    for (const CollectiveTable* const member : members) {
      if (member == nullptr) continue;
      std::set<Ranks> ranks;
      for (const Communicator& communicator : member->communicators) {
        ranks.insert(RanksOf(communicator));
      }
      for (const Ranks& of_group : ranks) ++member_counts[of_group];
      rest.emplace_back(member->communicators.begin(), member->communicators.end());
    }
    for (const Names names : {Names::kBoth, Names::kName, Names::kId}) {
      FindShared(names, member_counts, rest);
    }
  }

  Communicator Of(const Communicator& communicator) const {
    const auto found = shared_.find(communicator);
    return With(communicator, found == shared_.end() ? Names::kNone : found->second);
  }

 private:
  enum class Names { kBoth, kName, kId, kNone };

  static Communicator With(Communicator communicator, Names names) {
    if (names == Names::kName || names == Names::kNone) communicator.id.clear();
    if (names == Names::kId || names == Names::kNone) communicator.name.clear();
    return communicator;
  }

  void FindShared(Names names, const std::map<Ranks, int64_t>& member_counts,
                  std::vector<std::set<Communicator>>& rest) {
    std::map<Communicator, int64_t> counts;
    for (const std::set<Communicator>& of_member : rest) {
      std::set<Communicator> named;
      for (const Communicator& communicator : of_member) {
        named.insert(With(communicator, names));
      }
      for (const Communicator& communicator : named) ++counts[communicator];
    }
    for (std::set<Communicator>& of_member : rest) {
      std::erase_if(of_member, [&](const Communicator& communicator) {
        const Communicator named = With(communicator, names);
        const bool has_name = !named.id.empty() || !named.name.empty();
        if (!has_name || counts[named] != member_counts.at(RanksOf(named))) return false;
        shared_.emplace(communicator, names);
        return true;
      });
    }
  }

  std::map<Communicator, Names> shared_;
};

void AddEntries(const CollectiveTable& table, uint32_t member, bool need_communicator,
                const SharedNames& names, std::vector<MatchEntry>& entries) {
  std::map<MatchKey, int64_t> places;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const CollectiveRow& row = table.rows[i];
    if (IsBetweenTwo(row.kind) || !row.has_completion) continue;
    MatchKey key = {.communicator = names.Of(table.communicators[row.communicator]),
                    .kind = row.kind};
    if (need_communicator && key.communicator.size == 0) continue;
    if (!HasOwnSize(row.kind)) key.elements = row.elements;
    if (row.sequence >= 0) {
      key.sequence = row.sequence;
    } else {
      key.step = row.step;
      key.place = places[key]++;
    }
    entries.push_back({key, {member, static_cast<uint32_t>(i)}});
  }
}

}  // namespace

std::vector<MatchedCollective> MatchCollectives(std::span<const CollectiveTable* const> members) {
  bool any_communicator = false;
  for (const CollectiveTable* const table : members) {
    if (table == nullptr) continue;
    for (const Communicator& communicator : table->communicators) {
      any_communicator |= communicator.size > 0;
    }
  }
  const SharedNames names(members);
  std::vector<MatchEntry> entries;
  for (size_t member = 0; member < members.size(); ++member) {
    if (members[member] == nullptr) continue;
    AddEntries(*members[member], static_cast<uint32_t>(member), any_communicator, names, entries);
  }
  std::sort(entries.begin(), entries.end(), [](const MatchEntry& a, const MatchEntry& b) {
    return std::tie(a.key, a.part.member, a.part.row) < std::tie(b.key, b.part.member, b.part.row);
  });

  std::vector<MatchedCollective> matches;
  std::map<Communicator, uint32_t> numbers;
  for (size_t begin = 0; begin < entries.size();) {
    size_t end = begin;
    bool is_unique = true;
    MatchedCollective match = {.kind = entries[begin].key.kind};
    for (; end < entries.size() && entries[end].key == entries[begin].key; ++end) {
      is_unique &= match.parts.empty() || match.parts.back().member != entries[end].part.member;
      match.parts.push_back(entries[end].part);
    }
    // More members than the communicator has: they are of several, which have no names.
    const int64_t ranks = entries[begin].key.communicator.size;
    const bool is_one = ranks == 0 || std::ssize(match.parts) <= ranks;
    if (is_unique && is_one && match.parts.size() > 1) {
      const auto number = static_cast<uint32_t>(numbers.size());
      match.communicator =
          numbers.try_emplace(entries[begin].key.communicator, number).first->second;
      matches.push_back(std::move(match));
    }
    begin = end;
  }
  std::stable_sort(matches.begin(), matches.end(),
                   [](const MatchedCollective& a, const MatchedCollective& b) {
                     return std::tie(a.communicator, a.parts[0].member, a.parts[0].row) <
                            std::tie(b.communicator, b.parts[0].member, b.parts[0].row);
                   });
  return matches;
}

}  // namespace profd::report
