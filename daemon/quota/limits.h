// How much of each resource there is. Limits follow from the memory that profd may use, so a
// small cgroup gets small limits; settings of the operator replace them.
//
//   resource          limit, for M bytes of memory (memory_limit.h)        at 512 MiB   2 GiB
//   targets           M / 8 at 64 KiB each, 64 to 1024                           1024    1024
//   capture memory    M / 4, at most 512 MiB; plus root's reserve             192 MiB 576 MiB
//   live captures     M / 8 at 3 MiB each, 4 to 80                                 21      80
//   capture requests  1200 a minute; 300 a minute of one principal               1200    1200
//   storage           the setting max-storage
//   schedules         M / 16 at 128 KiB each, 32 to 256; half for one principal   256     256
//                     (with deleted ones that are kept)
//   imports           M / 8 at 8 MiB each, 2 to 8                                   8       8
//   waiting calls     M / 4 at 512 KiB each, 64 to 1024; 32 of one principal      256    1024
//   request memory    M / 16, 16 MiB to 128 MiB                                32 MiB 128 MiB
//   answer memory     M / 2, 64 MiB to 512 MiB                                 256 MiB 512 MiB
//   report time       600 s per 10 minutes (one report at a time)
//   audit log rows    200,000; 45,000 of one principal
//   local connections M / 8 at 64 KiB each, 64 to 1024                           1024    1024
//   remote            the setting max-connections; 128 of one principal
//
// Root's reserve is 1/8 of each, at least 1. Of capture memory it is 64 MiB, the default of one
// capture, but at most half of what the others get. It has none of storage and audit log rows,
// where the holders of most make room (store/catalog/eviction.h, Catalog::AppendAudit()), and none
// of remote connections: no remote caller is root.
//
// Of targets and of the memory of captures, requests, and answers, a quarter of what the others get
// is a floor for newcomers. Where one principal has a limit, so has one account: half of what is
// shared, but at least that of a principal.
#ifndef PROFD_DAEMON_QUOTA_LIMITS_H_
#define PROFD_DAEMON_QUOTA_LIMITS_H_

#include <array>
#include <cstdint>

#include "daemon/quota/resources.h"

namespace profd::quota {

struct Limit {
  int64_t capacity = 0;  // Everything, root's reserve included.
  int64_t reserve = 0;   // Of the capacity, for operators alone (Principal::is_operator).
  // Most of one principal that is not an operator, even if it is alone; 0: no such bound.
  int64_t per_principal = 0;
  // The same of one account with all its jobs, pods, and containers.
  int64_t per_account = 0;
  // The last part of what is shared, for accounts that hold little (rule 5 in ledger.h).
  int64_t floor = 0;

  friend bool operator==(const Limit&, const Limit&) = default;
};

// A capacity with root's usual reserve.
Limit LimitOf(Resource resource, int64_t capacity);

class Limits {
 public:
  // As above. `memory_bytes` > 0.
  static Limits ForMemory(int64_t memory_bytes);

  const Limit& of(Resource resource) const { return limits_.at(static_cast<size_t>(resource)); }
  // An explicit setting wins.
  void Set(Resource resource, const Limit& limit) {
    limits_.at(static_cast<size_t>(resource)) = limit;
  }
  void SetCapacity(Resource resource, int64_t capacity) {
    Set(resource, LimitOf(resource, capacity));
  }

 private:
  std::array<Limit, kResourceCount> limits_{};
};

}  // namespace profd::quota

#endif  // PROFD_DAEMON_QUOTA_LIMITS_H_
