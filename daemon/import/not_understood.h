// NotUnderstood counts what of a trace did not get into the capture, by kind; of more kinds than
// ImportRecord may have, the later ones together.
//
// Threads: one.
#ifndef PROFD_DAEMON_IMPORT_NOT_UNDERSTOOD_H_
#define PROFD_DAEMON_IMPORT_NOT_UNDERSTOOD_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "daemon/base/text.h"

namespace profd::importer {

class NotUnderstood {
 public:
  static constexpr size_t kMaxKinds = 64;
  static constexpr std::string_view kOther = "(other)";

  void Count(std::string_view untrusted_kind, int64_t by = 1) {
    const std::string kind = ForDisplay(untrusted_kind, kMaxKindBytes);
    const auto found = counts_.find(kind);
    if (found != counts_.end()) {
      found->second += by;
    } else if (counts_.size() + 1 < kMaxKinds) {
      counts_.emplace(kind, by);
    } else {
      counts_[std::string(kOther)] += by;
    }
  }
  const std::map<std::string, int64_t>& counts() const { return counts_; }

 private:
  static constexpr size_t kMaxKindBytes = 80;
  std::map<std::string, int64_t> counts_;
};

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_NOT_UNDERSTOOD_H_
