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

// The groups of a member that have the same ranks.
using GroupsOfRanks = std::map<std::tuple<int64_t, int64_t, int64_t>, std::set<Communicator>>;
std::tuple<int64_t, int64_t, int64_t> RanksOf(const Communicator& communicator) {
  return {communicator.size, communicator.first_rank, communicator.rank_stride};
}

// Which names distinguish groups of the same ranks: those that all members use. Members that have
// no name in common with the first one that has the ranks have names of their own, which say
// nothing.
class SharedNames {
 public:
  explicit SharedNames(std::span<const CollectiveTable* const> members) {
    GroupsOfRanks first;
    for (const CollectiveTable* const member : members) {
      if (member == nullptr) continue;
      GroupsOfRanks groups;
      for (const Communicator& communicator : member->communicators) {
        groups[RanksOf(communicator)].insert(communicator);
      }
      for (auto& [ranks, named] : groups) {
        const auto [at, is_first] = first.try_emplace(ranks, named);
        const bool has_common =
            is_first || std::ranges::any_of(named, [&](const Communicator& communicator) {
              return at->second.contains(communicator);
            });
        if (!has_common) nameless_.insert(ranks);
      }
    }
  }
  Communicator Of(Communicator communicator) const {
    if (nameless_.contains(RanksOf(communicator))) {
      communicator.id.clear();
      communicator.name.clear();
    }
    return communicator;
  }

 private:
  std::set<std::tuple<int64_t, int64_t, int64_t>> nameless_;
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
