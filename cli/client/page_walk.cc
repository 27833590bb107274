#include "cli/client/page_walk.h"

#include "daemon/base/stable_hash.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {

PageWalk::PageWalk(const PageLimits& limits, Clock& clock)
    : limits_(limits), clock_(clock), begun_(clock.Monotonic()) {}

absl::Status PageWalk::Advance(int64_t page_bytes, std::string_view next_page_token) {
  ++pages_;
  bytes_ += page_bytes;
  if (!tokens_.insert(StableHash().Add(next_page_token).Value()).second) {
    return absl::DataLossError(StrCat("a page token is repeated after ", pages_, " pages"));
  }
  if (pages_ >= limits_.pages) {
    return absl::DataLossError(StrCat("it has more than ", limits_.pages, " pages"));
  }
  if (bytes_ > limits_.bytes) {
    return absl::DataLossError(StrCat("it is larger than ", limits_.bytes >> 20, " MiB"));
  }
  if (clock_.Monotonic() - begun_ > limits_.time) {
    return absl::DataLossError(StrCat("it takes longer than ", absl::FormatDuration(limits_.time)));
  }
  return absl::OkStatus();
}

}  // namespace profd::cli
