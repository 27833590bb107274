#include "daemon/quota/ledger.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>

#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"

namespace profd::quota {

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  Release();
  ledger_ = std::exchange(other.ledger_, nullptr);
  who_ = std::move(other.who_);
  resource_ = other.resource_;
  amount_ = std::exchange(other.amount_, 0);
  return *this;
}

void Reservation::Release() {
  if (ledger_ != nullptr) std::exchange(ledger_, nullptr)->Discharge(who_, resource_, amount_);
  amount_ = 0;
}

void Reservation::Resize(int64_t amount) {
  if (ledger_ == nullptr) return;
  if (amount > amount_) ledger_->Charge(who_, resource_, amount - amount_);
  if (amount < amount_) ledger_->Discharge(who_, resource_, amount_ - amount);
  amount_ = amount;
}

void Reservation::Keep() {
  ledger_ = nullptr;
  amount_ = 0;
}

// ---- use ----

int64_t Ledger::UsedAt(const Entry& entry, Resource resource, absl::Duration now) {
  const absl::Duration window = InfoOf(resource).window;
  if (window == absl::ZeroDuration()) return static_cast<int64_t>(entry.used);
  // Use fades by a factor of e per window. Steady use of r per second then counts as r times the
  // window, which takes one number instead of a list of times.
  const double windows = absl::FDivDuration(now - entry.counted, window);
  return std::llround(entry.used * std::exp(-windows));
}

bool Ledger::IsActive(const Entry& entry, Resource resource, absl::Duration now) {
  if (now - entry.asked < kActiveAfterAsking) return true;
  return !InfoOf(resource).durable && UsedAt(entry, resource, now) > 0;
}

void Ledger::Add(Entry& entry, Resource resource, int64_t amount, absl::Duration now) {
  const absl::Duration window = InfoOf(resource).window;
  if (window != absl::ZeroDuration()) {
    entry.used *= std::exp(-absl::FDivDuration(now - entry.counted, window));
    entry.counted = now;
  }
  entry.used = std::max(0.0, entry.used + static_cast<double>(amount));
}

Ledger::Entry& Ledger::EntryOf(const Principal& who, Resource resource) {
  Entries& entries = BookOf(resource).entries;
  const auto it = entries.find(who.name);
  if (it != entries.end()) return it->second;
  Entry entry;
  entry.who = who;
  entry.counted = clock_.Monotonic();
  return entries.emplace(who.name, std::move(entry)).first->second;
}

Ledger::Summary Ledger::Summarize(Resource resource, absl::Duration now) const {
  Summary summary;
  for (const auto& [name, entry] : BookOf(resource).entries) {
    const int64_t used = UsedAt(entry, resource, now);
    if (entry.who.is_operator) {
      summary.operators += used;
      continue;
    }
    summary.others += used;
    Summary::Account& account = summary.accounts[entry.who.account];
    account.used += used;
    if (IsActive(entry, resource, now)) ++account.active;
  }
  return summary;
}

Ledger::Standing Ledger::StandingOf(const Entry& entry, Resource resource, const Summary& summary,
                                    absl::Duration now) {
  Standing standing{.operators = summary.operators,
                    .others = summary.others,
                    .of_principal = UsedAt(entry, resource, now)};
  standing.active_accounts = std::ranges::count_if(
      summary.accounts, [](const auto& account) { return account.second.active > 0; });
  const auto account = summary.accounts.find(entry.who.account);
  if (entry.who.is_operator || account == summary.accounts.end()) return standing;
  standing.of_account = account->second.used;
  standing.active_in_account = account->second.active;
  if (!IsActive(entry, resource, now)) {  // It would be, if it asked.
    if (standing.active_in_account == 0) ++standing.active_accounts;
    ++standing.active_in_account;
  }
  return standing;
}

Ledger::Holding Ledger::HoldingOf(const Entry& entry, Resource resource, const Summary& summary,
                                  absl::Duration now) const {
  const Standing standing = StandingOf(entry, resource, summary, now);
  return {.who = entry.who,
          .amount = standing.of_principal,
          .share = ShareOf(entry.who, resource, standing),
          .active = IsActive(entry, resource, now)};
}

// ---- the rule ----

int64_t Ledger::ShareOf(const Principal& who, Resource resource, const Standing& standing) const {
  const Limit& limit = limits_.of(resource);
  if (who.is_operator) return limit.capacity;
  int64_t share = limit.capacity - std::max(limit.reserve, standing.operators);
  if (standing.active_accounts > 1) share = std::max<int64_t>(1, share / standing.active_accounts);
  if (standing.active_in_account > 1) {
    share = std::max<int64_t>(1, share / standing.active_in_account);
  }
  if (limit.per_principal > 0) share = std::min(share, limit.per_principal);
  share = std::min(share, limit.capacity - limit.reserve - limit.floor);
  return std::max<int64_t>(0, share);
}

int64_t Ledger::MostFor(const Principal& who, const Limit& limit) {
  if (who.is_operator) return limit.capacity;
  int64_t most = limit.capacity - limit.reserve - limit.floor;
  if (limit.per_principal > 0) most = std::min(most, limit.per_principal);
  if (limit.per_account > 0) most = std::min(most, limit.per_account);
  return most;
}

int64_t Ledger::RoomAboveFloor(const Limit& limit, int64_t free, int64_t of_account) {
  // Of what is left of the floor an account may take as much as it then leaves to others. So each
  // newcomer finds some, although less than the one before.
  const int64_t left = std::min(free, limit.floor);
  const int64_t most = std::min((left + of_account + 1) / 2, (limit.floor + 1) / 2);
  return std::max(free - limit.floor, most - of_account);
}

int64_t Ledger::RoomFor(const Principal& who, Resource resource, const Standing& standing) const {
  const Limit& limit = limits_.of(resource);
  const int64_t total = standing.operators + standing.others;
  if (who.is_operator) return std::max<int64_t>(0, limit.capacity - total);
  const int64_t shared = limit.capacity - std::max(limit.reserve, standing.operators);
  const int64_t free = shared - standing.others;
  int64_t room = std::min(free, ShareOf(who, resource, standing) - standing.of_principal);
  if (limit.floor > 0) room = std::min(room, RoomAboveFloor(limit, free, standing.of_account));
  if (limit.per_account > 0) room = std::min(room, limit.per_account - standing.of_account);
  if (standing.active_accounts > 1) {
    const int64_t of_account = std::max<int64_t>(1, shared / standing.active_accounts);
    room = std::min(room, of_account - standing.of_account);
  }
  return std::max<int64_t>(0, room);
}

Ledger::Standing Ledger::Ask(const Principal& who, Resource resource, absl::Duration now) {
  // Each request walks over all principals of the resource anyway. Those that hold nothing go now,
  // so their number stays that of the active ones.
  std::erase_if(BookOf(resource).entries, [&](const auto& entry) {
    return UsedAt(entry.second, resource, now) == 0 && !IsActive(entry.second, resource, now);
  });
  Entry& entry = EntryOf(who, resource);
  entry.asked = now;
  return StandingOf(entry, resource, Summarize(resource, now), now);
}

absl::StatusOr<Reservation> Ledger::Reserve(const Principal& who, Resource resource,
                                            int64_t amount) {
  absl::MutexLock lock(&mu_);
  const absl::Duration now = clock_.Monotonic();
  const Standing standing = Ask(who, resource, now);
  if (amount > RoomFor(who, resource, standing)) {
    return Refuse(who, resource, amount, AmountOf::kRequest, standing, now);
  }
  Add(EntryOf(who, resource), resource, amount, now);
  // Use that fades is not given back.
  if (InfoOf(resource).window != absl::ZeroDuration()) return Reservation();
  return Reservation(*this, who, resource, amount);
}

absl::Status Ledger::Check(const Principal& who, Resource resource, int64_t amount) {
  absl::MutexLock lock(&mu_);
  const absl::Duration now = clock_.Monotonic();
  const Standing standing = Ask(who, resource, now);
  if (amount <= RoomFor(who, resource, standing)) return absl::OkStatus();
  return Refuse(who, resource, amount, AmountOf::kRequest, standing, now);
}

absl::Status Ledger::Refusal(const Principal& who, Resource resource, int64_t amount) {
  absl::MutexLock lock(&mu_);
  const absl::Duration now = clock_.Monotonic();
  return Refuse(who, resource, amount, AmountOf::kExcess, Ask(who, resource, now), now);
}

int64_t Ledger::Available(const Principal& who, Resource resource) {
  absl::MutexLock lock(&mu_);
  const absl::Duration now = clock_.Monotonic();
  return RoomFor(who, resource, Ask(who, resource, now));
}

absl::Status Ledger::Refuse(const Principal& who, Resource resource, int64_t amount, AmountOf use,
                            const Standing& standing, absl::Duration now) {
  ++BookOf(resource).refused_count;
  const ResourceInfo& info = InfoOf(resource);
  const Limit& limit = limits_.of(resource);
  const auto text = [resource](int64_t of) { return FormatAmount(resource, of); };
  const int64_t share = ShareOf(who, resource, standing);
  const int64_t most = MostFor(who, limit);
  const bool is_too_much = use == AmountOf::kRequest && amount > most && most > 0;
  std::string message = StrCat(
      "quota '", info.title, "' of ", NameFor(who, who), " is exceeded: it asks for ", text(amount),
      is_too_much ? StrCat(" (at most ", text(most), " can ever be had)") : std::string(), ", has ",
      text(standing.of_principal), ", and may have ", text(share), "; in use are ",
      text(standing.operators + standing.others), " of ", text(limit.capacity));
  if (!who.is_operator && limit.reserve > 0) {
    StrAppend(&message, " (", text(limit.reserve), " reserved for root)");
  }
  const int64_t others = standing.active_accounts + standing.active_in_account - 2;
  if (!who.is_operator && others > 0) {
    StrAppend(&message, ", shared with ", others, others == 1 ? " other" : " others");
  }
  if (const std::optional<Holding> largest = LargestLocked(resource, now)) {
    StrAppend(&message, "; largest holder: ", NameFor(who, largest->who), " with ",
              text(largest->amount));
  }
  if (standing.operators > 0) StrAppend(&message, "; root holds ", text(standing.operators));
  if (is_too_much) {
    StrAppend(&message, "; ask for less");
  } else {
    StrAppend(&message, info.durable ? "; delete some and retry" : "; retry later");
  }
  return WithReason(absl::ResourceExhaustedError(message), kQuotaExceeded);
}

// ---- what has already happened ----

void Ledger::Charge(const Principal& who, Resource resource, int64_t amount) {
  absl::MutexLock lock(&mu_);
  Add(EntryOf(who, resource), resource, amount, clock_.Monotonic());
}

void Ledger::Discharge(const Principal& who, Resource resource, int64_t amount) {
  absl::MutexLock lock(&mu_);
  Entries& entries = BookOf(resource).entries;
  const auto it = entries.find(who.name);
  if (it == entries.end()) return;
  const absl::Duration now = clock_.Monotonic();
  Add(it->second, resource, -amount, now);
  if (UsedAt(it->second, resource, now) == 0 && !IsActive(it->second, resource, now)) {
    entries.erase(it);
  }
}

void Ledger::SetUse(const Principal& who, Resource resource, int64_t amount) {
  absl::MutexLock lock(&mu_);
  const absl::Duration now = clock_.Monotonic();
  Entry& entry = EntryOf(who, resource);
  entry.used = static_cast<double>(std::max<int64_t>(0, amount));
  entry.counted = now;
  if (amount <= 0 && !IsActive(entry, resource, now)) BookOf(resource).entries.erase(who.name);
}

// ---- asking ----

void Ledger::SetLimit(Resource resource, const Limit& limit) {
  absl::MutexLock lock(&mu_);
  limits_.Set(resource, limit);
}

Limit Ledger::limit(Resource resource) const {
  absl::MutexLock lock(&mu_);
  return limits_.of(resource);
}

int64_t Ledger::Use(const Principal& who, Resource resource) const {
  absl::MutexLock lock(&mu_);
  const auto it = BookOf(resource).entries.find(who.name);
  if (it == BookOf(resource).entries.end()) return 0;
  return UsedAt(it->second, resource, clock_.Monotonic());
}

int64_t Ledger::TotalUse(Resource resource) const {
  absl::MutexLock lock(&mu_);
  const absl::Duration now = clock_.Monotonic();
  int64_t total = 0;
  for (const auto& [name, entry] : BookOf(resource).entries) total += UsedAt(entry, resource, now);
  return total;
}

std::optional<Ledger::Holding> Ledger::LargestLocked(Resource resource, absl::Duration now) const {
  const Entry* largest = nullptr;
  int64_t amount = 0;
  for (const auto& [name, entry] : BookOf(resource).entries) {
    const int64_t used = UsedAt(entry, resource, now);
    if (entry.who.is_operator || used <= amount) continue;
    largest = &entry;
    amount = used;
  }
  if (largest == nullptr) return std::nullopt;
  return HoldingOf(*largest, resource, Summarize(resource, now), now);
}

std::optional<Ledger::Holding> Ledger::LargestHolder(Resource resource) const {
  absl::MutexLock lock(&mu_);
  return LargestLocked(resource, clock_.Monotonic());
}

std::vector<Ledger::ResourceUse> Ledger::Snapshot() const {
  absl::MutexLock lock(&mu_);
  const absl::Duration now = clock_.Monotonic();
  std::vector<ResourceUse> uses;
  for (const ResourceInfo& info : AllResources()) {
    const Book& book = BookOf(info.resource);
    ResourceUse use{.resource = info.resource,
                    .limit = limits_.of(info.resource),
                    .refused_count = book.refused_count,
                    .holdings = {}};
    const Summary summary = Summarize(info.resource, now);
    use.used = summary.operators + summary.others;
    for (const auto& [name, entry] : book.entries) {
      Holding holding = HoldingOf(entry, info.resource, summary, now);
      if (holding.amount > 0 || holding.active) use.holdings.push_back(std::move(holding));
    }
    std::ranges::sort(use.holdings, [](const Holding& a, const Holding& b) {
      return std::tie(b.amount, a.who.name) < std::tie(a.amount, b.who.name);
    });
    uses.push_back(std::move(use));
  }
  return uses;
}

}  // namespace profd::quota
