// RateLimit: how often each principal may do something: a bucket of tokens each, filled all the
// time. A caller that has been quiet has a full bucket and is forgotten.
//
// Threads: any.
#ifndef PROFD_DAEMON_RPC_ADMISSION_RATE_LIMIT_H_
#define PROFD_DAEMON_RPC_ADMISSION_RATE_LIMIT_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace profd::rpc {

class RateLimit {
 public:
  RateLimit(double per_second, double burst) : per_second_(per_second), burst_(burst) {}

  // Takes a token of `principal`'s, if there is one. `now` is monotonic.
  bool Allow(std::string_view principal, absl::Duration now);

 private:
  struct Bucket {
    double tokens;
    absl::Duration filled;
  };
  double TokensAt(const Bucket& bucket, absl::Duration now) const;
  void ForgetTheQuiet(absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const double per_second_;
  const double burst_;
  absl::Mutex mu_;
  std::map<std::string, Bucket, std::less<>> buckets_ ABSL_GUARDED_BY(mu_);
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_ADMISSION_RATE_LIMIT_H_
