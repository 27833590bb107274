#include "daemon/rpc/admission/rate_limit.h"

#include <algorithm>

namespace profd::rpc {
namespace {

constexpr size_t kManyBuckets = 1024;

}  // namespace

double RateLimit::TokensAt(const Bucket& bucket, absl::Duration now) const {
  return std::min(burst_, bucket.tokens + absl::ToDoubleSeconds(now - bucket.filled) * per_second_);
}

void RateLimit::ForgetTheQuiet(absl::Duration now) {
  std::erase_if(buckets_, [&](const auto& entry) { return TokensAt(entry.second, now) >= burst_; });
}

bool RateLimit::Allow(std::string_view principal, absl::Duration now) {
  absl::MutexLock lock(&mu_);
  if (buckets_.size() >= kManyBuckets) ForgetTheQuiet(now);
  auto it = buckets_.find(principal);
  if (it == buckets_.end()) {
    it = buckets_.emplace(std::string(principal), Bucket{.tokens = burst_, .filled = now}).first;
  }
  Bucket& bucket = it->second;
  bucket.tokens = TokensAt(bucket, now);
  bucket.filled = now;
  if (bucket.tokens < 1) return false;
  bucket.tokens -= 1;
  return true;
}

}  // namespace profd::rpc
