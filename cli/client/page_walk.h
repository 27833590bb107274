// PageWalk ends a walk over the pages of a list, whatever the daemon answers. A daemon is not
// trusted to end its lists: it may be another user's, or taken over. A page may be empty and have a
// next one, because the daemon leaves out rows that do not match.
//
// All lists go through Impl::ForEachRow() (daemon_client_impl.h), which uses it.
//
// Threads: one. Errors: DATA_LOSS says which limit was reached.
#ifndef PROFD_CLI_CLIENT_PAGE_WALK_H_
#define PROFD_CLI_CLIENT_PAGE_WALK_H_

#include <cstdint>
#include <string_view>
#include <unordered_set>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"

namespace profd::cli {

// Of one list. No catalog that a daemon keeps has so much; a page of summaries may take minutes.
struct PageLimits {
  int64_t pages = 100'000;
  int64_t bytes = int64_t{1} << 30;
  absl::Duration time = absl::Hours(1);
};

class PageWalk {
 public:
  explicit PageWalk(const PageLimits& limits = PageLimits(), Clock& clock = Clock::Real());

  // Call after a page of `page_bytes` that has a next one. OK: it may be asked for.
  absl::Status Advance(int64_t page_bytes, std::string_view next_page_token);

 private:
  const PageLimits limits_;
  Clock& clock_;
  const absl::Duration begun_;
  int64_t pages_ = 0;
  int64_t bytes_ = 0;
  std::unordered_set<uint64_t> tokens_;  // Hashes: a token may be as long as an answer.
};

}  // namespace profd::cli

#endif  // PROFD_CLI_CLIENT_PAGE_WALK_H_
