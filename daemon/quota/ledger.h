// Ledger counts what each principal uses of each resource, and decides who gets more. It is the
// only place with this rule:
//
//   1. Root's reserve is for operators. The others together get the capacity minus the reserve
//      (minus what operators use, where that is more). A principal that is alone may use all of
//      that but the floor. Operators may use the whole capacity.
//   2. As soon as several accounts are active, each gets more only below its fair share: that
//      capacity divided by the number of active accounts. Within an account, the same holds
//      between its active jobs. So when a second principal asks, the largest holder gets no more.
//   3. Nothing is ever revoked. A holder above its share keeps what it has.
//   4. Some resources also have a limit per principal and per account (Limit::per_principal).
//   5. Some have a floor (Limit::floor): the last part of what is shared, so that a first holder
//      never takes all. An account that comes gets up to half of what is left of it, at once or
//      piece by piece. So each newcomer gets something.
//
// A principal is active for a resource while it holds some (unless the resource is durable), and
// for kActiveAfterAsking after each request, granted or not.
//
// Threads:   Any. Calls neither block nor call out.
// Ownership: `clock` must outlive the ledger, the ledger its reservations.
// Errors:    RESOURCE_EXHAUSTED (QUOTA_EXCEEDED). The message names the quota, the limit, and the
//            largest holder, as far as the asker may know it (NameFor() in principal.h).
#ifndef PROFD_DAEMON_QUOTA_LEDGER_H_
#define PROFD_DAEMON_QUOTA_LEDGER_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/quota/limits.h"
#include "daemon/quota/principal.h"
#include "daemon/quota/resources.h"

namespace profd::quota {

inline constexpr std::string_view kQuotaExceeded = "QUOTA_EXCEEDED";
inline constexpr absl::Duration kActiveAfterAsking = absl::Minutes(1);

class Ledger;

// An amount of one resource that one principal holds; returned when it is destroyed.
//
// Threads: one at a time.
class Reservation {
 public:
  Reservation() = default;  // Holds nothing.
  Reservation(Reservation&& other) noexcept { *this = std::move(other); }
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { Release(); }

  int64_t amount() const { return amount_; }
  // Returns all of it now.
  void Release();
  // Sets the amount to what was really used: never refused, also if it is more.
  void Resize(int64_t amount);
  // Ends the reservation and leaves the amount charged, for what outlives this object (a file,
  // a row). Ledger::Discharge() returns it.
  void Keep();

 private:
  friend class Ledger;
  Reservation(Ledger& ledger, Principal who, Resource resource, int64_t amount)
      : ledger_(&ledger), who_(std::move(who)), resource_(resource), amount_(amount) {}

  Ledger* ledger_ = nullptr;
  Principal who_;
  Resource resource_ = Resource::kTargets;
  int64_t amount_ = 0;
};

class Ledger {
 public:
  Ledger(const Limits& limits, Clock& clock) : clock_(clock), limits_(limits) {}
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Takes `amount` >= 0 for `who`, or refuses as above. For resources with a window, too: then
  // the use fades by itself, and the reservation returns nothing.
  absl::StatusOr<Reservation> Reserve(const Principal& who, Resource resource, int64_t amount);
  // Says whether Reserve() would succeed, without taking anything. Counts as a request.
  absl::Status Check(const Principal& who, Resource resource, int64_t amount);
  // The refusal of a request that the owner of the resource decided, because it may displace what
  // is held (storage). Counts as a request.
  absl::Status Refusal(const Principal& who, Resource resource, int64_t amount);
  // The most that Reserve() would grant now. Counts as a request.
  int64_t Available(const Principal& who, Resource resource);

  // For what has already happened: rows found at the start, time that a report took. Never
  // refused, and does not count as a request.
  void Charge(const Principal& who, Resource resource, int64_t amount);
  // Takes back at most what `who` has.
  void Discharge(const Principal& who, Resource resource, int64_t amount);
  // Replaces the use of `who`, where its owner counts anew.
  void SetUse(const Principal& who, Resource resource, int64_t amount);

  void SetLimit(Resource resource, const Limit& limit);
  Limit limit(Resource resource) const;
  int64_t Use(const Principal& who, Resource resource) const;
  int64_t TotalUse(Resource resource) const;

  struct Holding {
    Principal who;
    int64_t amount = 0;
    // What it may hold at most if it asks now: its fair share, or all that is shared.
    int64_t share = 0;
    bool active = false;
  };
  // The largest holder that is not an operator; nullopt: none holds anything. For eviction.
  std::optional<Holding> LargestHolder(Resource resource) const;

  struct ResourceUse {
    Resource resource;
    Limit limit;
    int64_t used = 0;
    int64_t refused_count = 0;      // Requests, since the start.
    std::vector<Holding> holdings;  // Above 0 or active; largest first.
  };
  // One entry per resource.
  std::vector<ResourceUse> Snapshot() const;

 private:
  friend class Reservation;

  struct Entry {
    Principal who;
    // As of `counted`, where the resource has a window.
    double used = 0;
    absl::Duration counted;
    absl::Duration asked = -absl::InfiniteDuration();
  };
  // By name. Entries that hold nothing and are not active are removed by requests.
  using Entries = std::map<std::string, Entry, std::less<>>;
  struct Book {
    Entries entries;
    int64_t refused_count = 0;
  };
  // How much of a resource is used, and by how many.
  struct Summary {
    struct Account {
      int64_t used = 0;
      int64_t active = 0;  // Its active principals.
    };
    int64_t operators = 0;                         // Used by operators.
    int64_t others = 0;                            // Used by all others.
    std::map<std::string_view, Account> accounts;  // Of all others.
  };
  // What decides about one request.
  struct Standing {
    int64_t operators = 0;          // Used by operators.
    int64_t others = 0;             // Used by all others.
    int64_t of_account = 0;         // Used by the asker's account, without operators.
    int64_t of_principal = 0;       // Used by the asker.
    int64_t active_accounts = 0;    // With the asker's.
    int64_t active_in_account = 0;  // With the asker.
  };

  Book& BookOf(Resource resource) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return books_.at(static_cast<size_t>(resource));
  }
  const Book& BookOf(Resource resource) const ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return books_.at(static_cast<size_t>(resource));
  }
  static int64_t UsedAt(const Entry& entry, Resource resource, absl::Duration now);
  static bool IsActive(const Entry& entry, Resource resource, absl::Duration now);
  static void Add(Entry& entry, Resource resource, int64_t amount, absl::Duration now);
  Entry& EntryOf(const Principal& who, Resource resource) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Summary Summarize(Resource resource, absl::Duration now) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  static Standing StandingOf(const Entry& entry, Resource resource, const Summary& summary,
                             absl::Duration now);
  Holding HoldingOf(const Entry& entry, Resource resource, const Summary& summary,
                    absl::Duration now) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // The most that `who` may hold in all, given how it stands.
  int64_t ShareOf(const Principal& who, Resource resource, const Standing& standing) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // The most that it would be granted on top of what it has.
  int64_t RoomFor(const Principal& who, Resource resource, const Standing& standing) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // The most that it would ever be granted at once, with nothing of the resource in use.
  static int64_t MostFor(const Principal& who, const Limit& limit);
  // Of `free`, what an account that holds `of_account` may have by rule 5.
  static int64_t RoomAboveFloor(const Limit& limit, int64_t free, int64_t of_account);
  Standing Ask(const Principal& who, Resource resource, absl::Duration now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<Holding> LargestLocked(Resource resource, absl::Duration now) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // kExcess: by how much all uses are too large, whatever was asked for.
  enum class AmountOf { kRequest, kExcess };
  absl::Status Refuse(const Principal& who, Resource resource, int64_t amount, AmountOf use,
                      const Standing& standing, absl::Duration now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Clock& clock_;
  mutable absl::Mutex mu_;
  Limits limits_ ABSL_GUARDED_BY(mu_);
  std::array<Book, kResourceCount> books_ ABSL_GUARDED_BY(mu_);
};

}  // namespace profd::quota

#endif  // PROFD_DAEMON_QUOTA_LEDGER_H_
